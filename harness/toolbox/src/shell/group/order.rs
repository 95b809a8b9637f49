//! The messages between a program and the supervisor of one of its commands: one order, then reports.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The maximum size of an order, in bytes. No system accepts a longer command and environment.
const LONGEST: usize = 16 * 1024 * 1024;

/// The command to run.
#[derive(Debug, PartialEq)]
pub(super) struct CommandOrder {
    /// The folder in which the command starts; `None` for the supervisor's own folder.
    pub(super) folder: Option<PathBuf>,
    pub(super) command: OsString,
    /// The complete environment of the command.
    pub(super) variables: Vec<(OsString, OsString)>,
}

impl CommandOrder {
    /// Encodes the order: its length, then each part followed by a 0 byte.
    ///
    /// # Errors
    /// Fails if a part contains a 0 byte, or if the order exceeds the maximum size.
    pub(super) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let Self { folder, command, variables } = self;
        let folder = folder.as_deref().unwrap_or(Path::new("")).as_os_str();
        let mut parts: Vec<&OsStr> = vec![folder, command];
        for (name, value) in variables {
            parts.extend([name.as_os_str(), value]);
        }
        let mut body = Vec::new();
        for part in parts {
            if part.as_bytes().contains(&0) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            body.extend(part.as_bytes());
            body.push(0);
        }
        let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= LONGEST);
        let length = length.ok_or(io::ErrorKind::ArgumentListTooLong)?;
        Ok([length.to_le_bytes().as_slice(), &body].concat())
    }

    /// Reads an order.
    ///
    /// # Errors
    /// Fails if the connection is closed, or if the bytes are no order.
    pub(super) async fn read(line: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let length = usize::try_from(line.read_u32_le().await?).map_err(|_| wrong())?;
        if length > LONGEST {
            return Err(wrong());
        }
        let mut body = vec![0; length];
        line.read_exact(&mut body).await?;
        let body = body.strip_suffix(&[0]).ok_or_else(wrong)?;
        let mut parts = body.split(|byte| *byte == 0).map(|part| OsString::from_vec(part.to_vec()));
        let folder = parts.next().filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let command = parts.next().ok_or_else(wrong)?;
        let mut variables = Vec::new();
        while let Some(name) = parts.next() {
            variables.push((name, parts.next().ok_or_else(wrong)?));
        }
        Ok(Self { folder, command, variables })
    }
}

/// A report of the supervisor about its order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SupervisorReport {
    /// The order was read, and the command may run from now on. The supervisor sends this report before it starts the
    /// command, because the command can kill the supervisor.
    Begins,
    /// The command was not started. The value is the system's error number.
    NotStarted(i32),
    /// The command and all its processes have ended. The value is the raw exit status of the system.
    Ended(i32),
}

impl SupervisorReport {
    pub(super) fn to_bytes(self) -> [u8; 5] {
        let (kind, [a, b, c, d]) = match self {
            Self::Begins => (b'B', [0; 4]),
            Self::NotStarted(error) => (b'N', error.to_le_bytes()),
            Self::Ended(status) => (b'E', status.to_le_bytes()),
        };
        [kind, a, b, c, d]
    }

    /// Reads a report.
    ///
    /// # Errors
    /// Fails if the connection is closed, or if the bytes are no report.
    pub(super) async fn read(line: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let kind = line.read_u8().await?;
        let number = line.read_i32_le().await?;
        match kind {
            b'B' => Ok(Self::Begins),
            b'N' => Ok(Self::NotStarted(number)),
            b'E' => Ok(Self::Ended(number)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> CommandOrder {
        CommandOrder {
            folder: Some("/tmp/a b".into()),
            command: OsString::from_vec(b"echo \xff\nx".to_vec()),
            variables: vec![("A".into(), "1=2".into()), ("EMPTY".into(), "".into())],
        }
    }

    #[tokio::test]
    async fn an_order_arrives_as_it_was_given() {
        for order in [
            order(),
            CommandOrder { folder: None, ..order() },
            CommandOrder { folder: None, command: "".into(), variables: Vec::new() },
        ] {
            let bytes = order.to_bytes().unwrap();
            assert_eq!(CommandOrder::read(&mut bytes.as_slice()).await.unwrap(), order);
        }
        for report in
            [SupervisorReport::Begins, SupervisorReport::NotStarted(7), SupervisorReport::Ended(-1)]
        {
            let bytes = report.to_bytes();
            assert_eq!(SupervisorReport::read(&mut bytes.as_slice()).await.unwrap(), report);
        }
    }

    #[tokio::test]
    async fn what_is_no_order_is_refused_and_never_a_panic() {
        let whole = order().to_bytes().unwrap();
        for end in 0..whole.len() {
            assert!(CommandOrder::read(&mut &whole[..end]).await.is_err(), "cut at {end}");
        }
        let body = |body: &[u8]| [&u32::try_from(body.len()).unwrap().to_le_bytes(), body].concat();
        let endless = [0xff; 64].to_vec();
        // Orders without an end, without a command, or with a name that has no value.
        for bytes in [body(b""), body(b"a"), body(b"a\0"), body(b"a\0b\0c\0"), endless] {
            assert!(CommandOrder::read(&mut bytes.as_slice()).await.is_err(), "{bytes:?}");
        }
        assert!(SupervisorReport::read(&mut b"?0000".as_slice()).await.is_err());
        let kind = |order: CommandOrder| order.to_bytes().unwrap_err().kind();
        assert_eq!(
            kind(CommandOrder { command: "a\0b".into(), ..order() }),
            io::ErrorKind::InvalidInput
        );
        let long = "x".repeat(LONGEST).into();
        let long = CommandOrder { command: long, ..order() };
        assert_eq!(kind(long), io::ErrorKind::ArgumentListTooLong);
    }
}

//! Asks the person at the terminal.

use std::{
    fs::{File, OpenOptions},
    future::Future,
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    pin::Pin,
};

use rustix::fs::OFlags;
use tokio::io::unix::AsyncFd;

use super::{Approval, ApprovalQuestion, Approver};

/// Asks the person at the terminal of this program: shows the call and takes `y`, `n`, or `a` for
/// *always for this tool*.
///
/// It talks to the terminal itself, not to standard input and output, so it works also when these
/// are redirected. Without a terminal the answer is no. Taking the question back leaves no thread
/// behind.
///
/// ```no_run
/// use harness::{Agent, AnthropicProvider, policy::TerminalApprover, toolbox::bash, tools};
///
/// let agent = Agent::builder(AnthropicProvider::from_env()?)
///     .tools(tools![bash])
///     .approver(TerminalApprover::default())
///     .build()?;
/// # Ok::<(), harness::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TerminalApprover {
    device: PathBuf,
}

impl Default for TerminalApprover {
    fn default() -> Self {
        Self::on("/dev/tty")
    }
}

impl TerminalApprover {
    /// Asks at another terminal, by its device.
    pub fn on(device: impl Into<PathBuf>) -> Self {
        Self { device: device.into() }
    }

    async fn answer(&self, question: ApprovalQuestion<'_>) -> io::Result<Approval> {
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let terminal =
            OpenOptions::new().read(true).write(true).custom_flags(flags).open(&self.device)?;
        let terminal = AsyncFd::register(terminal)?;
        let (name, arguments) = (question.call.name(), visible(question.call.arguments()));
        let shown = format!("{}({arguments}) declares {}.\n", visible(name), question.effects);
        say(&terminal, &shown).await?;
        loop {
            say(&terminal, "Run it? [y]es, [n]o, [a]lways this tool: ").await?;
            match line(&terminal).await?.as_deref().map(str::trim) {
                None | Some("n" | "no" | "N") => {
                    return Ok(Approval::No("the person at the terminal said no".to_owned()));
                }
                Some("y" | "yes" | "Y") => return Ok(Approval::Yes),
                Some("a" | "always" | "A") => return Ok(Approval::Always),
                Some(_) => {}
            }
        }
    }
}

impl Approver for TerminalApprover {
    fn ask<'a>(
        &'a self,
        question: ApprovalQuestion<'a>,
    ) -> Pin<Box<dyn Future<Output = Approval> + Send + 'a>> {
        Box::pin(async move {
            self.answer(question).await.unwrap_or_else(|err| {
                let device = self.device.display();
                Approval::No(format!("nobody could be asked at the terminal {device}: {err}"))
            })
        })
    }
}

async fn say(terminal: &AsyncFd<File>, words: &str) -> io::Result<()> {
    let mut rest = words.as_bytes();
    while !rest.is_empty() {
        let mut ready = terminal.writable().await?;
        if let Ok(written) = ready.try_io(|terminal| terminal.get_ref().write(rest)) {
            rest = rest.get(written?..).unwrap_or_default();
        }
    }
    Ok(())
}

/// The next line, or nothing at the end of the input.
async fn line(terminal: &AsyncFd<File>) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let mut piece = [0; 256];
    loop {
        let mut ready = terminal.readable().await?;
        let Ok(read) = ready.try_io(|terminal| terminal.get_ref().read(&mut piece)) else {
            continue;
        };
        match piece.get(..read?) {
            None | Some([]) => return Ok(None),
            Some(more) => line.extend_from_slice(more),
        }
        if line.ends_with(b"\n") {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
    }
}

/// The text with everything spelled out that a terminal would obey instead of show, so that what
/// is approved is what is seen.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let hides = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
        if c.is_control() || hides {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn nothing_that_a_terminal_obeys_is_passed_on() {
        assert_eq!(visible("ls \u{1b}[2K\u{202e}x\r"), "ls \\u{1b}[2K\\u{202e}x\\u{d}");
        assert_eq!(visible("grüße 世界"), "grüße 世界");
    }
}

//! A service over standard input and output, or over other pipes.

use rmcp::{ServerHandler, ServiceExt as _, service::QuitReason};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    McpService,
    in_flight::{InFlight, UniqueIdTransport},
    pipes::PipeTransport,
};
use harness_core::error::{Error, ErrorKind};

impl<H: ServerHandler> McpService<H> {
    /// Serves one client over standard input and output, until the input ends.
    ///
    /// Only the protocol uses standard output. While the service runs, the output of tools and of their child processes
    /// goes to standard error.
    ///
    /// # Errors
    /// Fails if a tool is not valid, if two tools have the same name, if a value that a tool needs is missing, if a
    /// setting is not valid, and if standard output cannot be used. Also fails if the session does not start, for
    /// example because the first message is no message of the protocol, or if its task panics.
    pub async fn serve_stdio(self) -> Result<(), Error> {
        #[cfg(unix)]
        {
            let held = StdoutGuard::take().map_err(|err| {
                Error::new(ErrorKind::Connect, format!("the standard output cannot be used: {err}"))
            })?;
            let ended = self.serve(tokio::io::stdin(), held.output()?).await;
            drop(held);
            ended
        }
        #[cfg(not(unix))]
        self.serve(tokio::io::stdin(), tokio::io::stdout()).await
    }

    /// Serves one client over these pipes, such as the two halves of a socket, until the input ends. Dropping the
    /// future ends the session and stops its calls.
    ///
    /// # Errors
    /// Fails for the same reasons as [`serve_stdio`](Self::serve_stdio).
    pub async fn serve(
        self,
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<(), Error> {
        let most = self.settings.request;
        let serving = self.serving()?;
        let pipes =
            UniqueIdTransport::new(PipeTransport::new(read, write, most), InFlight::default());
        let running = serving.serve(pipes).await.map_err(|err| {
            Error::new(ErrorKind::Protocol, format!("no session has begun: {err}"))
        })?;
        match running.waiting().await {
            Ok(QuitReason::JoinError(err)) | Err(err) => {
                Err(Error::new(ErrorKind::Panicked, format!("the session has ended: {err}")))
            }
            Ok(_) => Ok(()),
        }
    }
}

/// Reserves standard output for the protocol, until dropped.
#[cfg(unix)]
struct StdoutGuard {
    output: std::fs::File,
}

#[cfg(unix)]
impl StdoutGuard {
    fn take() -> std::io::Result<Self> {
        let output = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3)?;
        rustix::stdio::dup2_stdout(std::io::stderr())?;
        Ok(Self { output: output.into() })
    }

    fn output(&self) -> Result<tokio::fs::File, Error> {
        let again = self.output.try_clone().map_err(|err| {
            Error::new(ErrorKind::Connect, format!("the standard output cannot be used: {err}"))
        })?;
        Ok(tokio::fs::File::from_std(again))
    }
}

#[cfg(unix)]
impl Drop for StdoutGuard {
    fn drop(&mut self) {
        // From now on, the program's output goes to standard output again.
        let _ = rustix::stdio::dup2_stdout(&self.output);
    }
}

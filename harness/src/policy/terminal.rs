//! Asks the person at the terminal.

use std::{
    fs::{File, OpenOptions},
    future::Future,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    pin::Pin,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{QueueSelector, tcflush},
};
use tokio_util::sync::CancellationToken;

use super::{Approval, ApprovalQuestion, Approver};

/// How long the terminal is listened to before it is asked whether the question still stands.
const LISTEN: Duration = Duration::from_millis(50);

/// Asks the person at the terminal of this program: shows the call and takes `y`, `n`, or `a` for
/// *always for this tool*.
///
/// It talks to the terminal itself, not to standard input and output, so it works also when these
/// are redirected. Without a terminal the answer is no. Keys that were pressed before the question
/// was there are no answer to it, and are dropped. When the question is taken back, the thread that
/// listens ends within 50 ms and reads no key any more.
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
        let (name, arguments) = (question.call.name(), visible(question.call.arguments()));
        let shown = format!("{}({arguments}) declares {}.\n", visible(name), question.effects);
        let device = self.device.clone();
        let taken_back = CancellationToken::new();
        let _take_back = taken_back.clone().drop_guard();
        let asked = move || converse(&device, &shown, &taken_back);
        tokio::task::spawn_blocking(asked).await.unwrap_or_else(|err| Err(io::Error::other(err)))
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

fn converse(device: &Path, shown: &str, taken_back: &CancellationToken) -> io::Result<Approval> {
    let mut terminal = OpenOptions::new().read(true).write(true).open(device)?;
    // A device that is no terminal has no queue of keys.
    let _ = tcflush(&terminal, QueueSelector::IFlush);
    terminal.write_all(shown.as_bytes())?;
    loop {
        terminal.write_all(b"Run it? [y]es, [n]o, [a]lways this tool: ")?;
        match line(&mut terminal, taken_back)?.as_deref().map(str::trim) {
            None | Some("n" | "no" | "N") => {
                return Ok(Approval::No("the person at the terminal said no".to_owned()));
            }
            Some("y" | "yes" | "Y") => return Ok(Approval::Yes),
            Some("a" | "always" | "A") => return Ok(Approval::Always),
            Some(_) => {}
        }
    }
}

/// The next line, or nothing at the end of the input or when the question was taken back.
fn line(terminal: &mut File, taken_back: &CancellationToken) -> io::Result<Option<String>> {
    let wait = Timespec::try_from(LISTEN).map_err(io::Error::other)?;
    let mut line = Vec::new();
    let mut piece = [0; 256];
    while !taken_back.is_cancelled() {
        if poll(&mut [PollFd::new(terminal, PollFlags::IN)], Some(&wait))? == 0 {
            continue;
        }
        // Who asked may be listening to the keys himself by now.
        if taken_back.is_cancelled() {
            break;
        }
        let read = terminal.read(&mut piece)?;
        match piece.get(..read) {
            None | Some([]) => return Ok(None),
            Some(more) => line.extend_from_slice(more),
        }
        if line.ends_with(b"\n") {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
    }
    Ok(None)
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

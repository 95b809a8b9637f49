//! The approver: waits for its turn at the terminal, and asks there.

use std::{future::Future, io, path::PathBuf, pin::Pin};

use super::{pages::ask, standing::talk_at};
use crate::policy::{Approval, Approver, Question};

/// Asks the person at the terminal of this program whether a call may run. It exists on Unix only.
///
/// It shows the whole question: through which agents it came, the tool, what it declares, who asks and
/// why, the folder, each argument by its JSON pointer with its decoded value on rows of its own, the
/// preview, and what *always* can stand for.
///
/// - **What is seen is what runs.** Everything in a value that is not plainly visible is spelled out:
///   controls, invisible and bidirectional characters, letters that are written from right to left,
///   unusual spaces, letters of another script inside a word, long runs of spaces. What stands behind a
///   bar is a value, so no value can look like a part of the question. The terminal's modes are reset
///   first.
/// - **Nothing is off the screen in silence.** What does not fit is shown page by page, and *yes* counts
///   only at the last one. Pages that were passed over are counted beside the prompt. A terminal that
///   has changed its size is shown the question anew.
/// - **One question at a time** stands on a terminal, whoever asks: several chats, agents inside
///   agents, several approvers, also by other names of the same device. They come in the order in which
///   they were asked.
/// - **An answer counts for the question that is shown.** Keys that were pressed before are dropped. A
///   question that is taken back says so on the screen, and before the next one is shown the person
///   presses Enter, so a key that was meant for the one does not answer the other.
///
/// | typed | means |
/// |---|---|
/// | `y` | it may run |
/// | `n`, `n` and words | it may not; the model reads the words |
/// | `a` | it may run, and exactly this call from now on in this conversation |
/// | `1`, `2`, .. | it may run, and so may what this wider scope says, if the tool offers one |
/// | `s` | show it again from the beginning |
/// | Enter | the next page; on the last one, that page again |
/// | `e` | the last page |
///
/// It talks to the terminal itself, not to standard input and output, so it works also when these
/// are redirected. Without a terminal the answer is no. A thread waits for the keys. When the question
/// is taken back, nothing is written or read from that moment on, and the thread ends within 50 ms.
///
/// A program that shares the terminal should neither read keys nor write to it from
/// [`Event::ToolCall`](crate::Event::ToolCall) of a tool that asks until the call goes on. If it writes
/// all the same, the prompt still names the tool and a hash of the call, and `s` shows the question
/// again. What comes from a model or a tool is written with [`visible`](super::visible()).
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

    async fn answer(&self, question: &Question) -> io::Result<Approval> {
        let asked = question.clone();
        let talk = move |talk: &_, pen, opening| ask(talk, pen, &asked, opening);
        talk_at(&self.device, Some(&question.conversation), talk).await
    }
}

impl Approver for TerminalApprover {
    fn ask<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Approval> + Send + 'a>> {
        Box::pin(async move {
            let device = self.device.display();
            match self.answer(question).await {
                Ok(approval) => approval.by(format!("the person at {device}")),
                Err(err) => {
                    question.no(format!("nobody could be asked at the terminal {device}: {err}"))
                }
            }
        })
    }
}

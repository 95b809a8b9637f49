//! The approver at a terminal: it waits for its turn and asks there.

use std::{future::Future, io, path::PathBuf, pin::Pin};

use super::{pages::ask, standing::talk_at};
use harness_core::policy::{Approval, ApprovalRequest, Approver};

/// Asks the person at the terminal of this program whether a call may run. Feature `terminal`, on Unix
/// only.
///
/// It shows the whole question: the agents through which it came, the tool, each argument of the model by its name
/// with its decoded value (in bold letters), the defaults of the tool on one line, who asks and why, the declared
/// side effects, the folder, the preview, and the scopes of *always*:
///
/// ```text
/// May this call run? (5c0d6b1f)
///     tool | bash
///      arg | command: ls | wc -l
/// defaults | timeout_seconds: 30
///      why | it declares `read, write, network, mutate`
///      [a] | exactly this call of bash
/// bash 5c0d6b1f: run it? [y]es, [n]o, [a]lways this, [s]how again:
/// ```
///
/// - **What is shown is what runs.** Everything in a value that is not plainly visible is escaped: control,
///   invisible and bidirectional characters, letters that are written from right to left, unusual spaces, letters
///   of another script inside a word, long runs of spaces. Values stand behind a bar, so no value can look like a
///   part of the question. It stands on an empty screen: text before is scrolled away, and the colours and modes that it
///   has set, also those of the keyboard, are reset.
/// - **Nothing is hidden off the screen.** A question that does not fit is shown page by page, and *yes* is
///   accepted only at the last page. The prompt says how many pages were skipped. If the terminal changes its size,
///   the question is shown anew.
/// - **One question at a time** is shown on a terminal, whoever asks: several chats, agents inside agents, several
///   approvers, also under other names of the same device, and several processes, of which those that wait show nothing.
///   The questions of one process come in the order in which they were asked. Processes wait for each other by a lock
///   (`flock`) of the device, which the system frees when a process ends; where the system locks no devices, only the
///   questions of one process wait. A process that is stopped (Ctrl-Z) while it asks keeps the lock; on Linux, those that
///   wait for it name it on the standard error.
/// - **An answer counts for the question that is shown.** The prompt for a *yes* appears one second after the rest of the
///   question. Keys that were pressed before are dropped, and the question says so and is shown again. If a question
///   is withdrawn, the screen says so, and the person presses Enter before the next one is shown, so a key that was
///   meant for the first does not answer the second.
/// - **Only what is still on the screen is answered.** If anything else was written to the terminal since the page was
///   shown, by this program or another one, any answer but *no* shows the page again. Linux tells of such writes; on
///   other systems the prompt still names the tool and a hash of the call.
///
/// | typed | means |
/// |---|---|
/// | `y` | the call may run |
/// | `n`, `n` and words | the call may not run; the model reads the words |
/// | `a` | the call may run, and exactly this call may run from now on in this conversation |
/// | `1`, `2`, .. | the call may run, and so may all calls of this wider scope, if the tool offers one |
/// | `s` | show the question again from the beginning |
/// | Enter | the next page; on the last one, that page again |
/// | `e` | the last page |
///
/// It uses the terminal itself, not standard input and output, so it also works when these are redirected. Without
/// a terminal the answer is no. A thread waits for the keys. When the question is withdrawn, nothing is written or
/// read from that moment on, and the thread ends within 50 ms.
///
/// A program that shares the terminal should neither read keys nor write to it from the
/// `Event::ToolCall` of a tool that asks until the call goes on: as long as it writes, no
/// answer counts. Write text that comes from a model or a tool with [`visible`](super::visible()).
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
    /// Asks at another terminal, given by its device.
    pub fn on(device: impl Into<PathBuf>) -> Self {
        Self { device: device.into() }
    }

    async fn answer(&self, question: &ApprovalRequest) -> io::Result<Approval> {
        let asked = question.clone();
        let talk = move |talk: &_, pen, opening| ask(talk, pen, &asked, opening);
        talk_at(&self.device, Some(&question.conversation), talk).await
    }
}

impl Approver for TerminalApprover {
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest,
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

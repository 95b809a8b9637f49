//! The approver at a terminal: it waits until the terminal is free, and requests the approval there.

use std::{future::Future, io, path::PathBuf, pin::Pin};

use super::{pages::ask, standing::talk_at};
use harness_core::policy::{Approval, ApprovalRequest, Approver};

/// Lets the person at the terminal of this program decide whether a call may run. Feature `terminal`, on Unix only.
///
/// The approver shows the whole approval request: the agents that lead to the call, the tool, each argument of the
/// model with its name and its decoded value (in bold letters), the defaults of the tool on one line, the source and
/// reason of the request, the declared side effects, the folder, the preview, and the scopes of *always*:
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
/// - **What is shown is what runs.** Everything in a value that is not plainly visible is escaped: control, invisible
///   and bidirectional characters, letters of right-to-left scripts, unusual spaces, letters of another script inside a
///   word, long runs of spaces. Each value is behind a bar, so no value can look like a part of the request. The
///   request starts on an empty screen. The approver scrolls earlier text away, and resets all colours and modes that
///   this text has set, including modes of the keyboard.
/// - **Nothing is hidden off the screen.** A request that does not fit is shown page by page, and *yes* is accepted
///   only at the last page. The prompt says how many pages were skipped. If the size of the terminal changes, the
///   request is shown again.
/// - **A terminal shows one request at a time**, from any source: several chats, agents inside agents, several
///   processes, and several approvers, even if they use different names of the same device. Waiting requests show
///   nothing. A process shows its requests in the order of their arrival. Processes wait for each other with a lock
///   (`flock`) on the device, which the system releases when a process ends. Where the system cannot lock devices, only
///   the requests of one process wait for each other. A process that is stopped (Ctrl-Z) while it shows a request keeps
///   the lock. On Linux, the waiting processes name the stopped process on standard error.
/// - **An answer counts for the request that is shown.** The prompt for a *yes* appears one second after the rest of
///   the request. Keys that were pressed before are dropped, and the request is shown again with a note. If a request
///   is withdrawn, the approver shows a note, and waits for Enter before it shows the next request. So a key for the
///   withdrawn request does not answer the next request.
/// - **An answer counts only for what is still on the screen.** If this or another program has written to the terminal
///   since the page was shown, any answer but *no* shows the page again. Linux reports such writes. On other systems,
///   the prompt still names the tool and a hash of the call.
///
/// | typed | means |
/// |---|---|
/// | `y` | the call may run |
/// | `n`, `n` and words | the call may not run; the model reads the words |
/// | `a` | the call may run, and exactly this call may run from now on in this conversation |
/// | `1`, `2`, .. | the call may run, and from now on all calls of the wider scope with this number, if the tool offers it |
/// | `s` | show the question again from the beginning |
/// | Enter | the next page; on the last page, the same page again |
/// | `e` | the last page |
///
/// The approver uses the terminal itself, not standard input and output. So the approver also works if standard input
/// and output are redirected. Without a terminal, the answer is no. A thread waits for keys. After a request is
/// withdrawn, its thread neither writes nor reads, and ends within 50 ms.
///
/// A program that shares the terminal should neither read keys nor write to the terminal between the `Event::ToolCall`
/// of a tool that needs approval and the continuation of that call: while the program writes, no answer counts. Write
/// text from a model or a tool with [`visible`](super::visible()).
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
    /// Creates an approver for another terminal, given by its device.
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

//! A request at a terminal, from the beginning of its turn until its answer. The request runs on a thread. The request
//! is withdrawn when its caller no longer waits.

use std::{io, path::Path, sync::Arc, time::Instant};

use super::{
    device::OpenTerminal,
    pages::{QuestionOpening, TerminalPen},
    talk::{TalkEnd, TerminalTalk},
    turns::{TerminalTurn, turn_at},
};

/// Runs `talk` at a terminal when it is this request's turn. `conversation` is the conversation from which the request
/// comes, if there is one.
pub(super) async fn talk_at<T: Send + 'static>(
    device: &Path,
    conversation: Option<&str>,
    talk: impl FnOnce(&TerminalTalk, TerminalPen, QuestionOpening) -> Result<T, TalkEnd>
    + Send
    + 'static,
) -> io::Result<T> {
    let terminal = OpenTerminal::open(device)?;
    let turn = turn_at(terminal.identity).await;
    let pen = TerminalPen::of(terminal.identity);
    ShownQuestion { talk: Arc::new(TerminalTalk::new(terminal)), pen, turn }
        .answer(conversation, talk)
        .await
}

/// A request that is shown at a terminal. Dropping this value withdraws the request.
struct ShownQuestion {
    talk: Arc<TerminalTalk>,
    pen: TerminalPen,
    /// The next request gets its turn when this value is dropped.
    turn: TerminalTurn,
}

impl ShownQuestion {
    async fn answer<T: Send + 'static>(
        mut self,
        conversation: Option<&str>,
        ask: impl FnOnce(&TerminalTalk, TerminalPen, QuestionOpening) -> Result<T, TalkEnd>
        + Send
        + 'static,
    ) -> io::Result<T> {
        let before = conversation.and_then(|it| self.turn.conversation.replace(it.to_owned()));
        let opening = QuestionOpening {
            after_one_taken_back: self.turn.taken_back.is_some(),
            names_chat: before.is_some_and(|before| Some(before.as_str()) != conversation),
        };
        let (talk, pen) = (Arc::clone(&self.talk), self.pen);
        let ended = self.turn.ended;
        let asked = move || {
            talk.claim(ended)?;
            ask(&talk, pen, opening)
        };
        let answer = tokio::task::spawn_blocking(asked).await;
        match answer.map_err(io::Error::other)? {
            Ok(answer) => {
                self.turn.taken_back = None;
                self.talk.end(b"");
                Ok(answer)
            }
            Err(TalkEnd::Failed(err)) => Err(err),
            Err(TalkEnd::TakenBack) => Err(io::Error::other("the question was taken back")),
        }
    }
}

impl Drop for ShownQuestion {
    fn drop(&mut self) {
        if self.talk.end(self.pen.taken_back().as_bytes()) {
            self.turn.taken_back = Some(Arc::clone(&self.talk));
        }
        self.turn.ended = Some(Instant::now());
    }
}

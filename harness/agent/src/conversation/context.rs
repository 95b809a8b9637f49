//! The methods of [`Chat`] for its context: how much is sent, pins, and summaries that the program requests.

use super::chat::Chat;
use crate::{
    compaction::{context_edit::context_use, summarize::compact_now},
    run::driver::RunDriver,
};
use harness_core::{
    context::ContextUse,
    error::{Error, ErrorKind},
    journal::Fact,
    message::Transcript,
};

impl Chat {
    /// How much of the model's window is used, and what could be cleared. The numbers are estimates, corrected
    /// by the vendor's counts. [`Reply::context`](crate::Reply::context) has the numbers of the last request.
    ///
    /// ```
    /// use harness::{Agent, context::Window, testing::{ScriptedProvider, reply}};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([reply().text("Hello.").tokens(1_000, 2)]);
    /// let agent = Agent::builder(model).window(Window::new().tokens(8_000)).build()?;
    /// let mut chat = agent.chat();
    /// chat.send("Say hello.").await?;
    /// let context = chat.context();
    /// assert_eq!(context.window, Some(8_000));
    /// assert!(context.used > 1_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn context(&self) -> ContextUse {
        context_use(&self.state)
    }

    /// Keeps this text for the whole conversation: each summary contains the text unchanged. The model does not
    /// get the text before there is a summary, so also send it in a message if the model needs it now. In a
    /// conversation in a journal, the text is written with the next run, or at once by [`save`](Self::save).
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply, summary}};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([reply().text("Hm. ".repeat(500)), summary("none")]);
    /// let mut chat = Agent::builder(model).build()?.chat();
    /// chat.pin("The order is A-17.")?;
    /// chat.send("Think aloud.").await?;
    /// let context = chat.compact().await?;
    /// assert_eq!(context.summed_up, 2);
    /// let sent = chat.sent().messages();
    /// assert_eq!(sent[0].text(), "Think aloud.");
    /// assert!(sent[1].text().contains("The order is A-17."));
    /// assert_eq!(chat.transcript().messages().len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Configuration`] if the text is empty.
    pub fn pin(&mut self, text: impl Into<String>) -> Result<(), Error> {
        let text = text.into();
        if text.trim().is_empty() {
            let why = "`Chat::pin` was given an empty text: pass the words to keep";
            return Err(Error::new(ErrorKind::Configuration, why));
        }
        self.state.record(&Fact::ContextPinned { text })
    }

    /// The part of the [transcript](Self::transcript) that is sent to the agent's model: all of it, until
    /// results are cleared or the oldest part is summarized.
    pub fn sent(&self) -> &Transcript {
        self.state.sent_view().sent
    }

    /// Requests a summary of the oldest part of the conversation now. The cost of the summary counts for the
    /// conversation. The newest turns and the messages of the user are kept, up to a share of the current
    /// request. So in a short conversation, the newest answer may be summarized too. Returns the use of the
    /// window after the summary. If the future is dropped before the summary is complete, the context does not
    /// change. A complete summary is used at once, and is written by the next run or by [`save`](Self::save).
    ///
    /// # Errors
    /// Fails, and does not change the context:
    /// - with [`ErrorKind::Transcript`] if there is nothing that a summary could replace, too little was added
    ///   since the last summary, or calls wait for results,
    /// - with [`ErrorKind::ContextFull`] if the model has failed twice to write a summary that is short enough,
    ///   or the part that must be kept is too large,
    /// - with [`ErrorKind::Limit`] if a limit of the conversation or of the program is reached, or if the
    ///   summary takes longer than a run may.
    ///
    /// If the journal cannot be written, the method fails with the journal's error. In this case the summary is
    /// used, and the next run or [`save`](Self::save) writes it.
    pub async fn compact(&mut self) -> Result<ContextUse, Error> {
        compact_now(&mut RunDriver::between_runs(&mut self.state)).await?;
        self.state.save().await?;
        Ok(self.context())
    }
}

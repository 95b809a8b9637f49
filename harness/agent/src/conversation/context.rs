//! What is sent of a conversation: how much it is, pins, and summaries by hand.

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
    /// How full the model's window is, and what could be cleared. The numbers are estimates,
    /// corrected by what the vendor has counted. [`Reply::context`](crate::Reply::context) has the
    /// numbers of the last request.
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

    /// Keeps this text for good: each summary of the conversation contains it unchanged. Until
    /// there is a summary, the model does not get the text, so also tell the model what it has to
    /// know. A conversation in a journal writes the text with the next run, or at once by
    /// [`save`](Self::save).
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

    /// What is sent of the [transcript](Self::transcript) to the model of this agent: all of it,
    /// until results are cleared or its oldest part is summarized.
    pub fn sent(&self) -> &Transcript {
        self.state.sent_view().sent
    }

    /// Lets the model summarize the oldest part of the conversation now. The conversation pays for
    /// it. The shares of the newest turns and of the user's words are shares of what is sent, so in a
    /// short conversation the newest answer may be summarized too. Returns how full the window is
    /// afterwards. Dropping the future before the summary has come leaves what is sent unchanged.
    /// Once it has come, it is in use, and the next run or [`save`](Self::save) writes it.
    ///
    /// # Errors
    /// Fails, and leaves what is sent unchanged: with [`ErrorKind::Transcript`] if there is nothing
    /// that a summary could replace, too little was said since the last summary, or calls wait for
    /// results; with [`ErrorKind::ContextFull`] if the model has failed twice to make a summary
    /// that is short enough, or what must be kept is too large; and with [`ErrorKind::Limit`] if a
    /// limit of the conversation or of the program is reached, or if it takes longer than a run
    /// may. If the journal cannot be written, it fails with the journal's error: then the summary
    /// is in use, and the next run or [`save`](Self::save) writes it.
    pub async fn compact(&mut self) -> Result<ContextUse, Error> {
        compact_now(&mut RunDriver::between_runs(&mut self.state)).await?;
        self.state.save().await?;
        Ok(self.context())
    }
}

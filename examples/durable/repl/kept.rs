//! The conversations of the journal: the one that goes on here, and the list of all.

use std::{
    fs::{DirBuilder, OpenOptions},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use harness::{
    Agent, Chat, Error, Role, Transcript,
    agent::{Machine, Run},
    journal::{
        ConversationInfo, ConversationPage, ConversationQuery, Journal as _, Metadata,
        SqliteJournal,
    },
    provider::{Effort, Settings},
};

use crate::{
    left::left,
    program,
    screen::{cut, one_line},
};

/// Conversations that are listed at once.
const PAGE: usize = 10;
/// Characters of a first message that are the title.
const TITLE: usize = 50;
/// Letters of a name. There are so many names that no two conversations get the same one.
const NAME: usize = 10;

/// The journal, and the conversation in it that the person is in.
pub(crate) struct Kept {
    agent: Agent,
    journal: SqliteJournal,
    pub(crate) chat: Chat,
    /// How much the model thinks, if the person says it.
    pub(crate) thinking: Option<Effort>,
    /// What the numbers of the last list stand for.
    listed: Vec<ConversationInfo>,
    /// The page that was listed last.
    page: Option<ConversationPage>,
}

impl Kept {
    /// Opens the journal and begins a conversation, of which nothing is kept until something is said.
    ///
    /// # Errors
    /// Fails if no file is given and there is no place for one, or if the file cannot be opened.
    pub(crate) async fn open(agent: Agent, file: Option<PathBuf>) -> anyhow::Result<Self> {
        let file = match file {
            Some(file) => file,
            None => usual_file()?,
        };
        make_private(&file);
        let journal = SqliteJournal::open(file).await?;
        let chat = agent.open(&journal, new_name()).await?;
        Ok(Self { agent, journal, chat, thinking: None, listed: Vec::new(), page: None })
    }

    /// Says something to the model, which thinks as much as the person says.
    pub(crate) fn send(&mut self, text: &str) -> Run<'_> {
        let settings = self.settings();
        self.chat.send(text).settings(settings)
    }

    /// Goes on with the run that came to no answer.
    pub(crate) fn go_on(&mut self) -> Run<'_> {
        let settings = self.settings();
        self.chat.resume().settings(settings)
    }

    fn settings(&self) -> Settings {
        Settings { effort: self.thinking, ..Settings::default() }
    }

    /// Where the conversations are kept.
    pub(crate) fn place(&self) -> String {
        self.journal.path().display().to_string()
    }

    /// The name of the conversation that the person is in.
    pub(crate) fn name(&self) -> &str {
        self.chat.conversation().unwrap_or_default()
    }

    /// Writes what a run has left that was stopped or could not be written. A conversation in which nothing
    /// has happened here stays as it was: to look at it does not count as going on.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub(crate) async fn save(&mut self) -> anyhow::Result<()> {
        self.chat.save().await.context("the end of this conversation is not kept")
    }

    /// Leaves the conversation for another one.
    async fn leave_for(&mut self, chat: Chat) -> anyhow::Result<()> {
        self.save().await?;
        self.chat = chat;
        Ok(())
    }

    /// Begins another conversation.
    ///
    /// # Errors
    /// Fails if the journal does.
    pub(crate) async fn begin(&mut self) -> anyhow::Result<String> {
        let chat = self.agent.open(&self.journal, new_name()).await?;
        self.leave_for(chat).await?;
        Ok("A new conversation begins.".to_owned())
    }

    /// Gives the conversation a title if this is the first thing that is said in it.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub(crate) async fn entitle(&mut self, said: &str) -> Result<(), Error> {
        match self.chat.facts() {
            0 => self.chat.describe(&titled(said)).await,
            _ => Ok(()),
        }
    }

    /// Goes on with the conversation that changed last.
    ///
    /// # Errors
    /// As those of [`resume`](Self::resume).
    pub(crate) async fn newest(&mut self) -> anyhow::Result<String> {
        let mut listing = ConversationQuery::new().limit(PAGE);
        loop {
            let page = self.journal.list(&listing).await?;
            if let Some(newest) = page.conversations.iter().find(|it| it.facts > 0) {
                return self.resume_named(&newest.id).await;
            }
            if page.next.is_none() {
                return Ok("No conversation is kept yet, so a new one begins.".to_owned());
            }
            listing = listing.after(&page);
        }
    }

    /// Goes on with another conversation, by its number in the list or by its name, and says what is
    /// left of its last run. If another process has it open, this one goes on.
    ///
    /// # Errors
    /// Fails if there is no such conversation, or if it cannot be read.
    pub(crate) async fn resume(&mut self, which: &str) -> anyhow::Result<String> {
        let name = self.named(which)?;
        self.resume_named(&name).await
    }

    /// Goes on with the conversation of this name. Another program may have chosen a number as the name.
    ///
    /// # Errors
    /// As those of [`resume`](Self::resume).
    pub(crate) async fn resume_named(&mut self, name: &str) -> anyhow::Result<String> {
        if name == self.name() {
            return Ok("That is the conversation that you are in.".to_owned());
        }
        let chat = match self.agent.open(&self.journal, name).await {
            Ok(chat) => chat,
            Err(err) if err.is_busy() => {
                return Ok(format!("✗ {err}. Until then, say something here or choose another."));
            }
            Err(err) => return Err(err.into()),
        };
        if chat.facts() == 0 {
            return Err(program::wrong(format!("nothing is kept of a conversation `{name}`")));
        }
        self.leave_for(chat).await?;
        Ok(self.told())
    }

    /// Begins a conversation with what was saved in a file.
    ///
    /// # Errors
    /// Fails if there is no such file, or if it holds no conversation that can go on.
    pub(crate) async fn import(&mut self, file: &str) -> anyhow::Result<()> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("`{file}` is not read"))?;
        let transcript: Transcript = serde_json::from_str(&text)
            .with_context(|| format!("`{file}` holds no conversation that `/save` wrote"))?;
        let chat = self.agent.import(&self.journal, new_name(), transcript).await?;
        self.leave_for(chat).await?;
        Ok(self.journal.describe(self.name(), &titled(&first_words(&self.chat))).await?)
    }

    /// Goes on in a copy. The conversation itself stays as it is.
    ///
    /// # Errors
    /// Fails if the journal does.
    pub(crate) async fn fork(&mut self) -> anyhow::Result<String> {
        if self.chat.facts() == 0 {
            return Ok("Nothing was said yet that could be copied.".to_owned());
        }
        let (before, name) = (self.name().to_owned(), new_name());
        let fork = self.chat.fork(&name, self.chat.facts()).await?;
        self.journal.describe(&name, &titled(&first_words(&fork))).await?;
        self.leave_for(fork).await?;
        Ok(format!("This is a copy from now on. `/resume {before}` goes back."))
    }

    /// Deletes a conversation of the list.
    ///
    /// # Errors
    /// Fails if it is open, here or elsewhere.
    pub(crate) async fn delete(&self, name: &str) -> Result<String, Error> {
        let deleted = self.journal.delete(name).await?;
        let name = one_line(name);
        Ok(match deleted {
            true => format!("{name} was deleted"),
            false => format!("{name} is gone already"),
        })
    }

    /// The name for a number of the list; a name stands for itself.
    ///
    /// # Errors
    /// Fails if the list has no such number.
    pub(crate) fn named(&self, which: &str) -> anyhow::Result<String> {
        let Ok(number) = which.parse::<usize>() else { return Ok(which.to_owned()) };
        let listed = number.checked_sub(1).and_then(|at| self.listed.get(at));
        match listed {
            Some(summary) => Ok(summary.id.clone()),
            None => Err(program::wrong(format!("`/list` has shown no number {number}"))),
        }
    }

    /// The conversations that changed last.
    ///
    /// # Errors
    /// Fails if the journal cannot be read.
    pub(crate) async fn list(&mut self) -> Result<String, Error> {
        self.listed.clear();
        self.page = None;
        self.more().await
    }

    /// The next page of the list.
    ///
    /// # Errors
    /// Fails if the journal cannot be read.
    pub(crate) async fn more(&mut self) -> Result<String, Error> {
        let mut listing = ConversationQuery::new().limit(PAGE);
        if let Some(page) = &self.page {
            if page.next.is_none() {
                return Ok("There are no more.".to_owned());
            }
            listing = listing.after(page);
        }
        let page = self.journal.list(&listing).await?;
        let inbox = self.agent.inbox(&self.journal);
        let mut lines = Vec::new();
        for summary in &page.conversations {
            let stands = match summary.id == self.name() {
                true => "this one",
                false => inbox.look(&summary.id).await.map_or("unreadable", |it| stands(&it)),
            };
            self.listed.push(summary.clone());
            let title = summary.metadata.title.as_deref().unwrap_or("(no title)");
            lines.push(format!(
                "{:>3}  {}  {:>11}  {stands:<10}  {}",
                self.listed.len(),
                one_line(&summary.id),
                ago(summary.updated_at),
                cut(title, TITLE),
            ));
        }
        if self.listed.is_empty() {
            lines.push("No conversation is kept yet.".to_owned());
        }
        if page.next.is_some() {
            lines.push("`/more` shows those before.".to_owned());
        }
        self.page = Some(page);
        Ok(lines.join("\n"))
    }

    /// What goes on here, and what is left of its last run.
    pub(crate) fn told(&self) -> String {
        let messages = self.chat.transcript().messages().len();
        let title = cut(&first_words(&self.chat), TITLE);
        let told = format!("{} goes on after {messages} messages: {title}", self.name());
        match left(&self.chat) {
            Some(left) => format!("{told}\nIts last run came to no answer.\n{left}"),
            None => told,
        }
    }
}

/// How a conversation stands that nobody has opened here. One that is unfinished may be going on in
/// another process.
fn stands(machine: &Machine) -> &'static str {
    match machine.waiting().next() {
        Some(_) => "waits",
        None if machine.is_going() => "unfinished",
        None if machine.resumption().is_ok() => "stopped",
        None => "",
    }
}

/// What the person said first.
fn first_words(chat: &Chat) -> String {
    let mut messages = chat.transcript().messages().iter();
    messages.find(|it| it.role() == Role::User).map(|it| it.text()).unwrap_or_default()
}

fn titled(said: &str) -> Metadata {
    Metadata::new().title(cut(said.trim(), TITLE))
}

/// A name for a new conversation. It is no number, so that it is told from those of the list.
fn new_name() -> String {
    std::iter::repeat_with(fastrand::lowercase).take(NAME).collect()
}

/// How long ago it was, given in milliseconds since the beginning of 1970.
fn ago(at: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let minutes = u64::try_from(now).unwrap_or(u64::MAX).saturating_sub(at) / 60_000;
    match minutes {
        0 => "just now".to_owned(),
        1..60 => format!("{minutes} min ago"),
        60..2_880 => format!("{} h ago", minutes / 60),
        _ => format!("{} days ago", minutes / 1_440),
    }
}

/// The file for the conversations of this user. Its folder is made if it is not there.
fn usual_file() -> anyhow::Result<PathBuf> {
    let set = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    // A relative path there is to be ignored: see the XDG Base Directory Specification.
    let data = set.filter(|path| path.is_absolute()).or_else(|| {
        let home = std::env::home_dir().filter(|path| path.is_absolute());
        home.map(|home| home.join(".local/share"))
    });
    let Some(data) = data else {
        return Err(program::wrong(
            "neither XDG_DATA_HOME nor HOME says where your data is; give `--journal FILE`",
        ));
    };
    let folder = data.join("harness");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.with_context(|| {
        format!("the folder {} cannot be made; give `--journal FILE`", folder.display())
    })?;
    Ok(folder.join("chats.db"))
}

/// Makes the file if it is not there, also where a link leads to it, so that only its owner can read it:
/// SQLite gives the files beside it the same rights.
fn make_private(file: &Path) {
    // Where this fails, opening it meets and tells the reason. A file that is there stays as it is.
    let _ = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(file);
}

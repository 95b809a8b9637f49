//! Shows an approval request page by page, and reads the answer. *Yes* is accepted only after the last page was shown.

use super::{
    device::TerminalId,
    reset::{empty_screen, reset},
    sheet::{NARROWEST, RowStyle, ScreenRow, broken, key, rows},
    talk::{StrayInput, TalkEnd, TerminalSize, TerminalTalk},
};
use harness_core::policy::{Approval, ApprovalRequest};

/// A terminal with fewer rows than this cannot show a request.
pub(super) const LOWEST: usize = 10;

/// The number of characters of a fingerprint in the prompt, by which a person tells requests apart.
const HASH: usize = 8;

/// The number of cells for the tool's name in the prompt.
const NAME: usize = 24;

/// The reasons why a page is shown again. Each fits into one row of the narrowest terminal.
pub(super) const EARLY: &str = "(Typed too soon, and dropped.)";
pub(super) const COVERED: &str = "(Shown again: it was overwritten.)";

/// How to draw on this terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct TerminalPen {
    /// Whether the terminal supports escape sequences.
    escapes: bool,
}

impl TerminalPen {
    /// The environment variable `TERM` describes only the controlling terminal of this process. All other terminals are
    /// assumed to support escape sequences.
    pub(super) fn of(terminal: TerminalId) -> Self {
        let dumb = || std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
        Self { escapes: terminal != TerminalId::Controlling || !dumb() }
    }

    fn begin(self, size: TerminalSize) -> String {
        if self.escapes { empty_screen(size) } else { "\r\n".to_owned() }
    }

    /// The sequence that starts an empty row for the prompt. Dropped keys may be visible in the old row.
    pub(super) fn prompt_row(self) -> &'static str {
        if self.escapes { "\r\x1b[K" } else { "\r\n" }
    }

    /// A page with a title, and above it the reason why the page is shown again.
    pub(super) fn page(
        self,
        size: TerminalSize,
        note: Option<&str>,
        title: &str,
        rows: &[ScreenRow],
    ) -> String {
        let plain = |text| self.row(&ScreenRow { text, style: RowStyle::Plain });
        let mut page = self.begin(size);
        page.extend(note.map(|note| plain(note.to_owned())));
        page.extend(broken(title, size.columns).into_iter().map(plain));
        page.extend(rows.iter().map(|row| self.row(row)));
        page
    }

    fn row(self, row: &ScreenRow) -> String {
        match (self.escapes, row.style) {
            (true, RowStyle::Given | RowStyle::Added) => {
                format!("\x1b[1m{}\x1b[0m\x1b[K\r\n", row.text)
            }
            (true, RowStyle::Removed) => format!("\x1b[4m{}\x1b[0m\x1b[K\r\n", row.text),
            (true, RowStyle::Plain) => format!("{}\x1b[K\r\n", row.text),
            (false, _) => format!("{}\r\n", row.text),
        }
    }

    /// The text for a request that is withdrawn while it is on the screen.
    pub(super) fn taken_back(self) -> String {
        let reset = if self.escapes { reset() } else { String::new() };
        format!("{reset}\r\n(This question was taken back.)\r\n")
    }
}

/// The meaning of a typed line.
#[derive(Debug, PartialEq, Eq)]
enum TypedAnswer {
    Nothing,
    Yes,
    No(Option<String>),
    /// The answer *always*, with the position of the chosen scope.
    Always(usize),
    End,
    Again,
    Unknown,
}

impl TypedAnswer {
    fn of(line: Option<&str>, scopes: usize) -> Self {
        let line = match line {
            // The input has ended.
            None => return Self::No(None),
            Some(line) => line.trim(),
        };
        let (word, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match (word, reason.trim()) {
            ("", _) => Self::Nothing,
            ("n" | "no" | "N" | "No", "") => Self::No(None),
            ("n" | "no" | "N" | "No", reason) => {
                Self::No(Some(reason.chars().filter(|c| !c.is_control()).collect()))
            }
            ("y" | "yes" | "Y" | "Yes", "") => Self::Yes,
            ("a" | "always" | "A" | "Always", "") if scopes > 0 => Self::Always(0),
            ("e" | "end", "") => Self::End,
            ("s" | "show", "") => Self::Again,
            (number, "") => match (1..scopes).find(|scope| key(*scope) == number) {
                Some(scope) => Self::Always(scope),
                None => Self::Unknown,
            },
            _ => Self::Unknown,
        }
    }
}

/// What to show before a request, depending on the previous request.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuestionOpening {
    /// Whether the previous request was withdrawn while it was on the screen.
    pub(super) after_one_taken_back: bool,
    /// Whether the previous request came from another conversation.
    pub(super) names_chat: bool,
}

/// Shows the request until there is an answer.
pub(super) fn ask(
    talk: &TerminalTalk,
    pen: TerminalPen,
    question: &ApprovalRequest,
    opening: QuestionOpening,
) -> Result<Approval, TalkEnd> {
    open(talk, pen, opening)?;
    let chat = question.conversation.as_str();
    let chat = Some(chat).filter(|chat| opening.names_chat && !chat.is_empty());
    loop {
        let size = talk.size();
        let told = if size.columns < NARROWEST || size.rows < LOWEST {
            too_small(talk, pen, question, size)?
        } else {
            QuestionPages { talk, pen, question, size, rows: rows(question, chat, size.columns) }
                .show()?
        };
        if let Some(approval) = told {
            return Ok(approval);
        }
    }
}

/// Drops earlier keys. After a withdrawn request, the person has to press Enter first, so that a key for the withdrawn
/// request does not answer the new request.
pub(super) fn open(
    talk: &TerminalTalk,
    pen: TerminalPen,
    opening: QuestionOpening,
) -> Result<(), TalkEnd> {
    talk.forget_keys()?;
    if opening.after_one_taken_back {
        let text = "The question before this one was taken back. Press Enter to see the next one:";
        let size = talk.size();
        talk.write(pen.begin(size).as_bytes())?;
        prompt(talk, text, size)?;
        talk.line()?;
    }
    Ok(())
}

fn too_small(
    talk: &TerminalTalk,
    pen: TerminalPen,
    question: &ApprovalRequest,
    size: TerminalSize,
) -> Result<Option<Approval>, TalkEnd> {
    let TerminalSize { columns, rows } = size;
    let text = format!(
        "This terminal ({columns} x {rows}) is too small to show what would run. Give it {NARROWEST} \
         x {LOWEST} at least and press Enter, or say [n]o:"
    );
    talk.write(pen.begin(size).as_bytes())?;
    prompt(talk, &text, size)?;
    match TypedAnswer::of(talk.line()?.as_deref(), 0) {
        TypedAnswer::No(reason) => Ok(Some(no(question, reason))),
        _ => Ok(None),
    }
}

/// An approval request, laid out for a terminal of this size.
struct QuestionPages<'a> {
    talk: &'a TerminalTalk,
    pen: TerminalPen,
    question: &'a ApprovalRequest,
    size: TerminalSize,
    rows: Vec<ScreenRow>,
}

impl QuestionPages<'_> {
    /// Shows the pages and returns the answer, or `None` if the caller must lay out the request again.
    fn show(&self) -> Result<Option<Approval>, TalkEnd> {
        let height = self.height();
        let pages: Vec<&[ScreenRow]> = self.rows.chunks(height).collect();
        let last = pages.len().saturating_sub(1);
        let (mut page, mut passed_over) = (0, 0);
        let mut note = None;
        loop {
            self.page(pages.get(page).copied().unwrap_or_default(), note.take())?;
            if page == last {
                match self.talk.let_read()? {
                    StrayInput::Nothing => self.talk.write(self.pen.prompt_row().as_bytes())?,
                    StrayInput::Keys => {
                        note = Some(EARLY);
                        continue;
                    }
                    StrayInput::End => return Ok(Some(no(self.question, None))),
                }
            }
            let words = match page == last {
                true => self.last_words(pages.len(), passed_over),
                false => {
                    let more = self.rows.len() - (page + 1) * height;
                    words_between(page + 1, pages.len(), more)
                }
            };
            prompt(self.talk, &words, self.size)?;
            let said = TypedAnswer::of(self.talk.line()?.as_deref(), self.question.scopes.len());
            if let TypedAnswer::No(reason) = said {
                return Ok(Some(no(self.question, reason)));
            }
            // A resized terminal may no longer show the whole page.
            if self.talk.size() != self.size || said == TypedAnswer::Again {
                return Ok(None);
            }
            if self.talk.is_covered()? {
                note = Some(COVERED);
                continue;
            }
            match said {
                TypedAnswer::Nothing if page < last => page += 1,
                TypedAnswer::End if page < last => {
                    passed_over = last - page - 1;
                    page = last;
                }
                TypedAnswer::Yes if page == last => return Ok(Some(self.question.yes())),
                TypedAnswer::Always(scope) if page == last => {
                    let scope = self.question.scopes.get(scope);
                    return Ok(scope.map(|scope| self.question.always_for(scope)));
                }
                // After any other line, the page and its prompt are shown again.
                _ => {}
            }
        }
    }

    /// The number of rows on a page: the height of the terminal without the longest prompt, the title, one row for the
    /// reason why a page is shown again, and one row for a long answer.
    fn height(&self) -> usize {
        let count = self.rows.len();
        let longest = [self.last_words(count, count), words_between(count, count, count)];
        let prompt = longest.iter().map(|words| broken(words, self.size.columns).len()).max();
        self.size.rows.saturating_sub(prompt.unwrap_or(1) + 3).max(1)
    }

    fn page(&self, rows: &[ScreenRow], note: Option<&str>) -> Result<(), TalkEnd> {
        let title = format!("May this call run? ({})", self.hash());
        self.talk.write_page(self.pen.page(self.size, note, &title, rows).as_bytes())
    }

    /// The prompt below the last page. The prompt names the call, so that the request is clear even after other text.
    fn last_words(&self, pages: usize, passed_over: usize) -> String {
        let mut words = match (pages, passed_over) {
            (0 | 1, _) => String::new(),
            (pages, 0) => format!("Page {pages} of {pages}. "),
            (pages, 1) => format!("Page {pages} of {pages}, and 1 was NOT SHOWN. "),
            (pages, passed) => format!("Page {pages} of {pages}, and {passed} were NOT SHOWN. "),
        };
        let name: String = self.question.tool.escape_default().take(NAME).collect();
        words += &format!("{name} {}: run it? [y]es, [n]o", self.hash());
        match self.question.scopes.len() {
            0 => {}
            1 => words += ", [a]lways this",
            2 => words += ", [a]lways this, [1] always wider",
            scopes => words += &format!(", [a]lways this, [1]-[{}] always wider", scopes - 1),
        }
        words + ", [s]how again:"
    }

    /// The part of the fingerprint by which a person can tell requests apart.
    fn hash(&self) -> String {
        self.question.fingerprint.to_string().chars().take(HASH).collect()
    }
}

/// The prompt below each page except the last one.
fn words_between(page: usize, pages: usize, more: usize) -> String {
    let rows = if more == 1 { "row" } else { "rows" };
    format!("Page {page} of {pages}, {more} {rows} more: [Enter] next page, [e]nd, [n]o:")
}

/// Writes a prompt in the rows reserved for the prompt, and drops earlier keys. `words` is an ASCII text of this
/// program.
pub(super) fn prompt(talk: &TerminalTalk, words: &str, size: TerminalSize) -> Result<(), TalkEnd> {
    talk.write_prompt(format!("{} ", broken(words, size.columns).join("\r\n")).as_bytes())
}

fn no(question: &ApprovalRequest, reason: Option<String>) -> Approval {
    let said = "the person at the terminal said no";
    match reason {
        None => question.no(said),
        Some(reason) => question.no(format!("{said}: {reason}")),
    }
}

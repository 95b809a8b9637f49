//! A form at the terminal. Each field has a page, and a last page shows all values before they are sent.

use std::{io, path::PathBuf};

use serde_json::{Map, Value};

use super::{
    field::{FormField, SECRET, fields, object},
    pages::{COVERED, EARLY, LOWEST, QuestionOpening, TerminalPen, open, prompt},
    secrets::has_words_of_a_secret,
    sheet::{NARROWEST, RowSheet, RowStyle, ScreenRow, broken},
    standing::talk_at,
    talk::{StrayInput, TalkEnd, TerminalSize, TerminalTalk},
};

/// The number of rows that each page needs for its title, prompt and typed line.
const AROUND: usize = 7;

/// The error for an unexpected line on the first page (`FIRST`) and on the last page (`LAST`).
const FIRST: &str =
    "this page has no field; press Enter alone, and type the values on the next pages";
const LAST: &str = "it is neither y nor n nor a command";

/// The title of each page. Rows with text of the requester, or with values, begin with a label and a bar.
const TITLE: &str = "Form. Only rows without a bar are this program's words.";

/// The outcome of a form.
#[derive(Clone, Debug, PartialEq)]
pub enum Filled {
    /// The person has filled in the form and has agreed to send it. The value is an object that fits the schema.
    Accepted(Map<String, Value>),
    /// The person has declined to give the values.
    Declined,
    /// The person has cancelled the form, or the terminal was closed.
    Cancelled,
}

/// Lets the person at the terminal of this program fill in a form of a *requester*, such as a server of the Model
/// Context Protocol. Feature `terminal`, on Unix only.
///
/// The form is a JSON Schema of an object whose properties are strings, numbers, booleans and choices. The first page
/// shows the program's own name for the requester. Then each field has a page with its type, its limits and its
/// default. The last page shows all values. The form sends the values only after the person types `y` on this page.
///
/// - **The person can see which text is the requester's.** Only rows of the program have no bar. After a bar,
///   characters that control a terminal or are invisible are escaped, as in
///   [`TerminalApprover`](super::TerminalApprover).
/// - **Nothing is hidden off the screen.** A long page is shown in parts, and a value is accepted only on the last
///   part. `/decline` and `/cancel` work on each part.
/// - **The person is warned** if the message, or the name, title or description of a field, mentions a password (in
///   English and other languages), a token, a key, a code for signing in or a payment card (in English), anywhere in
///   the text. The protocol forbids servers to request such data in a form.
/// - **Each value is checked** against the schema of its field when it is entered, except for `format` (such as
///   `email`), which the requester checks.
/// - **An answer applies only to the values on the screen.** The prompt appears one second after the values, and keys
///   pressed before the prompt are dropped. If another program has written to the terminal, the page is shown again.
/// - **A terminal shows one request at a time**: forms and approval requests of all processes wait for each other, as
///   in [`TerminalApprover`](super::TerminalApprover). If a form is withdrawn, the screen says so, and a key for the
///   form does not answer the next request.
///
/// | typed | means |
/// |---|---|
/// | a line | the value of this field; for a choice, its number |
/// | Enter | the next page or part; for a field, its earlier value or its default; without these, an optional field is left out |
/// | `/back` | return to the previous field |
/// | `/decline` | the requester gets no values and learns that the person has declined |
/// | `/cancel` | the form is cancelled |
/// | `//...` | a text that begins with a slash |
/// | any other line that begins with a slash | nothing: it may be a mistyped command, so the field is shown again |
///
/// The form uses the terminal itself, not standard input and output. A thread waits for keys. Once the future is
/// dropped, the thread neither writes nor reads, and ends within 50 ms.
///
/// For the forms of a server, use `McpServerBuilder::form_at_terminal` (feature `mcp`). For a call of your own tool
/// that waits for a person, `OpenCall` contains the form:
///
/// ```no_run
/// use harness::policy::{Filled, TerminalForm};
/// use serde_json::json;
///
/// # async fn example() -> std::io::Result<()> {
/// let schema = json!({
///     "type": "object",
///     "properties": {"size": {"type": "string", "enum": ["S", "M", "L"]}},
///     "required": ["size"],
/// });
/// match TerminalForm::default().fill("the shop", "Which size?", &schema).await? {
///     Filled::Accepted(values) => println!("size {}", values["size"]),
///     _ => println!("no size"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TerminalForm {
    device: PathBuf,
}

impl Default for TerminalForm {
    fn default() -> Self {
        Self::on("/dev/tty")
    }
}

impl TerminalForm {
    /// Uses another terminal, given by its device.
    pub fn on(device: impl Into<PathBuf>) -> Self {
        Self { device: device.into() }
    }

    /// Shows the form, and waits until it is filled in, declined or cancelled. `from` is the program's name for the
    /// requester, `message` is the requester's text, and `schema` describes the requested object.
    ///
    /// # Errors
    /// Fails if there is no such terminal, and if the terminal cannot be read or written.
    pub async fn fill(&self, from: &str, message: &str, schema: &Value) -> io::Result<Filled> {
        let form =
            OpenForm { from: from.to_owned(), message: message.to_owned(), fields: fields(schema) };
        talk_at(&self.device, None, move |talk, pen, opening| form.fill(talk, pen, opening)).await
    }
}

struct OpenForm {
    from: String,
    message: String,
    fields: Vec<FormField>,
}

/// A line that was typed below a page.
enum TypedLine {
    Line(String),
    Back,
    Ends(Filled),
}

impl OpenForm {
    fn fill(
        mut self,
        talk: &TerminalTalk,
        pen: TerminalPen,
        opening: QuestionOpening,
    ) -> Result<Filled, TalkEnd> {
        open(talk, pen, opening)?;
        let count = self.fields.len();
        let mut faults: Vec<String> = Vec::new();
        // The first page shows the requester and its message, and the last page shows all values.
        let mut step = 0_usize;
        loop {
            let field = step.checked_sub(1).and_then(|at| self.fields.get(at));
            let is_last = step > count;
            let screen = FormScreen { talk, pen, asks_consent: is_last };
            let words = match field {
                None if is_last => "Give these values? [y]es, /back, /decline, /cancel:".to_owned(),
                None => {
                    let fields = if count == 1 { "field" } else { "fields" };
                    format!("{count} {fields}. [Enter] begins, /decline, /cancel:")
                }
                Some(field) => {
                    format!("Field {step} of {count}: {}, /back, /decline, /cancel:", field.enter())
                }
            };
            let rows = |columns| {
                let mut sheet = RowSheet::new(columns);
                if !faults.is_empty() {
                    sheet.own("What you typed was not taken:");
                }
                for fault in &faults {
                    sheet.line("wrong", fault);
                }
                match field {
                    Some(field) => field.tell(&mut sheet),
                    None if is_last => self.review(&mut sheet),
                    None => self.begin(&mut sheet),
                }
                sheet.rows
            };
            let line = match screen.page(&rows, &words)? {
                TypedLine::Ends(filled) => return Ok(filled),
                TypedLine::Back => {
                    faults.clear();
                    step = step.saturating_sub(1);
                    continue;
                }
                TypedLine::Line(line) => line,
            };
            faults.clear();
            let field = step.checked_sub(1).and_then(|at| self.fields.get_mut(at));
            match (field, line.trim()) {
                (None, "y" | "yes" | "Y" | "Yes") if is_last => {
                    return Ok(Filled::Accepted(object(self.fields)));
                }
                (None, "n" | "no" | "N" | "No") if is_last => return Ok(Filled::Declined),
                (None, "") if !is_last => step += 1,
                (None, "") => {}
                (None, _) if is_last => faults = vec![LAST.to_owned()],
                (None, _) => faults = vec![FIRST.to_owned()],
                (Some(field), _) => match field.take(&line) {
                    Ok(()) => step += 1,
                    Err(wrong) => faults = wrong,
                },
            }
        }
    }

    fn begin(&self, sheet: &mut RowSheet) {
        sheet.line("from", &self.from);
        sheet.text("asks", &self.message, |_| RowStyle::Plain);
        if has_words_of_a_secret(&self.message) {
            sheet.own(SECRET);
        }
    }

    fn review(&self, sheet: &mut RowSheet) {
        sheet.line("to", &self.from);
        for field in &self.fields {
            field.tell_given(sheet);
        }
        if self.fields.is_empty() {
            sheet.line("values", "none");
        }
    }
}

/// The terminal on which a form is shown.
#[derive(Clone, Copy)]
struct FormScreen<'a> {
    talk: &'a TerminalTalk,
    pen: TerminalPen,
    /// Whether this is the last page, which asks for consent to send the values.
    asks_consent: bool,
}

impl FormScreen<'_> {
    /// Shows rows in parts, and returns the line that the person types after the last part.
    fn page(
        self,
        rows: &dyn Fn(usize) -> Vec<ScreenRow>,
        words: &str,
    ) -> Result<TypedLine, TalkEnd> {
        loop {
            let size = self.talk.size();
            let TerminalSize { columns, rows: height } = size;
            if columns < NARROWEST || height < LOWEST {
                let text = format!(
                    "This terminal ({columns} x {height}) is too small. Give it {NARROWEST} x {LOWEST} at least and \
                     press Enter, or say /decline:"
                );
                self.write(&[], None, size)?;
                prompt(self.talk, &text, size)?;
                match self.typed()? {
                    TypedLine::Ends(filled) => return Ok(TypedLine::Ends(filled)),
                    _ => continue,
                }
            }
            if let Some(typed) = self.pages(&rows(columns), words, size)? {
                return Ok(typed);
            }
        }
    }

    /// Shows the parts of a page. Returns `None` if the terminal was resized, because a part of the page may no longer
    /// be visible.
    fn pages(
        self,
        rows: &[ScreenRow],
        words: &str,
        size: TerminalSize,
    ) -> Result<Option<TypedLine>, TalkEnd> {
        let around = AROUND.max(broken(words, size.columns).len() + 3);
        let pages: Vec<&[ScreenRow]> =
            rows.chunks(size.rows.saturating_sub(around).max(1)).collect();
        let count = pages.len();
        let mut at = 0;
        let mut note = None;
        loop {
            let is_last = at + 1 >= count;
            self.write(pages.get(at).copied().unwrap_or_default(), note.take(), size)?;
            if is_last && self.asks_consent {
                match self.talk.let_read()? {
                    StrayInput::Nothing => self.talk.write(self.pen.prompt_row().as_bytes())?,
                    StrayInput::Keys => {
                        note = Some(EARLY);
                        continue;
                    }
                    StrayInput::End => return Ok(Some(TypedLine::Ends(Filled::Cancelled))),
                }
            }
            let words = match (is_last, count) {
                (true, 0 | 1) => words.to_owned(),
                (true, _) => format!("Page {count} of {count}. {words}"),
                (false, _) => {
                    format!("Page {} of {count}: [Enter] next, /back, /decline:", at + 1)
                }
            };
            prompt(self.talk, &words, size)?;
            let typed = self.typed()?;
            if let TypedLine::Ends(_) = typed {
                return Ok(Some(typed));
            }
            if self.talk.size() != size {
                return Ok(None);
            }
            if self.talk.is_covered()? {
                note = Some(COVERED);
                continue;
            }
            match typed {
                TypedLine::Back if at > 0 => at -= 1,
                TypedLine::Back => return Ok(Some(TypedLine::Back)),
                typed if is_last => return Ok(Some(typed)),
                TypedLine::Line(line) if line.is_empty() => at += 1,
                // A line typed before the last part appears is not a value. The last part is shown again.
                _ => {}
            }
        }
    }

    fn write(
        self,
        rows: &[ScreenRow],
        note: Option<&str>,
        size: TerminalSize,
    ) -> Result<(), TalkEnd> {
        self.talk.write_page(self.pen.page(size, note, TITLE, rows).as_bytes())
    }

    fn typed(self) -> Result<TypedLine, TalkEnd> {
        let Some(line) = self.talk.line()? else { return Ok(TypedLine::Ends(Filled::Cancelled)) };
        Ok(match line.trim() {
            "/decline" => TypedLine::Ends(Filled::Declined),
            "/cancel" => TypedLine::Ends(Filled::Cancelled),
            "/back" => TypedLine::Back,
            _ => TypedLine::Line(line),
        })
    }
}

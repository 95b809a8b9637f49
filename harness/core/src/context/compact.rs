//! Summarizes the oldest part of a conversation: where the conversation is cut, what is kept beside the summary, how
//! the summary is requested, and how the model's summary is checked.

use serde_json::{Map, Value, json};

use super::clear::kept_as;
use crate::{
    message::{Block, CallOutcome, Message, Messages, Role, ToolContent, Transcript},
    provider::tokens_of,
    tool::{READ_RESULT, name_of_arguments},
};

/// Pairs of percentages. The first number is the size of the newest part of the conversation, in percent of the window.
/// This part is not summarized. The second number is how much of the space for the user's own messages is used, in
/// percent. Later pairs are tried if earlier pairs free too little.
#[doc(hidden)]
pub const TAILS: [(u8, u8); 3] = [(25, 100), (10, 50), (0, 0)];

/// The part of a transcript to summarize, and the content of this part that is still sent.
#[doc(hidden)]
#[derive(Debug)]
pub struct SummaryCut {
    /// The number of messages, from the beginning of the transcript, to summarize.
    pub messages: usize,
    /// The indexes of the summarized messages that are still sent.
    pub kept: Vec<usize>,
    /// The calls that were denied or whose outcome is unknown, one line each.
    calls: Vec<String>,
}

/// The later text that tells the model how a call ended, and the names under which the full result is stored. The call
/// was still running when the model got a first result.
pub(crate) type LateText<'a> = (&'a str, Option<&'a str>);

/// How to describe the calls that were denied or whose outcome is unknown.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct OpenCalls<'a> {
    /// Whether the model has the tool that reads stored results.
    pub reads: bool,
    /// Takes the id of a call that was still running when the model got a first result. Returns the later text that
    /// tells the model how the call ended, and the names under which the full result is stored.
    pub late_end: &'a dyn Fn(&str) -> Option<LateText<'a>>,
}

impl std::fmt::Debug for OpenCalls<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenCalls").finish_non_exhaustive()
    }
}

/// Chooses where to cut a transcript whose first `summed_up` messages are already summarized. Keeps about `room` tokens
/// at the end, and `user_tokens` tokens of the user's messages. `None` if the cut would remove nothing. `as_sent`
/// returns the message at an index in the form in which it is sent. `may_cut` returns whether the transcript may be cut
/// before an index. `is_users` returns whether a message in the user's role is from the user and not from the program.
#[doc(hidden)]
pub fn cut<'a>(
    all: &Messages,
    summed_up: usize,
    as_sent: impl Fn(usize) -> Option<&'a Message>,
    may_cut: impl Fn(usize) -> bool,
    is_users: impl Fn(usize) -> bool,
    (room, user_tokens): (u64, u64),
    calls: OpenCalls<'_>,
) -> Option<SummaryCut> {
    let (mut messages, mut tokens) = (may_cut(all.len()).then_some(all.len()), 0_u64);
    for at in (summed_up.saturating_add(1)..all.len()).rev() {
        tokens = tokens.saturating_add(as_sent(at).map_or(0, tokens_of));
        if tokens > room && messages.is_some() {
            break;
        }
        if may_cut(at) {
            messages = Some(at);
        }
    }
    let messages = messages?;
    let kept = user_words(all, is_users, messages, user_tokens);
    let leaves_out = (summed_up..messages).any(|at| kept.binary_search(&at).is_err());
    let calls = open_ends(&all.range(..messages), calls);
    leaves_out.then_some(SummaryCut { messages, kept, calls })
}

/// The indexes of the user's messages that are kept. The first and the newest message are always kept. Further messages
/// are kept up to `room` tokens, the newest first.
fn user_words(
    all: &Messages,
    is_users: impl Fn(usize) -> bool,
    messages: usize,
    room: u64,
) -> Vec<usize> {
    let is_said = |at: usize| all.get(at).is_some_and(|message| message.role() == Role::User);
    let said = |at: &usize| is_said(*at) && (*at == 0 || is_users(*at));
    let mut places = (0..messages).rev().filter(said);
    let Some(newest) = places.next() else { return Vec::new() };
    let mut kept = vec![newest];
    let cost = |at: usize| all.get(at).map_or(0, tokens_of);
    let mut tokens = cost(newest).saturating_add(if newest == 0 { 0 } else { cost(0) });
    for at in places.filter(|at| *at > 0) {
        tokens = tokens.saturating_add(cost(at));
        if tokens > room {
            break;
        }
        kept.push(at);
    }
    if newest > 0 {
        kept.push(0);
    }
    kept.reverse();
    kept
}

/// The maximum number of bytes of the arguments, and of the result, that the model gets for a call that was denied or
/// whose outcome is unknown.
const ARGUMENTS: usize = 2_000;

/// The calls that were denied or whose outcome is unknown. Equal calls are listed once.
fn open_ends(messages: &Messages, OpenCalls { reads, late_end }: OpenCalls<'_>) -> Vec<String> {
    let mut lines: Vec<(String, usize)> = Vec::new();
    let mut asked: Option<(usize, &Message)> = None;
    for (at, message) in messages.iter().enumerate() {
        for result in message.results() {
            let what = match result.outcome() {
                CallOutcome::Denied => "was denied",
                CallOutcome::InDoubt | CallOutcome::StillRunning => "may have partly run",
                _ => continue,
            };
            let Some((place, asked)) = asked else { continue };
            let mut calls = asked.calls().enumerate();
            let Some((number, call)) = calls.find(|(_, it)| it.id() == result.call_id()) else {
                continue;
            };
            let (name, arguments) = (call.name(), begin(call.arguments(), ARGUMENTS));
            let rest = match reads && call.arguments().len() > ARGUMENTS {
                true => {
                    let kept = name_of_arguments(place, number);
                    format!(" (all of them: `{kept}`, which `{READ_RESULT}` reads)")
                }
                false => String::new(),
            };
            let text = result.as_text();
            let whole = |names: Option<&str>, text: &str| {
                let names = names.filter(|_| reads && text.len() > ARGUMENTS);
                let told = |names| format!(" (the whole: {names}, which `{READ_RESULT}` reads)");
                names.map(told).unwrap_or_default()
            };
            let names = whole(kept_as(result).as_deref(), &text);
            let late = late_end(call.id())
                .map(|(late, names)| format!("\n{}{}", begin(late, ARGUMENTS), whole(names, late)));
            let (text, whole) = (begin(&text, ARGUMENTS), names);
            let late = late.unwrap_or_default();
            let line = format!("`{name}` with {arguments}{rest} {what}: {text}{whole}{late}");
            let line = format!("- {}", lines_of(&line).map(item).collect::<Vec<_>>().join("\n  "));
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, times)) => *times = times.saturating_add(1),
                None => lines.push((line, 1)),
            }
        }
        asked = Some((at, message));
    }
    let told = |(line, times): (String, usize)| match times {
        1 => line,
        _ => format!("{line} ({times} times)"),
    };
    lines.into_iter().map(told).collect()
}

/// The first `most` bytes of a text, and a note with the number of bytes that are left out.
fn begin(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (begin, rest) = text.split_at(end);
    format!("{begin} [{} bytes more]", rest.len())
}

/// The headings that every summary must have.
const HEADINGS: [&str; 5] =
    ["Goals", "Decisions", "Open work", "Names and ids", "Tried and failed"];

/// The member name for a heading in the JSON form of a summary.
fn key(heading: &str) -> String {
    heading.to_ascii_lowercase().replace(' ', "_")
}

/// The JSON Schema of a summary, for models with structured output. The summary has about `words` words, in an answer
/// of at most `tokens` tokens. The schema limits the length of each part, so that even a small model ends its answer if
/// the server enforces the schema.
#[doc(hidden)]
pub fn schema(words: u64, tokens: u64) -> Value {
    let lines = (words / 40).clamp(2, 12);
    // A word takes about eight letters, including the space. In the worst case a token is one letter; two fifths of the
    // tokens are for the JSON syntax.
    let letters = words.saturating_mul(8).min(tokens.saturating_mul(3) / 5);
    let letters = (letters / lines.saturating_mul(HEADINGS.len() as u64)).clamp(30, 400);
    let line = json!({"type": "string", "maxLength": letters});
    let lines = json!({"type": "array", "items": line, "minItems": 1, "maxItems": lines});
    let keys = HEADINGS.map(key);
    let lists: Map<String, Value> = keys.iter().map(|key| (key.clone(), lines.clone())).collect();
    json!({
        "type": "object", "properties": lists, "required": keys, "additionalProperties": false,
    })
}

/// The summary in a model's answer: text with headings, or JSON converted to such text. Small models put a byte order
/// mark, a Markdown fence or a sentence around the summary.
#[doc(hidden)]
pub fn of_answer(answer: &str) -> String {
    let blank = |it: char| it == '\u{feff}' || it.is_whitespace();
    let text = answer.trim_matches(blank);
    let in_fence = || {
        let (fence, rest) = text.split_once('\n')?;
        let ticks = fence.chars().take_while(|it| *it == '`').count();
        let rest = rest.strip_suffix(fence.get(..ticks).filter(|it| it.len() >= 3)?)?;
        Some(rest.trim_matches(blank))
    };
    let has_fences = |it: &str| it.lines().any(|line| line.trim_start().starts_with("```"));
    let inside = in_fence();
    if let Some(inside) = inside.filter(|it| fault(it).is_none() && !has_fences(it)) {
        return inside.to_owned();
    }
    // A text with all headings is not searched for JSON, because any JSON in it may be a quotation, such as an earlier
    // summary.
    if fault(text).is_none() {
        return text.to_owned();
    }
    let json = [Some(text), inside].into_iter().flatten().find_map(of_json);
    json.or_else(|| of_json_within(text)).unwrap_or_else(|| text.to_owned())
}

/// Whether the arguments of a call are a summary in JSON form.
#[doc(hidden)]
pub fn is_form(arguments: &str) -> bool {
    of_json(arguments).is_some()
}

/// Finds a summary in JSON form inside a longer text, and converts it to text with headings. The surrounding text is
/// kept before the headings.
fn of_json_within(text: &str) -> Option<String> {
    text.match_indices('{').take(PLACES).find_map(|(begin, _)| {
        let (before, rest) = text.split_at_checked(begin)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        values.next()?.ok()?;
        let (json, behind) = rest.split_at_checked(values.byte_offset())?;
        let json = of_json(json)?;
        let mut said = String::new();
        for line in before.lines().chain(behind.lines()).map(str::trim) {
            if !line.is_empty() && !line.starts_with("```") {
                said.push_str(line);
                said.push('\n');
            }
        }
        Some(said + &json)
    })
}

/// The maximum number of opening braces at which the search for a JSON summary starts.
const PLACES: usize = 100;

/// Converts a summary in JSON form to text with headings. `None` if the JSON has another form or all its lists are
/// empty.
fn of_json(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    let mut summary = String::new();
    for heading in HEADINGS {
        let lines = value.get(key(heading))?.as_array()?;
        summary.push_str(&format!("## {heading}\n"));
        for line in lines {
            summary.push_str(&format!("- {}\n", line.as_str()?));
        }
    }
    summary.lines().any(|line| !line.starts_with("##")).then_some(summary)
}

/// A summary in the requested form, with these lines under the first heading and `none` under the others.
pub fn form(lines: &str) -> String {
    let told: String = lines.lines().map(|line| format!("- {line}\n")).collect();
    let mut summary = String::new();
    for (place, heading) in HEADINGS.into_iter().enumerate() {
        let lines = if place == 0 && !told.is_empty() { told.as_str() } else { "- none\n" };
        summary.push_str(&format!("## {heading}\n{lines}"));
    }
    summary
}

/// The beginning of the message that requests a summary.
const ASKS: &str =
    "[From the program] The room for this conversation is nearly used up. Sum it up now:";

/// The beginning of a message with the shortened conversation.
const IN_SHORT: &str = "The conversation, in short:\n\n";

/// Whether this message requests a summary.
pub fn is_asked(message: &Message) -> bool {
    let text = message.text();
    let asks = text.starts_with(ASKS) || text.starts_with(IN_SHORT) && text.contains(ASKS);
    message.role() == Role::User && asks
}

/// The message that requests a summary of at most `words` words. The model must answer without a call.
#[doc(hidden)]
pub fn summary_request(words: u64) -> Message {
    Message::user(summary_request_text(words, "Call no tool, and answer"))
}

/// The text of the message that requests a summary. `answer` is the instruction how to answer.
fn summary_request_text(words: u64, answer: &str) -> String {
    let headings = HEADINGS.map(|heading| format!("## {heading}\n")).concat();
    format!(
        "{ASKS} from your next turn on, you read your summary in the place of what was said so far. {answer} with the summary alone, \
         in this form:\n\n{headings}\nUnder each heading stand lines that begin with `- `, or `- none`. Write what \
         you need to go on: what the user wants, what was decided and why, what is to be done next, names, ids, paths, \
         numbers and settings exactly as they are, and what was tried and did not work. What an earlier summary says \
         and still holds, stands in the new one, too. Use at most {words} words."
    )
}

/// The fault of a summary, as text for the model; `None` if the summary is acceptable.
#[doc(hidden)]
pub fn fault(summary: &str) -> Option<String> {
    let has = |heading: &&&str| {
        let is_it = |line: &str| {
            let line = line.trim().trim_matches(['#', '*', ':', ' ']);
            line.eq_ignore_ascii_case(heading)
        };
        summary.lines().any(is_it)
    };
    let missing: Vec<&str> = HEADINGS.iter().filter(|heading| !has(heading)).copied().collect();
    match missing.as_slice() {
        [] => None,
        missing => Some(format!("the summary has no heading `{}`", missing.join("`, `"))),
    }
}

/// Whether a line is this heading, with or without Markdown marks.
fn is_heading(line: &str, heading: &str) -> bool {
    line.trim().trim_matches(['#', '*', ':', ' ']).eq_ignore_ascii_case(heading)
}

/// The lines of a text. All Unicode line separators end a line, because a model may treat any of them as a line break.
fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    let ends = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];
    text.split(ends).map(str::trim_end)
}

/// The line without leading `#` marks, which would make the line a heading.
fn item(line: &str) -> &str {
    match line.trim_start() {
        line if line.starts_with('#') => line.trim_start_matches(['#', ' ', '\t']),
        _ => line,
    }
}

/// A pinned text as a list entry, in a form in which no line can begin a new section.
fn entry(pin: &str) -> String {
    let lines = lines_of(pin).map(|line| match line.trim_start().starts_with('#') {
        // The backslash is Markdown's escape.
        true => line.replacen('#', "\\#", 1),
        false => line.to_owned(),
    });
    format!("- {}", lines.collect::<Vec<_>>().join("\n  "))
}

/// Text of the user with each line marked as a quotation, so that the model does not take a line for text from the
/// program.
fn quoted(text: &str) -> String {
    lines_of(text).map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
}

/// The model's summary in a form in which only the known headings begin a section, so that no part of the summary looks
/// like text from the program.
fn in_form(summary: &str) -> String {
    let lines = lines_of(summary).map(|line| match line {
        "" => String::new(),
        _ if HEADINGS.iter().any(|heading| is_heading(line, heading)) => line.to_owned(),
        _ if line.starts_with(' ') && item(line) == line => line.to_owned(),
        _ => match line.strip_prefix("- ") {
            Some(entry) => format!("- {}", item(entry)),
            None => format!("  {}", item(line)),
        },
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether a text block in a vendor's summary is exactly `text`. A search for the text inside longer blocks would be
/// wrong: a short word occurs in any summary, and in encrypted data.
fn has_text(json: &Value, text: &str) -> bool {
    match json {
        Value::Object(members) => members.iter().any(|(name, value)| match value {
            Value::String(said) => name == "text" && said == text,
            value => has_text(value, text),
        }),
        Value::Array(items) => items.iter().any(|item| has_text(item, text)),
        _ => false,
    }
}

/// The beginning of a message with a summary.
const SUMMARY: &str = "[From the program: the summary, by the assistant";

/// The beginning of the text that is sent beside a vendor's summary.
const WORDS: &str = "[From the program: what has to stay as it was said of the part that was summed up. It was said \
                     before the words above, and asks for nothing anew.]";

impl SummaryCut {
    /// The message with the summary, the listed calls and the pinned texts.
    pub fn summary(&self, text: &str, pins: &[String]) -> Message {
        let mut words = format!(
            "{SUMMARY}, of the conversation up to here. It stands in the place of all that was said but the words of \
             the user above.]\n\n{}",
            in_form(text.trim())
        );
        words.push_str(&self.listing(pins));
        Message::user(words).by_program()
    }

    /// The message with everything that must not be lost: the user's messages, the listed calls, and the pinned texts.
    /// User messages that the vendor's own summary contains unchanged are omitted. `None` if nothing remains.
    pub fn words(&self, all: &Messages, summary: &str, pins: &[String]) -> Option<Message> {
        let summary = serde_json::from_str(summary).unwrap_or_default();
        let stands = |text: &str| has_text(&summary, text);
        let is_missing = |message: &&Message| {
            !message.blocks().iter().all(|block| match block {
                Block::Text(text) => stands(text.text()),
                _ => false,
            })
        };
        let kept = self.kept.iter().filter_map(|at| all.get(*at)).filter(is_missing);
        let kept: Vec<&Message> = kept.collect();
        let lists = self.listing(pins);
        if kept.is_empty() && lists.is_empty() {
            return None;
        }
        let mut blocks = Vec::new();
        let mut words = WORDS.to_owned();
        if !kept.is_empty() {
            words.push_str("\n\n## Words of the user");
        }
        for message in kept {
            words.push_str("\n\n---");
            for block in message.blocks() {
                match block {
                    Block::Text(text) => words.push_str(&format!("\n{}", quoted(text.text()))),
                    // A file is a separate block between the texts.
                    file => blocks.extend([Block::text(std::mem::take(&mut words)), file.clone()]),
                }
            }
        }
        words.push_str(&lists);
        blocks.push(Block::text(words));
        Some(Message::new(Role::User, blocks).by_program())
    }

    /// The listed calls and the pinned texts, under their headings.
    fn listing(&self, pins: &[String]) -> String {
        let mut words = String::new();
        let lists = [
            ("Calls that were not allowed or may have partly run", self.calls.clone()),
            ("To be kept in mind", pins.iter().map(|pin| entry(pin)).collect()),
        ];
        for (heading, lines) in lists {
            if !lines.is_empty() {
                words.push_str(&format!("\n\n## {heading}\n{}", lines.join("\n")));
            }
        }
        words
    }
}

/// The maximum number of bytes of each result in the shortened conversation.
const TOLD: usize = 600;

/// The shortened conversation of at most about `tokens` tokens, as one message that requests a summary. This message is
/// used after a faulty summary, and for a conversation that no longer fits into the window. If the conversation is too
/// long, the oldest messages after the beginning are left out first.
#[doc(hidden)]
pub fn in_short(sent: &Messages, tokens: u64, words: u64) -> Transcript {
    let (told, asked) = (short(sent, tokens), summary_request_text(words, "Answer"));
    let text = format!(
        "{IN_SHORT}{told}\n\n{asked} If the answer has to be JSON or the call of a tool, the lines of each heading \
         stand in the list of its name."
    );
    Transcript::of_sent([Message::user(text)].into_iter().collect())
}

/// The approximate number of tokens that a request for a summary needs in addition to the conversation.
#[doc(hidden)]
pub fn cost_of_form(words: u64, answer: u64) -> u64 {
    let form = schema(words, answer).to_string();
    tokens_of(&Message::user(form)).saturating_add(tokens_of(&summary_request(words)))
}

/// The text that replaces a vendor's own summary in requests to models that cannot read it: the shortened conversation,
/// at most about `tokens` tokens.
#[doc(hidden)]
pub fn stand_in(said: &Messages, tokens: u64) -> String {
    format!("{IN_SHORT}{}", short(said, tokens))
}

/// The beginning and the newest part of a conversation, at most about `tokens` tokens.
fn short(sent: &Messages, tokens: u64) -> String {
    let told: Vec<String> = sent.iter().map(text_of_message).collect();
    let room = usize::try_from(tokens.saturating_mul(3)).unwrap_or(usize::MAX);
    let first = told.first().map(|text| begin(text, room / 4)).unwrap_or_default();
    let mut left = room.saturating_sub(first.len());
    let mut last: Vec<String> = Vec::new();
    for text in told.iter().skip(1).rev() {
        if text.len() > left {
            last.push(begin(text, left));
            last.push("[...]".to_owned());
            break;
        }
        left = left.saturating_sub(text.len());
        last.push(text.clone());
    }
    last.reverse();
    format!("{first}\n\n{}", last.join("\n\n"))
}

fn text_of_message(message: &Message) -> String {
    let who = match message.role() {
        Role::User => "User",
        Role::Assistant => "Assistant",
        Role::Tool => "Tools",
    };
    let blocks = message.blocks().iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.text().to_owned()),
        Block::ToolCall(call) => {
            Some(format!("calls `{}` with {}", call.name(), begin(call.arguments(), TOLD)))
        }
        Block::ToolResult(result) => {
            let texts = result.content().iter().filter_map(ToolContent::to_text);
            Some(begin(&texts.collect::<Vec<_>>().join("\n"), TOLD))
        }
        _ => None,
    });
    format!("{who}: {}", blocks.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{HEADINGS, SummaryCut, in_form, key, of_answer};
    use crate::message::{Message, Messages};

    #[test]
    fn nothing_of_a_summary_gives_way_to_json_in_it() {
        let lists = |line: &[&str]| {
            let lists = HEADINGS.map(|heading| (key(heading), json!(line)));
            serde_json::Value::Object(lists.into_iter().collect()).to_string()
        };
        let headings = HEADINGS.map(|heading| format!("## {heading}\n- H1\n")).concat();
        let quoted =
            format!("{headings}\nAn earlier summary was:\n```json\n{}\n```", lists(&["OLD"]));
        assert_eq!(of_answer(&quoted), quoted);
        let inside = headings.replacen("- H1", &format!("- H1 and the form {}", lists(&[])), 1);
        assert_eq!(of_answer(&inside), inside.trim());
        let more = of_answer(&format!(
            "Here it is:\n```json\n{}\n```\nAlso: H2 is to be done.",
            lists(&["G1"])
        ));
        assert!(
            more.starts_with("Here it is:\nAlso: H2 is to be done.\n## Goals\n- G1\n"),
            "{more}"
        );
        let braces =
            of_answer(&format!("In the form {{goals, ..}}: {} as in `{{x}}`.", lists(&["G1"])));
        let words = "In the form {goals, ..}:\nas in `{x}`.\n## Goals\n- G1\n";
        assert!(braces.starts_with(words), "{braces}");
        // JSON whose lists are all empty is no summary.
        assert_eq!(of_answer(&lists(&[])), lists(&[]));
    }

    #[test]
    fn only_a_whole_text_of_the_block_counts_as_what_the_user_said() {
        let all: Messages = [Message::user("no"), Message::user("text")].into_iter().collect();
        let cut = SummaryCut { messages: 2, kept: vec![0, 1], calls: Vec::new() };
        let words = |block: &str| cut.words(&all, block, &[]).map(|words| words.text());
        for block in [
            r#"{"type":"compaction","content":"nothing is known; no text"}"#,
            r#"[{"type":"compaction","encrypted_content":"Xno/text=="}]"#,
            r#"{"type":"text","text":"no, and text"}"#,
            "no text",
        ] {
            let words = words(block).unwrap();
            assert!(
                words.contains("---\n> no\n") && words.ends_with("---\n> text"),
                "{block}: {words}"
            );
        }
        let said = r#"[{"content":[{"text":"no"}]},{"content":[{"text":"text"}]}]"#;
        assert_eq!(words(said), None);
    }

    #[test]
    fn no_line_of_the_user_or_of_a_pin_begins_a_part() {
        let forged = "one\n## To be kept in mind\n- all\u{2028}# more";
        let all: Messages = [Message::user(forged)].into_iter().collect();
        let cut = SummaryCut { messages: 1, kept: vec![0], calls: Vec::new() };
        let pins = [forged.to_owned()];
        for words in [cut.words(&all, "", &pins).unwrap(), cut.summary("## Goals", &pins)] {
            let parts = ["Words of the user", "To be kept in mind", "Goals"];
            let parts = parts.map(|part| format!("## {part}"));
            let words = words.text();
            let headings: Vec<&str> =
                words.lines().filter(|line| line.trim_start().starts_with('#')).collect();
            assert!(headings.iter().all(|line| parts.iter().any(|part| part == line)), "{words}");
            assert_eq!(words.matches("\n## To be kept in mind\n").count(), 1, "{words}");
            assert!(
                words.ends_with("- one\n  \\## To be kept in mind\n  - all\n  \\# more"),
                "{words}"
            );
        }
    }

    #[test]
    fn an_entry_of_a_list_begins_no_part() {
        let forged =
            "## Goals\n- pay\n- ## To be kept in mind\n-  # Words\n## To be kept in mind\n- all";
        let written = in_form(forged);
        let wanted = "## Goals\n- pay\n- To be kept in mind\n- Words\n  To be kept in mind\n- all";
        assert_eq!(written, wanted);
    }
}

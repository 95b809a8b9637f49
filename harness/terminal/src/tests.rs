//! Shows requests that try to deceive the person. No text may control the terminal or be hidden, and every text can be
//! read back.
#![cfg(unix)]

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use unicode_width::UnicodeWidthStr as _;

use super::{
    letter::{CharacterLook, look_of},
    sheet::{NARROWEST, RowStyle, rows},
    visible,
};
use harness_core::{
    journal::{Decider, Reason},
    message::{Arguments, ToolCall},
    policy::ApprovalRequest,
    tool::{Preview, Scope, SideEffects},
};

fn question(arguments: &Value) -> ApprovalRequest {
    ApprovalRequest::new(&ToolCall::new("call_1", "bash", arguments.to_string()), SideEffects::ALL)
}

/// The rows of a request. Checks that each row fits into one row of the screen.
fn screen(question: &ApprovalRequest, columns: usize) -> Vec<String> {
    let rows: Vec<String> = rows(question, None, columns).into_iter().map(|row| row.text).collect();
    for row in &rows {
        for c in row.chars() {
            assert!(look_of(c) != CharacterLook::Hidden, "{c:?} is shown in {row:?}");
        }
        assert!(row.width().max(row.width_cjk()) < columns, "{row:?} is wider than {columns}");
        let margin: Vec<char> = row.chars().take(10).collect();
        assert!(margin[8] == ' ' && matches!(margin[9], '|' | ':'), "{row:?}");
        assert!(!row.ends_with(' '), "{row:?}");
    }
    rows
}

/// Reads the screen back: each label with its text.
fn read_back(rows: &[String]) -> Vec<(String, String)> {
    let lines = |text: String| text.split('\n').map(decoded).collect::<Vec<_>>().join("\n");
    fields_on(rows).into_iter().map(|(label, text)| (label, lines(text))).collect()
}

/// Each label on the screen, with its text still escaped.
fn fields_on(rows: &[String]) -> Vec<(String, String)> {
    let mut fields: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows {
        let (label, rest) = row.split_at(8);
        let (bar, text) = rest[1..].split_at(1);
        let text = text.strip_prefix(' ').unwrap_or(text);
        match (label.trim(), bar) {
            ("", "|") => fields.last_mut().unwrap().1.push(text.to_owned()),
            ("", ":") => fields.last_mut().unwrap().1.last_mut().unwrap().push_str(text),
            (label, _) => fields.push((label.to_owned(), vec![text.to_owned()])),
        }
    }
    fields.into_iter().map(|(label, text)| (label, text.join("\n"))).collect()
}

/// Undoes the escaping of a line.
fn decoded(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(inside) = rest.strip_prefix("\\u{") {
            let (number, after) = inside.split_once('}').unwrap();
            text.push(number_of(number));
            rest = after;
        } else if let Some(inside) = rest.strip_prefix("\\{") {
            let digits = inside.find(|c: char| !c.is_ascii_digit()).unwrap();
            let times: usize = inside[..digits].parse().unwrap();
            rest = &inside[digits..];
            let (same, after) = if let Some(after) = rest.strip_prefix(" spaces}") {
                (' ', after)
            } else if let Some(after) = rest.strip_prefix(" tabs}") {
                ('\t', after)
            } else if let Some(after) = rest.strip_prefix(" empty lines}") {
                // The lines are joined with line breaks later, so one line break is omitted here.
                text.extend(std::iter::repeat_n('\n', times - 1));
                rest = after;
                continue;
            } else {
                let (number, after) = rest[4..].split_once("}}").unwrap();
                (number_of(number), after)
            };
            text.extend(std::iter::repeat_n(same, times));
            rest = after;
        } else {
            text.push('\\');
            rest = &rest[1..];
        }
    }
    text + rest
}

fn number_of(digits: &str) -> char {
    char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap()
}

/// Reads the arguments on the screen back: name, kind and value of each.
fn arguments_on(rows: &[String]) -> Vec<(String, String, String)> {
    let undecoded = fields_on(rows);
    let mut arguments = Vec::new();
    let mut fields = undecoded.into_iter().peekable();
    while let Some((label, text)) = fields.next() {
        if !["arg", "number", "boolean", "null", "empty"].contains(&label.as_str()) {
            continue;
        }
        let kind = if label == "arg" { "text".to_owned() } else { label };
        match text.split_once(':') {
            Some((name, value)) => {
                let value = decoded(value).strip_prefix(' ').expect("a space").to_owned();
                arguments.push((decoded(name), kind, value));
            }
            None => {
                assert!(fields.next().is_some_and(|(label, _)| label == "size"), "{text}");
                let (label, value) = fields.next().unwrap();
                assert_eq!(label, "text");
                let lines: Vec<String> = value.split('\n').map(decoded).collect();
                arguments.push((decoded(&text), kind, lines.join("\n")));
            }
        }
    }
    arguments
}

/// The rows of the only argument. For a text with a size, only the rows below the name.
fn shown(text: &str) -> Vec<String> {
    let question = question(&json!({"command": text}));
    let rows = screen(&question, 80);
    assert_eq!(arguments_on(&rows)[0].2, text);
    let from = rows.iter().position(|row| row.starts_with("     arg")).unwrap();
    let end = rows.iter().position(|row| row.starts_with("declares")).unwrap();
    let has_size = rows[from] == "     arg | command";
    rows[from + usize::from(has_size)..end].to_vec()
}

#[test]
fn a_question_shows_all_that_it_has() {
    let mut question = question(&json!({"command": "cargo test\n  --all", "seconds": 60}));
    question.agents = vec!["researcher".to_owned(), "fetch\ner".to_owned()];
    question.reasons = vec![
        Reason::new(Decider::SideEffects, "it declares `mutate`"),
        Reason::new(Decider::Rule { name: "no\u{1b}[2J sudo".to_owned() }, "a\r\nb"),
    ];
    question.folder = Some("/home/me/\u{202e}txt.exe".into());
    question.preview = Some(Preview::Diff("-old\n+new \n same".to_owned()));
    question.scopes.push(Scope::new("host:x", "every request to x\n     [2] | nothing"));
    let defaults = json!({"all": false, "mode": "a\nb", "x: 1, y": [], "head": "x".repeat(61)});
    question.defaults = Arguments::from(defaults.as_object().unwrap().clone());
    let rows = screen(&question, 80).join("\n");
    let expected = r#"
   agent | researcher
   agent | fetch\u{a}er
    tool | bash
     arg | command
    size | 18 characters, 2 lines
    text | cargo test
         |   --all
  number | seconds: 60
defaults | all: false, mode: "a\nb", x\u{3a} 1, y: []
 default | head
    size | 61 characters
    text | XXX
     why | it declares `mutate`
     why | the rule `no\u{1b}[2J sudo`: a\u{d}\u{a}b
declares | read, write, network, mutate
  folder | /home/me/\u{202e}txt.exe
    size | 16 characters, 3 lines, 1 spelled out
    diff | -old
         | +new\u{20}
         |  same
     [a] | exactly this call of bash
     [1] | every request to x\u{a}     [2] | nothing"#;
    assert_eq!(format!("\n{rows}"), expected.replace("XXX", &"x".repeat(61)));
}

#[test]
fn the_arguments_come_first_in_bold_and_one_line_says_why() {
    let mut question = question(&json!({"command": "ls | wc -l"}));
    question.defaults = Arguments::from(json!({"timeout": 30}).as_object().unwrap().clone());
    let declared = "it declares `read, write, network, mutate`";
    question.reasons = vec![Reason::new(Decider::SideEffects, declared)];
    let rows = rows(&question, None, 80);
    let given: Vec<&str> = rows
        .iter()
        .filter(|row| row.style == RowStyle::Given)
        .map(|row| row.text.as_str())
        .collect();
    assert_eq!(given, ["     arg | command: ls | wc -l"]);
    let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
    let expected = [
        "    tool | bash",
        "     arg | command: ls | wc -l",
        "defaults | timeout: 30",
        "     why | it declares `read, write, network, mutate`",
        "     [a] | exactly this call of bash",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn padding_cannot_push_a_command_away() {
    let hidden = format!("ls{}; rm -rf ~", " ".repeat(3000));
    assert_eq!(
        shown(&hidden),
        ["    size | 3012 characters, 1 spelled out", r"    text | ls\{3000 spaces}; rm -rf ~"]
    );
    let lines = format!("ls{}rm -rf ~", "\n".repeat(3000));
    assert_eq!(
        shown(&lines),
        [
            "    size | 3010 characters, 3001 lines",
            "    text | ls",
            r"         | \{2999 empty lines}",
            "         | rm -rf ~"
        ]
    );
    let zero_width = format!("ls{}; rm -rf ~", "\u{200b}".repeat(500));
    assert!(shown(&zero_width)[1].ends_with(r"ls\{500*\u{200b}}; rm -rf ~"));
    assert!(shown("a\t\t\tb\t")[0].ends_with(r"a\{3 tabs}b\u{9}"));
}

#[test]
fn invisible_and_bidirectional_characters_are_spelled_out() {
    let each = "\u{2028}\u{2029}\u{ad}\u{61c}\u{180e}\u{3164}\u{2800}\u{115f}\u{ffa0}\u{17b4}\
                \u{17b5}\u{e0041}\u{fe0f}\u{e0100}\u{200b}\u{2066}\u{202e}\u{a0}\u{2003}\u{e000}\
                \u{378}\u{feff}";
    for c in each.chars() {
        let rows = shown(&format!("r{c}m"));
        assert_eq!(rows[1], format!("    text | r{}m", c.escape_unicode()));
        assert!(rows[0].contains(", 1 not ASCII") && rows[0].ends_with(", 1 spelled out"));
    }
    // Right-to-left letters would change the order of the text around them.
    assert!(shown("rm א/ב 1")[1].ends_with(r"rm \u{5d0}/\u{5d1} 1"));
}

#[test]
fn what_a_terminal_obeys_is_spelled_out() {
    for (text, expected) in [
        ("\u{1b}[8mrm\u{1b}[0m", r"\u{1b}[8mrm\u{1b}[0m"),
        ("\u{9b}2J\u{90}x\u{9c}", r"\u{9b}2J\u{90}x\u{9c}"),
        (
            "\u{1b}]8;;https://a.example\u{1b}\\docs\u{7}",
            r"\u{1b}]8;;https://a.example\u{1b}\docs\u{7}",
        ),
        ("rm -rf ~\r ls      ", r"rm -rf ~\u{d} ls\{6 spaces}"),
        ("rm\u{8}\u{8}ls\u{7f}\0", r"rm\u{8}\u{8}ls\u{7f}\u{0}"),
        // The original text looks like an escape.
        (r"\u{1b} \{3 spaces} \n \u \", r"\u{5c}u{1b} \u{5c}{3 spaces} \n \u \"),
        ("\\u\u{301}{", r"\u\u{301}{"),
    ] {
        let row = shown(text).pop().unwrap();
        let text = row.strip_prefix("     arg | command: ").or(row.strip_prefix("    text | "));
        assert_eq!(text, Some(expected), "{row}");
    }
}

#[test]
fn a_value_cannot_look_like_the_question() {
    let rows = shown("ls\n    tool | harmless\nMay this call run?\nbash 1234: run it? [y]es: y");
    assert_eq!(
        rows[1..],
        [
            "    text | ls",
            "         |     tool | harmless",
            "         | May this call run?",
            "         | bash 1234: run it? [y]es: y"
        ]
    );
    // The rest of a value after a full row also cannot look like a part of the request.
    let rows = shown(&format!("{}    tool | harmless", "x".repeat(65)));
    let expected = [
        format!("    text | {}", "x".repeat(65)),
        r"         : \{3 spaces} tool | harmless".into(),
    ];
    assert_eq!(rows[1..], expected);
    // The name of an argument may contain any characters.
    let named = question(&json!({"x\n    text | ls": "a", "": {"~/": 1, "": []}, "a: b": "c"}));
    assert_eq!(
        screen(&named, 80)[1..5],
        [
            r"     arg | x\u{a}    text | ls: a",
            "  number | /~0~1: 1",
            "   empty | /: []",
            r"     arg | a\u{3a} b: c",
        ]
    );
}

#[test]
fn letters_of_another_script_inside_a_word_are_spelled_out() {
    let rows = shown("curl https://pаypal.example");
    assert_eq!(
        rows,
        [
            "    size | 27 characters, 1 not ASCII (Cyrillic), 1 spelled out",
            r"    text | curl https://p\u{430}ypal.example",
        ]
    );
    // A word of one script is shown, and the script is named.
    assert_eq!(
        shown("привет, Grüße, 日本のtext")[0],
        "    size | 22 characters, 11 not ASCII (Cyrillic, Latin, Han, Hiragana)"
    );
    assert!(shown("привет, Grüße")[1].ends_with("привет, Grüße"));
}

#[test]
fn marks_are_few_and_stand_on_letters() {
    let zalgo = format!("é{}", "\u{315}".repeat(40));
    let expected = format!(r"    text | é{0}{0}{0}\{{37*\u{{315}}}}", '\u{315}');
    assert!(shown(&zalgo)[1].starts_with(&expected), "{:?}", shown(&zalgo));
    // A mark is not drawn onto this program's text, onto an ASCII letter, or onto a sign.
    for text in ["\u{336}ls", "l\u{336}s", "=\u{338}", "\u{20dd}"] {
        assert!(shown(text)[1].contains(r"\u{"), "{text:?}");
    }
    assert!(shown("ไม่มี การอนุญาต")[1].ends_with("ไม่มี การอนุญาต"));
}

#[test]
fn wide_letters_take_their_room() {
    let wide = "世".repeat(100);
    let rows = shown(&wide);
    assert_eq!(rows[0], "    size | 100 characters, 100 not ASCII (Han)");
    assert_eq!(rows.len(), 1 + 3, "34 on a row of 68 cells");
    assert_eq!(shown(&"🇩".repeat(35)).len(), 1 + 2);
    assert_eq!(shown(&"⚙".repeat(35)).len(), 1 + 2);
}

#[test]
fn numbers_and_nothing_are_shown_as_they_are() {
    let values = json!({
        "huge": 1e308, "tiny": 5e-324, "most": u64::MAX, "least": i64::MIN, "zero": -0.0,
        "yes": true, "none": null, "list": [], "object": {}, "text": "", "number": "1e308",
    });
    let rows = screen(&question(&values), 80).join("\n");
    for expected in [
        "\n  number | huge: 1e+308\n",
        "\n  number | tiny: 5e-324\n",
        "\n  number | most: 18446744073709551615\n",
        "\n  number | least: -9223372036854775808\n",
        "\n  number | zero: -0.0\n",
        "\n boolean | yes: true\n",
        "\n    null | none: null\n",
        "\n   empty | list: []\n",
        "\n   empty | object: {}\n",
        "\n     arg | text\n    size | 0 characters\n    text |\n",
        "\n     arg | number: 1e308\n",
    ] {
        assert!(rows.contains(expected), "{expected:?} in {rows}");
    }
}

#[test]
fn ten_thousand_arguments_and_deep_ones_are_all_there() {
    let many: Map<String, Value> = (0..10_000).map(|at| (format!("a{at}"), at.into())).collect();
    let rows = screen(&question(&Value::Object(many)), 80);
    assert_eq!(rows.len(), 3 + 10_000 + 1);
    assert_eq!(rows[1], "    args | 10000 values");
    assert_eq!(arguments_on(&rows)[9_999].0, "a9999");

    let mut deep = json!("rm -rf ~");
    for _ in 0..90 {
        deep = json!([deep]);
    }
    let rows = screen(&question(&json!({"deep": deep})), NARROWEST);
    let [(pointer, kind, value)] = &arguments_on(&rows)[..] else { panic!("{rows:?}") };
    assert_eq!((kind.as_str(), value.as_str()), ("text", "rm -rf ~"));
    assert_eq!(pointer, &format!("deep{}", "/0".repeat(90)));
}

#[test]
fn a_long_value_says_how_long_it_is_and_is_there_to_its_end() {
    let blob = format!("{};rm -rf ~", "QUJD".repeat(250_000));
    let rows = shown(&blob);
    assert_eq!(rows[0], "    size | 1000009 characters");
    assert_eq!(rows.len(), 1 + 1_000_009_usize.div_ceil(68));
    assert!(rows.last().unwrap().ends_with('~'));
}

#[test]
fn text_of_others_does_not_act_on_the_screen() {
    let hostile = "\u{1b}\u{9b}\u{7}\u{8}\r\u{202e}\u{2028}\u{e0041}\u{ad}\u{e000}\u{378}";
    for c in hostile.chars() {
        assert_eq!(visible(&c.to_string()), c.escape_unicode().to_string());
    }
    for stays in ["Grüße שלום עולם", "❤️ 👨‍👩‍👧 1️⃣", "می‌خواهم", "a\u{a0}b\r\n\tc\\", "ni\u{303}o"]
    {
        assert_eq!(visible(stays), stays);
    }
    assert_eq!(
        visible(&"\u{336}".repeat(6)),
        format!("{}\\u{{336}}\\u{{336}}", "\u{336}".repeat(4))
    );
    assert_eq!(visible("rm\u{200d}\u{fe0f}"), r"rm\u{200d}\u{fe0f}");
    assert_eq!(visible("😀\u{fe0f}\u{fe0f}"), "😀\u{fe0f}\\u{fe0f}");
}

/// Texts that often contain hostile characters.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[ -~]{0,12}",
        2 => any::<char>().prop_map(String::from),
        2 => "[\\\\{}u 0-9*]{1,8}",
        1 => (0_usize..40).prop_map(|times| " ".repeat(times)),
        1 => (0_usize..8).prop_map(|times| "\n".repeat(times)),
        1 => (0_usize..8).prop_map(|times| "\t".repeat(times)),
        1 => "[\u{300}-\u{36f}]{1,6}",
        1 => "[а-яα-ωa-zא-ת]{1,8}",
        1 => "[世界😀🇩⚙한ไ่]{1,40}",
        1 => "[\u{0}-\u{1f}\u{7f}-\u{a0}\u{200b}-\u{200f}\u{202a}-\u{202e}\u{e0020}-\u{e0030}]{1,6}",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// `screen` checks that each row fits the terminal and has no hidden characters.
    #[test]
    fn any_text_can_be_read_back_from_the_screen(
        name in texts(), text in texts(), reason in texts(), columns in NARROWEST..100,
    ) {
        let mut members = Map::new();
        members.insert(name.clone(), Value::from(text.as_str()));
        let mut question = question(&json!({}));
        question.arguments = Arguments::from(members);
        question.reasons = vec![Reason::new(Decider::Review, reason.as_str())];
        question.preview = Some(Preview::Text(reason.clone()));
        let rows = screen(&question, columns);
        let path = name.replace('~', "~0").replace('/', "~1");
        prop_assert_eq!(arguments_on(&rows), [(path, "text".to_owned(), text)]);
        let fields = read_back(&rows);
        let why = format!("the tool's own review: {reason}");
        for (label, expected) in [("why", why.as_str()), ("preview", reason.as_str())] {
            let field = fields.iter().find(|(found, _)| found == label);
            prop_assert_eq!(field.map(|(_, text)| text.as_str()), Some(expected));
        }
    }

    #[test]
    fn nothing_that_acts_passes(text in texts()) {
        let shown = visible(&text);
        let acts = |c: char| c.is_control() && !matches!(c, '\n' | '\t' | '\r');
        prop_assert!(!shown.contains(acts), "{:?}", shown);
        prop_assert!(!shown.replace("\r\n", "").contains('\r'), "{:?}", shown);
        prop_assert!(shown.chars().count() >= text.chars().count());
    }
}

#[test]
fn a_title_stands_beside_the_name_and_hides_nothing() {
    let mut question = question(&json!({}));
    question.title = Some("Read a file\u{1b}[8m\u{202e}".to_owned());
    let fields = read_back(&screen(&question, 80));
    let at = fields.iter().position(|(label, _)| label == "tool").expect("the name");
    assert_eq!(fields[at].1, "bash");
    assert_eq!(fields[at + 1], ("titled".to_owned(), "Read a file\u{1b}[8m\u{202e}".to_owned()));
}

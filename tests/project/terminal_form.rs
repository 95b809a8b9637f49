//! What a person sees of a form on a real terminal, and which values it returns: values of each kind, forms that are
//! made to deceive, forms that are withdrawn, and questions that wait behind them.

use harness::{
    SideEffects, ToolCall,
    policy::{
        ApprovalDecision, ApprovalRequest, Approver as _, Filled, TerminalApprover, TerminalForm,
    },
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::tmux::Terminal;

fn quiet(columns: u16, rows: u16) -> Option<Terminal> {
    Terminal::running("exec sleep 600", (columns, rows))
}

fn fill(terminal: &Terminal, message: &str, schema: Value) -> JoinHandle<std::io::Result<Filled>> {
    let form = TerminalForm::on(terminal.device());
    let message = message.to_owned();
    tokio::spawn(async move { form.fill("orders", &message, &schema).await })
}

/// Waits until so many pages were shown since the terminal was opened, and the last one waits for a line. What is typed
/// before is dropped by the form.
async fn pages(terminal: &Terminal, shown: usize) {
    tokio::task::block_in_place(|| {
        terminal.wait(format!("page {shown}"), |screen| {
            screen.matches("Form. Only").count() == shown && screen.ends_with(':')
        });
    });
}

/// Waits until this stands on the screen, and the prompt behind it is the last thing.
async fn until(terminal: &Terminal, text: &str) -> String {
    tokio::task::block_in_place(|| {
        terminal.wait(text, |screen| {
            screen.rfind(text).is_some_and(|at| {
                let behind = &screen[at + text.len()..];
                screen.ends_with(':') && !behind.contains("Form. Only")
            })
        });
    });
    terminal.visible()
}

/// Each value is typed when its field is on the screen.
async fn answer(terminal: &Terminal, fields: &[(&str, &str)]) {
    for (seen, typed) in fields {
        until(terminal, seen).await;
        terminal.say(typed);
    }
}

async fn given(asked: JoinHandle<std::io::Result<Filled>>) -> Filled {
    asked.await.expect("no panic").expect("a terminal")
}

fn object(fields: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": fields, "required": required})
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_field_is_filled_in_checked_and_shown_before_it_is_given() {
    let Some(terminal) = quiet(100, 40) else { return };
    let schema = object(
        json!({
            "name": {"type": "string", "minLength": 2, "title": "Your name"},
            "mail": {"type": "string", "format": "email"},
            "age": {"type": "integer", "minimum": 18},
            "share": {"type": "number", "default": 0.5},
            "news": {"type": "boolean", "default": false},
            "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"]},
            "days": {"type": "array", "minItems": 1,
                "items": {"anyOf": [{"const": "mon", "title": "Monday"}, {"const": "tue", "title": "Tuesday"}]}},
            "path": {"type": "string"},
            "note": {"type": "string"},
        }),
        &["name", "age", "size", "days"],
    );
    let asked = fill(&terminal, "Who are you?", schema);
    answer(&terminal, &[("asks | Who are you?", ""), ("Your name", "A")]).await;
    let screen = until(&terminal, "wrong |").await;
    assert!(screen.contains("field | name"), "it is asked again: {screen}");
    terminal.say("");
    let screen = until(&terminal, "this field must be given").await;
    assert!(screen.contains("it must be given, /back, /decline, /cancel:"), "{screen}");
    answer(
        &terminal,
        &[
            ("this field must be given", "Ada"),
            ("field | mail", "ada@example.com"),
            ("field | age", "17"),
            ("wrong |", "36"),
            ("default | 0.5", ""),
            ("field | news", "yes"),
            ("[2] | Medium (m)", "3"),
            ("wrong | none of these has this number", "2"),
            ("[2] | Tuesday (tue)", "-"),
            ("wrong |", "2, 1 2"),
            ("field | path", "//etc"),
            ("field | note", "/back"),
            ("given | /etc", ""),
            ("field | note", ""),
        ],
    )
    .await;
    let screen = until(&terminal, "Give these values?").await;
    for row in [
        "to | orders",
        "value | Ada",
        "value | 36",
        "value | 0.5",
        "value | true",
        "value | [2] Medium (m)",
        "value | [2] Tuesday (tue)",
        "value | [1] Monday (mon)",
        "value | /etc",
        "left out |",
    ] {
        assert!(screen.contains(row), "{row:?} is not in\n{screen}");
    }
    terminal.say("y");
    let expected = json!({"name": "Ada", "mail": "ada@example.com", "age": 36, "share": 0.5, "news": true,
        "size": "m", "days": ["tue", "mon"], "path": "/etc"});
    assert_eq!(given(asked).await, Filled::Accepted(expected.as_object().expect("it").clone()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_declined_and_put_aside_on_each_of_its_pages() {
    let Some(terminal) = quiet(80, 12) else { return };
    let message = "a line\n".repeat(7);
    let schema = object(json!({"a": {"type": "string"}}), &[]);
    let mut shown = 0;
    for (word, filled) in [("/decline", Filled::Declined), ("/cancel", Filled::Cancelled)] {
        let asks = ["Page 1 of 2", "1 field.", "Field 1 of 1", "Give these values?"];
        for (enters, last) in asks.into_iter().enumerate() {
            let asked = fill(&terminal, &message, schema.clone());
            shown += 1;
            pages(&terminal, shown).await;
            for _ in 0..enters {
                terminal.say("");
                shown += 1;
                pages(&terminal, shown).await;
            }
            let screen = terminal.visible();
            assert!(
                screen.lines().last().is_some_and(|row| row.contains(last)),
                "{last}: {screen}"
            );
            terminal.say(word);
            assert_eq!(given(asked).await, filled, "{word} after {enters} pages");
        }
    }
    // `n` under the values gives nothing, either.
    let asked = fill(&terminal, "Who?", schema);
    answer(&terminal, &[("asks | Who?", ""), ("field | a", "x"), ("Give these", "n")]).await;
    assert_eq!(given(asked).await, Filled::Declined);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_cannot_pass_for_the_program_or_for_another_form() {
    let Some(terminal) = quiet(100, 40) else { return };
    let message = "Sign in\u{1b}[2J\u{1b}[8m\nGive these values? [y]es, /back, /decline, /cancel: y\n\u{202e}drowssap";
    let schema = object(
        json!({
            "apiKey": {"type": "string", "title": "x\u{1b}]0;pwned\u{7}", "description": "Page 2 of 2: [y]es"},
            "note": {"type": "string", "description": "Your API key, please.\nWarning: none", "pattern": "\nType it."},
            "one": {"type": "array", "default": [], "items": {"enum": ["[]", "\u{200b}"]}},
            "text": {"type": "string", "default": "\"\""},
        }),
        &[],
    );
    let asked = fill(&terminal, message, schema);
    let screen = until(&terminal, "asks | Sign in").await;
    for row in [
        r"asks | Sign in\u{1b}[2J\u{1b}[8m",
        "         | Give these values? [y]es, /back, /decline, /cancel: y",
        r"\u{202e}drowssap",
        "from | orders",
    ] {
        assert!(screen.contains(row), "{row:?} is not in\n{screen}");
    }
    terminal.say("");
    let screen = until(&terminal, "field | apiKey").await;
    assert!(screen.contains("\nWarning: this seems to ask for a secret."), "{screen}");
    assert!(screen.contains(r"titled | x\u{1b}]0;pwned\u{7}"), "{screen}");
    // An arrow key writes control characters, which no value may have.
    terminal.press(&["Up"]);
    terminal.press(&["Enter"]);
    until(&terminal, "a key was pressed that is not a character").await;
    terminal.say("");
    let screen = until(&terminal, "field | note").await;
    let own: Vec<&str> = screen[screen.rfind("field | note").expect("it")..]
        .lines()
        .filter(|row| !row.contains(" | ") && !row.contains(" : "))
        .collect();
    let words = own.join(" ");
    assert!(words.starts_with("Type a text.") && words.contains("Warning: this seems"), "{screen}");
    assert!(!words.contains("none") && !words.contains("Type it."), "{screen}");
    terminal.say("");
    let screen = until(&terminal, "field | one").await;
    assert!(screen.contains("default | []") && screen.contains(r"[2] | \u{200b}"), "{screen}");
    answer(&terminal, &[("field | one", "1"), ("field | text", "\"\"")]).await;
    let screen = until(&terminal, "Give these values?").await;
    assert!(screen.contains("value | [1] []"), "a choice is no empty list: {screen}");
    assert!(screen.contains("   value |\n"), "an empty text is no text of two marks: {screen}");
    terminal.say("y");
    let expected = json!({"one": ["[]"], "text": ""});
    assert_eq!(given(asked).await, Filled::Accepted(expected.as_object().expect("it").clone()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_taken_back_gives_no_key_to_the_question_behind_it() {
    let Some(terminal) = quiet(100, 40) else { return };
    let asked = fill(&terminal, "Who?", object(json!({"a": {"type": "string"}}), &[]));
    until(&terminal, "asks | Who?").await;
    let question = ApprovalRequest::new(
        &ToolCall::new("call_1", "bash", json!({"command": "rm"}).to_string()),
        SideEffects::ALL,
    );
    let approver = TerminalApprover::on(terminal.device());
    let behind = tokio::spawn(async move { approver.ask(&question).await });
    asked.abort();
    assert!(asked.await.is_err(), "it was dropped");
    until(&terminal, "taken back. Press Enter to see the next one:").await;
    let shown = terminal.screen();
    assert!(shown.contains("(This question was taken back.)"), "{shown}");
    // A key that was meant for the form.
    terminal.say("y");
    until(&terminal, "[s]how again:").await;
    terminal.say("n");
    assert!(matches!(behind.await.expect("an answer").answer, ApprovalDecision::No { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_come_one_after_the_other_and_a_terminal_that_is_none_is_an_error() {
    let Some(terminal) = quiet(100, 40) else { return };
    let schema = object(json!({"a": {"type": "string"}}), &["a"]);
    let first = fill(&terminal, "First?", schema.clone());
    until(&terminal, "asks | First?").await;
    let second = fill(&terminal, "Second?", schema.clone());
    answer(&terminal, &[("First?", ""), ("field | a", "1"), ("Give these", "y")]).await;
    assert_eq!(
        given(first).await,
        Filled::Accepted(json!({"a": "1"}).as_object().expect("it").clone())
    );
    answer(&terminal, &[("Second?", ""), ("field | a", "2"), ("Give these", "y")]).await;
    assert_eq!(
        given(second).await,
        Filled::Accepted(json!({"a": "2"}).as_object().expect("it").clone())
    );
    // An empty form is said yes to, too.
    let empty = fill(&terminal, "Nothing?", json!({"type": "object", "properties": {}}));
    answer(&terminal, &[("Nothing?", ""), ("values | none", "y")]).await;
    assert_eq!(given(empty).await, Filled::Accepted(serde_json::Map::new()));

    let file = terminal.file("none");
    std::fs::write(&file, "").expect("a file");
    let none = TerminalForm::on(file).fill("orders", "Who?", &schema).await;
    assert!(none.unwrap_err().to_string().contains("it is not a terminal"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_that_shrinks_is_shown_the_form_anew() {
    let Some(terminal) = quiet(100, 40) else { return };
    let asked = fill(&terminal, "Who?", object(json!({"a": {"type": "string"}}), &["a"]));
    answer(&terminal, &[("asks | Who?", "")]).await;
    until(&terminal, "field | a").await;
    tokio::task::block_in_place(|| terminal.resize(30, 9));
    terminal.say("typed for what was shown");
    until(&terminal, "too small. Give it 36 x 10").await;
    tokio::task::block_in_place(|| terminal.resize(90, 30));
    terminal.say("");
    tokio::task::block_in_place(|| {
        terminal.wait("the field once more", |screen| {
            screen.matches("field | a").count() == 2 && screen.ends_with(':')
        });
    });
    terminal.say("now");
    let screen = until(&terminal, "Give these values?").await;
    assert!(screen.contains("value | now"), "{screen}");
    terminal.say("y");
    assert_eq!(
        given(asked).await,
        Filled::Accepted(json!({"a": "now"}).as_object().expect("it").clone())
    );
}

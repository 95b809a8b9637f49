//! The views of an answer while it arrives: they show only complete parts, which never change, and
//! their cost is linear in the text.

use harness::{
    Agent,
    agent::{AnswerView, Event},
    testing::{ScriptedProvider, reply},
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Whether everything that `before` shows stands in `after`, at the same place.
fn grows(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            before.iter().all(|(name, it)| after.get(name).is_some_and(|after| grows(it, after)))
        }
        (Value::Array(before), Value::Array(after)) => {
            before.len() <= after.len()
                && before.iter().zip(after).all(|(it, after)| grows(it, after))
        }
        (before, after) => before == after,
    }
}

fn values() -> impl Strategy<Value = Value> {
    let number = any::<f64>().prop_filter_map("finite", |it| it.is_finite().then(|| json!(it)));
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        number,
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

/// Pushes each letter by itself. Each view grows from the one before it.
pub(crate) fn pushed(text: &str) -> Option<Value> {
    let (mut view, mut whole, mut before) = (AnswerView::new(), AnswerView::new(), None);
    for letter in text.chars() {
        let more = view.push(letter.encode_utf8(&mut [0; 4]));
        let after = view.value().cloned();
        assert_eq!(more, before != after, "{text}");
        if let Some(before) = &before {
            assert!(after.as_ref().is_some_and(|after| grows(before, after)), "{text}: {before}");
        }
        before = after;
    }
    whole.push(text);
    assert_eq!(whole.value(), before.as_ref(), "in one piece, too: {text}");
    before
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::times(300), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_prefix_of_a_value_is_shown_and_only_grows(value in values(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let text = text.unwrap();
        // A number by itself never ends.
        if value.is_array() || value.is_object() || value.is_string() {
            let read: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(pushed(&text), Some(read));
        }
    }

    #[test]
    fn any_text_is_shown_as_far_as_it_goes(text in r#"[\[\]{}",:\\ 0-9a-ftrunls`\n.-]{0,60}"#) {
        pushed(&text);
    }
}

#[test]
fn what_is_no_json_shows_what_came_before() {
    let table = [
        ("```json\n{\"a\": [1, 2]}\n```", Some(json!({"a": [1, 2]}))),
        (r#"{"a": 1, "b": tru, "c": 2}"#, Some(json!({"a": 1}))),
        (r#"{"a": 1, "a": 2, "b": 3}"#, Some(json!({"a": 1}))),
        (r#"{"a": [1, 2}"#, Some(json!({"a": [1, 2]}))),
        (r#"{"a": "\ud83e"}"#, Some(json!({}))),
        ("[1, ]", Some(json!([1]))),
        ("{,}", Some(json!({}))),
        ("Here it is: {}", None),
        ("", None),
    ];
    for (text, expected) in table {
        assert_eq!(pushed(text), expected, "{text}");
    }
    let deep = "[".repeat(100_000);
    let mut view = AnswerView::new();
    assert!(view.push(&deep));
    drop(view.clone());
    assert!(!view.push("1, 2"), "deeper than any answer");
}

#[tokio::test]
async fn a_new_try_begins_from_nothing() {
    let model = ScriptedProvider::new([
        reply().text(r#"{"answer": [1, 2, "#).text(r#""3"]}"#),
        reply().text(r#"{"answer": [4"#).text("]}"),
    ]);
    let agent = Agent::builder(model).build().unwrap();
    let (mut shown, mut texts) = (Vec::new(), 0);
    let answering = agent.run("Which?").on_event(|event| {
        texts += usize::from(matches!(event, Event::Text(_)));
    });
    let answering = answering.answer::<Vec<u8>>().on_view(|view| shown.push(view.clone()));
    assert_eq!(answering.await.unwrap().into_value(), [4]);
    assert_eq!(shown, [json!([1]), json!([1, 2]), json!([1, 2, "3"]), json!([]), json!([4])]);
    assert!(texts >= 4, "others watch, too");
}

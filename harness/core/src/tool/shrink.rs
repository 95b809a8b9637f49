//! Cuts a JSON value so that it stays valid JSON: long strings lose their middle, and arrays and objects lose members.

use serde_json::{Map, Value};

use super::truncate::cut;

/// The minimum length of a cut string, in bytes. If less were kept, the string would be shorter than the note about the
/// cut.
const LEAST: usize = 64;

/// The approximate length of a note about a cut, in bytes.
const NOTE: usize = 64;

/// Cuts the value to about `room` bytes. Notes mark the cuts: inside of a string, as a string in an array, or as a
/// member of an object.
pub(super) fn shrunk(value: Value, room: usize) -> Value {
    if size(&value) <= room {
        return value;
    }
    match value {
        Value::String(text) => Value::String(cut(&text, room.max(LEAST).min(text.len() / 2), "")),
        Value::Array(values) => list(values, room),
        Value::Object(members) => object(members, room),
        value @ (Value::Null | Value::Bool(_) | Value::Number(_)) => value,
    }
}

fn size(value: &Value) -> usize {
    value.to_string().len()
}

/// Keeps the first and the last items that fit.
fn list(values: Vec<Value>, room: usize) -> Value {
    let count = values.len();
    let sizes: Vec<usize> = values.iter().map(|value| size(value).saturating_add(1)).collect();
    let room = room.saturating_sub(NOTE);
    let fitting = |sizes: &mut dyn Iterator<Item = &usize>, room: usize| {
        let mut left = room;
        sizes.take_while(|size| left.checked_sub(**size).map(|rest| left = rest).is_some()).count()
    };
    let first = fitting(&mut sizes.iter(), room / 2);
    let last = fitting(&mut sizes.iter().rev(), room / 2).min(count.saturating_sub(first));
    let used: usize = sizes.iter().take(first).chain(sizes.iter().rev().take(last)).sum();
    let mut kept = Vec::new();
    let mut gone = count.saturating_sub(first).saturating_sub(last);
    for (at, value) in values.into_iter().enumerate() {
        if at < first || at >= count.saturating_sub(last) {
            kept.push(value);
        } else if at == first {
            // The first item that does not fit is cut, if there is room for a part of it.
            let left = room.saturating_sub(used);
            let value = (left >= LEAST).then(|| shrunk(value, left.saturating_sub(NOTE)));
            if let Some(value) = value.filter(|value| size(value) <= left.saturating_add(NOTE)) {
                kept.push(value);
                gone = gone.saturating_sub(1);
            }
            if gone > 0 {
                kept.push(Value::String(format!("[.. {gone} of {count} items were cut here ..]")));
            }
        }
    }
    Value::Array(kept)
}

/// Cuts each member to its share of the room. If there are too many members, only the first members are kept.
fn object(members: Map<String, Value>, room: usize) -> Value {
    let count = members.len();
    let sizes: Vec<usize> = members
        .iter()
        .map(|(name, value)| size(value).saturating_add(name.len()).saturating_add(4))
        .collect();
    let room = room.saturating_sub(NOTE);
    let share = super::truncate::fair_share(&sizes, room);
    let mut left = room;
    let mut kept = Map::new();
    for ((name, value), size_of) in members.into_iter().zip(sizes) {
        let of_name = name.len().saturating_add(4);
        let value = match size_of <= share {
            true => value,
            false => shrunk(value, share.saturating_sub(of_name)),
        };
        let takes = size(&value).saturating_add(of_name);
        // A cut string or array may still be longer than its share.
        let Some(rest) = left.checked_sub(takes) else { continue };
        left = rest;
        kept.insert(name, value);
    }
    let gone = count.saturating_sub(kept.len());
    if gone > 0 {
        let note = format!("{gone} of {count} members were cut here");
        kept.insert("[..]".to_owned(), Value::String(note));
    }
    Value::Object(kept)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{NOTE, shrunk};

    #[test]
    fn a_value_keeps_its_form_in_the_room_that_there_is() {
        let long = "ä".repeat(5000);
        let rows: Vec<Value> =
            (0..1000).map(|at| json!({"id": at, "name": "x".repeat(20)})).collect();
        let wide: Value = (0..5000).map(|at| (format!("m{at}"), json!(at))).collect();
        let mut deep = json!(rows);
        for _ in 0..20 {
            deep = json!({"in": deep, "n": 1});
        }
        for value in [json!(long), json!(rows), wide, deep, json!({"a": long, "b": rows, "c": 7})] {
            for room in [0, 100, 1000, 4096, 20_000] {
                let cut = shrunk(value.clone(), room);
                let size = cut.to_string().len();
                assert!(size <= room + 3 * NOTE, "{size} bytes in {room}: {cut}");
                assert_eq!(cut.is_array(), value.is_array());
                assert_eq!(cut.is_object(), value.is_object());
            }
        }
        let cut = shrunk(json!({"rows": rows, "total": 1000}), 2000);
        assert_eq!(cut["total"], 1000);
        assert_eq!(cut["rows"][0]["id"], 0);
        let list = cut["rows"].as_array().expect("a list");
        assert_eq!(list.last().expect("the last row")["id"], 999);
        assert!(list.iter().any(|it| it.as_str().is_some_and(|it| it.contains("of 1000 items"))));
        assert_eq!(shrunk(json!([1, 2]), 100), json!([1, 2]));
    }
}

//! One table of all results for ../SPEED.md: the floor, this library, the best peer, and the
//! best-known peer.

use std::fmt::Write as _;

use crate::{
    building::FLOOR,
    figures::{Figure, Figures, MeasuredAt, value},
    tables::number,
};

/// A row: its text, its section, its table, the name of the value, the subject for this library,
/// and the subject for the floor.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str);

const SERVED: &str = "CPU \u{b5}s an answer";
const MEMORY: &str = "peak RSS MiB";
const US: &str = "harness";

const ROWS: &[Row] = &[
    (
        "answers as servers send them, Anthropic: CPU \u{b5}s each",
        "served",
        "anthropic",
        SERVED,
        US,
        "floor",
    ),
    ("the same, Responses", "served", "responses", SERVED, US, "floor"),
    ("the same, Chat Completions", "served", "chat", SERVED, US, "floor"),
    ("recorded answers, Anthropic: CPU \u{b5}s each", "recorded", "anthropic", SERVED, US, "floor"),
    ("the same, Responses", "recorded", "responses", SERVED, US, "floor"),
    ("the same, Chat Completions", "recorded", "chat", SERVED, US, "floor"),
    (
        "the best case, 2,000 deltas that are alike, Anthropic: CPU ms",
        "streams",
        "anthropic",
        "CPU ms",
        US,
        "floor",
    ),
    ("the same, Responses", "streams", "responses", "CPU ms", US, "floor"),
    ("the same, Chat Completions", "streams", "chat", "CPU ms", US, "floor"),
    (
        "a whole turn with a call of a tool, Anthropic: CPU ms",
        "turns",
        "anthropic",
        "CPU ms",
        US,
        "floor",
    ),
    ("the same, Responses", "turns", "responses", "CPU ms", US, "floor"),
    ("the same, Chat Completions", "turns", "chat", "CPU ms", US, "floor"),
    (
        "the first request of a conversation of 10,000 messages, 10 MB: CPU ms",
        "requests",
        "10000",
        "CPU ms",
        "harness, chat, first request",
        "ready bytes",
    ),
    ("each later one", "requests", "10000", "CPU ms", "harness, chat", "ready bytes"),
    ("the same: peak memory, MiB", "requests", "10000", MEMORY, "harness, chat", "ready bytes"),
    ("1,000 streams at once, Anthropic: CPU ms", "herds", "anthropic", "CPU ms", US, "floor"),
    ("the same: peak memory, MiB", "herds", "anthropic", MEMORY, US, "floor"),
    ("1,000 streams at once, Responses: CPU ms", "herds", "responses", "CPU ms", US, "floor"),
    ("the same: peak memory, MiB", "herds", "responses", MEMORY, US, "floor"),
    ("1,000 streams at once, Chat Completions: CPU ms", "herds", "chat", "CPU ms", US, "floor"),
    ("the same: peak memory, MiB", "herds", "chat", MEMORY, US, "floor"),
    ("10,000 streams held, Anthropic: peak memory, MiB", "held", "anthropic", MEMORY, US, "floor"),
    ("the same, Responses", "held", "responses", MEMORY, US, "floor"),
    ("the same, Chat Completions", "held", "chat", MEMORY, US, "floor"),
    (
        "a conversation that waits, Chat Completions: bytes in addition to its text",
        "idle",
        "chat",
        "bytes",
        US,
        "",
    ),
    (
        "from the start of a program to the first byte of its request: ms (floor: curl)",
        "first_word",
        "chat",
        "ms to the request",
        US,
        "curl",
    ),
    (
        "to the first word on the screen: ms",
        "first_word",
        "chat",
        "ms to the first word",
        US,
        "curl",
    ),
    ("a turn of 20 calls over a link of 25 ms: ms", "slow_link", "chat", "ms", US, ""),
    ("a first program: packages", "build", "hello", "packages", US, FLOOR),
    ("its first debug build: CPU s", "build", "hello", "debug CPU s", US, FLOOR),
    ("from nothing to a program that runs: s", "build", "hello", "debug s", US, FLOOR),
    ("its release build: CPU s", "build", "hello", "release CPU s", US, FLOOR),
    ("built again after a change: CPU s", "build", "hello", "incremental CPU s", US, FLOOR),
    ("its stripped binary: MB", "build", "hello", "stripped MB", US, FLOOR),
    ("each of 200 tools: check, CPU ms", "macros", "tools", "check ms a tool", US, ""),
    ("the same: debug build", "macros", "tools", "build ms a tool", US, ""),
];

pub fn table(figures: &Figures) -> String {
    let mut out =
        "\n| | floor | harness | the best of the others | rig 0.46 |\n|---|---|---|---|---|\n"
            .to_owned();
    for (what, section, group, name, own, floor) in ROWS {
        let groups = figures.groups(section);
        let Some((_, rows)) = groups.into_iter().find(|(of, _)| of == group) else { continue };
        let Some(own) = value(&rows, own, name) else { continue };
        let peer = |row: &&&Figure| row.subject.contains(|c: char| c.is_ascii_digit());
        let peers = rows.iter().filter(peer).filter_map(|row| Some((row, row.value(name)?)));
        let best = peers.min_by(|(_, one), (_, other)| one.total_cmp(other));
        // If a subject has not read all answers, the ratio includes only the answers that both
        // subjects have read.
        let times = |row: &Figure, of: f64| {
            let ratio = row.value("\u{d7} harness").unwrap_or(of / own);
            format!("{} (\u{d7} {ratio:.1})", number(of))
        };
        let floor = value(&rows, floor, name).map(number).unwrap_or_default();
        let best = best.map(|(row, of)| {
            let subject = row.subject.split(',').next().unwrap_or_default();
            format!("{subject}: {}", times(row, of))
        });
        let rig = rows.iter().find(|row| row.subject.starts_with("rig"));
        let rig = rig.and_then(|row| Some(times(row, row.value(name)?)));
        let _ = writeln!(
            out,
            "| {what} | {floor} | **{}** | {} | {} |",
            number(own),
            best.unwrap_or_default(),
            rig.unwrap_or_default()
        );
    }
    let early = figures.groups("early");
    if let Some((_, rows)) = early.iter().find(|(wire, _)| *wire == "anthropic") {
        let mut waits =
            rows.iter().filter_map(|row| Some((&row.subject, row.value("ms to wait")?)));
        if let (Some(last), Some(together), Some(own)) = (waits.next(), waits.next(), waits.next())
        {
            let said = |(subject, time): (&String, f64)| format!("{subject}: {}", number(time));
            let _ = writeln!(
                out,
                "| three calls of 100 ms in a turn of 1 s: ms to wait after it | | **{}** | {} | {} |",
                number(own.1),
                said(together),
                said(last)
            );
        }
    }
    let _ = writeln!(out, "\n| section | measured at commit | of |\n|---|---|---|");
    for (section, MeasuredAt { commit, day }) in &figures.measured_at {
        let _ = writeln!(out, "| {section} | `{commit}` | {day} |");
    }
    out
}

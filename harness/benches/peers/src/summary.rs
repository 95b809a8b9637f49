//! One table of everything for the library's own README: the floor, ours, the best of the peers and
//! the one that is known best.

use std::fmt::Write as _;

use crate::{
    figures::{Figure, Figures, value},
    tables::number,
};

/// What a row says, its section and table, the value, and what its floor is called.
const ROWS: &[(&str, &str, &str, &str, &str)] = &[
    ("a stream of 2,000 deltas, Anthropic: CPU ms", "streams", "anthropic", "CPU ms", "floor"),
    ("the same, Responses", "streams", "responses", "CPU ms", "floor"),
    ("the same, Chat Completions", "streams", "chat", "CPU ms", "floor"),
    ("a turn after 10,000 messages, 10 MB: CPU ms", "requests", "10000", "CPU ms", "ready bytes"),
    ("1,000 streams at once, Anthropic: CPU ms", "herds", "anthropic", "CPU ms", "floor"),
    ("the same: peak memory, MiB", "herds", "anthropic", "peak RSS MiB", "floor"),
    ("1,000 streams at once, Responses: CPU ms", "herds", "responses", "CPU ms", "floor"),
    ("the same: peak memory, MiB", "herds", "responses", "peak RSS MiB", "floor"),
    ("1,000 streams at once, Chat Completions: CPU ms", "herds", "chat", "CPU ms", "floor"),
    ("the same: peak memory, MiB", "herds", "chat", "peak RSS MiB", "floor"),
    ("a first program: packages", "build", "hello", "packages", ""),
    ("its first debug build: CPU s", "build", "hello", "debug CPU s", ""),
    ("its release build: CPU s", "build", "hello", "release CPU s", ""),
    ("built again after a change: CPU s", "build", "hello", "incremental CPU s", ""),
    ("its stripped binary: MB", "build", "hello", "stripped MB", ""),
    ("each of 200 tools: check, CPU ms", "macros", "tools", "check ms a tool", ""),
    ("the same: debug build", "macros", "tools", "build ms a tool", ""),
];

pub fn table(figures: &Figures) -> String {
    let mut out =
        "\n| | floor | harness | the best of the others | rig 0.46 |\n|---|---|---|---|---|\n"
            .to_owned();
    for (what, section, group, name, floor) in ROWS {
        let groups = figures.groups(section);
        let Some((_, rows)) = groups.into_iter().find(|(of, _)| of == group) else { continue };
        let ours = |row: &&&Figure| row.subject.starts_with("harness");
        let Some(own) = rows.iter().find(ours).and_then(|row| row.value(name)) else { continue };
        let peer = |row: &&&Figure| row.subject.contains(|c: char| c.is_ascii_digit());
        let peers = rows.iter().filter(peer).filter_map(|row| Some((row, row.value(name)?)));
        let best = peers.min_by(|(_, one), (_, other)| one.total_cmp(other));
        let times = |of: f64| format!("{} (\u{d7} {:.1})", number(of), of / own);
        let floor = value(&rows, floor, name).map(number).unwrap_or_default();
        let best = best.map(|(row, of)| {
            let subject = row.subject.split(',').next().unwrap_or_default();
            format!("{subject}: {}", times(of))
        });
        let rig = rows.iter().find(|row| row.subject.starts_with("rig"));
        let rig = rig.and_then(|row| row.value(name)).map(times);
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
    out
}

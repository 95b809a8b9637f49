//! Tables for the terminal, for README.md and for ../SPEED.md. In the files, each table is between
//! two marks.

use std::{fmt::Write as _, fs, path::Path};

use crate::{
    figures::{Figures, value},
    pictures,
    subject::Failure,
    summary,
};

/// The title of a table, and the ratios in it. Each ratio is the name of a value and the subject to
/// which that value is compared.
fn layout(section: &str, group: &str) -> (String, &'static [(&'static str, &'static str)]) {
    const CPU: &str = "CPU ms";
    const MEMORY: &str = "peak RSS MiB";
    match (section, group) {
        ("streams", wire) => (
            format!("2,000 text deltas on the wire `{wire}`"),
            &[(CPU, "shortcut"), (CPU, "floor"), (CPU, "harness")],
        ),
        ("served", wire) => (format!("Answers as servers send them, on the wire `{wire}`"), &[]),
        ("recorded", wire) => (format!("Recorded answers, on the wire `{wire}`"), &[]),
        ("turns", wire) => (
            format!("Two requests and a call between them, on the wire `{wire}`"),
            &[(CPU, "floor"), (CPU, "async-openai 0.43, by hand"), (CPU, "harness")],
        ),
        ("requests", "100") => {
            ("A turn after 100 messages, 1 MB".to_owned(), &[(CPU, "ready bytes")])
        }
        ("requests", messages) => {
            (format!("A turn after {messages} messages, 10 MB"), &[(CPU, "ready bytes")])
        }
        ("herds", wire) => (
            format!("1,000 streams of 200 deltas, 5 ms apart, on the wire `{wire}`"),
            &[(CPU, "floor"), (MEMORY, "floor")],
        ),
        ("held", wire) => (
            format!("10,000 streams open at once on the wire `{wire}`"),
            &[(CPU, "floor"), (MEMORY, "floor")],
        ),
        ("build", _) => (
            "A program that asks once".to_owned(),
            &[("debug CPU s", "harness"), ("incremental CPU s", "harness")],
        ),
        ("macros", _) => (
            "Each of two hundred tools".to_owned(),
            &[("check ms a tool", "rig 0.46"), ("build ms a tool", "rig 0.46")],
        ),
        ("first_word", wire) => (
            format!("From the start of a program to the first word, on the wire `{wire}`"),
            &[("ms to the request", "curl"), ("ms to the first word", "curl")],
        ),
        ("slow_link", wire) => {
            (format!("A turn of 20 calls over a link of 25 ms, on the wire `{wire}`"), &[])
        }
        ("early", wire) => (format!("Three calls in a turn of a second: `{wire}`"), &[]),
        (_, wire) => (format!("A chat that waits, on the wire `{wire}`"), &[]),
    }
}

/// The tables of one section, with their ratios.
fn tables(figures: &Figures, section: &str) -> String {
    let mut out = String::new();
    for (group, rows) in figures.groups(section) {
        let Some(first) = rows.first() else { continue };
        let (title, ratios) = layout(section, group);
        let _ = write!(out, "\n{title}\n\n| |");
        let mut columns = 1;
        for (name, _) in &first.values {
            let _ = write!(out, " {name} |");
            columns += 1;
            for (_, base) in ratios.iter().filter(|(of, _)| of == name) {
                let _ = write!(out, " \u{d7} {base} |");
                columns += 1;
            }
        }
        let _ = write!(out, "\n|{}\n", "---|".repeat(columns));
        for row in &rows {
            match row.subject.starts_with("harness") {
                true => out.push_str(&format!("| **{}** |", row.subject)),
                false => out.push_str(&format!("| {} |", row.subject)),
            }
            for (name, own) in &row.values {
                let _ = write!(out, " {} |", number(*own));
                for (_, base) in ratios.iter().filter(|(of, _)| of == name) {
                    match value(&rows, base, name) {
                        Some(base) => out.push_str(&format!(" {:.2} |", own / base)),
                        None => out.push_str(" |"),
                    }
                }
            }
            out.push('\n');
        }
    }
    out
}

/// A number as text, with about three significant digits.
pub fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => String::new(),
        value if value.fract() == 0.0 || value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

pub fn print(figures: &Figures, section: &str) {
    println!("{}", tables(figures, section));
}

/// Writes the tables into README.md and ../SPEED.md, and draws the pictures.
pub fn draw(figures: &Figures) -> Result<(), Failure> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut readme = fs::read_to_string(here.join("README.md"))?;
    const SECTIONS: [&str; 13] = [
        "served",
        "recorded",
        "streams",
        "turns",
        "requests",
        "herds",
        "held",
        "idle",
        "first_word",
        "slow_link",
        "early",
        "build",
        "macros",
    ];
    for section in SECTIONS {
        readme = between(&readme, section, &tables(figures, section));
    }
    fs::write(here.join("README.md"), readme)?;
    let speed = here.join("../SPEED.md");
    let page = fs::read_to_string(&speed)?;
    fs::write(&speed, between(&page, "speed", &summary::table(figures)))?;
    let folder = here.join("pictures");
    fs::create_dir_all(&folder)?;
    for (name, picture) in pictures::all(figures) {
        fs::write(folder.join(name), picture)?;
    }
    Ok(())
}

/// Replaces the text between the two marks of this name.
fn between(text: &str, name: &str, new: &str) -> String {
    let (begin, end) = (format!("<!-- {name} -->"), format!("<!-- end of {name} -->"));
    match (text.find(&begin), text.find(&end)) {
        (Some(from), Some(to)) if !new.is_empty() && from < to => {
            let (head, tail) = (text.get(..from), text.get(to..));
            format!("{}{begin}\n{new}\n{}", head.unwrap_or_default(), tail.unwrap_or_default())
        }
        _ => text.to_owned(),
    }
}

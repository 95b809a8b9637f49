//! Tables for the terminal and for the two READMEs, each between its marks.

use std::{fmt::Write as _, fs, path::Path};

use crate::{
    figures::{Figure, Figures, value},
    pictures,
    subject::Failure,
};

/// Tables of one section, with the ratios that count.
fn tables(figures: &Figures, section: &str) -> String {
    let (title, bases): (fn(&str) -> String, &[(&str, &str)]) = match section {
        "streams" => (
            |wire| format!("2,000 text deltas on the wire `{wire}`"),
            &[("floor", "CPU ms"), ("harness", "CPU ms")],
        ),
        "requests" => (
            |messages| match messages {
                "100" => "A turn after 100 messages, 1 MB".to_owned(),
                _ => format!("A turn after {messages} messages, 10 MB"),
            },
            &[("ready bytes", "CPU ms")],
        ),
        "herds" => (
            |wire| format!("1,000 streams of 200 deltas, 5 ms apart, on the wire `{wire}`"),
            &[("floor", "CPU ms"), ("floor", "peak RSS MiB")],
        ),
        "held" => (
            |wire| format!("10,000 streams open at once on the wire `{wire}`"),
            &[("floor", "CPU ms"), ("floor", "peak RSS MiB")],
        ),
        "build" => (
            |_| "A program that asks once".to_owned(),
            &[("harness", "debug CPU s"), ("harness", "incremental CPU s")],
        ),
        _ => (|wire| format!("A chat that waits, on the wire `{wire}`"), &[]),
    };
    let mut out = String::new();
    for (group, rows) in figures.groups(section) {
        let Some(first) = rows.first() else { continue };
        let _ = write!(out, "\n{}\n\n| |", title(group));
        for (name, _) in &first.values {
            let _ = write!(out, " {name} |");
        }
        for (base, name) in bases {
            let what = if bases.len() > 1 && same_base(bases) { name } else { "" };
            let _ = write!(out, " x {base}{}{what} |", if what.is_empty() { "" } else { ", " });
        }
        let columns = 1 + first.values.len() + bases.len();
        let _ = writeln!(out, "\n|{}", "---|".repeat(columns));
        for row in &rows {
            let _ = writeln!(out, "| {} |{}{} |", row.subject, own(row), ratios(row, &rows, bases));
        }
    }
    out
}

fn same_base(bases: &[(&str, &str)]) -> bool {
    bases.windows(2).all(|pair| matches!(pair, [one, other] if one.0 == other.0))
        || bases.iter().any(|(_, name)| *name != "CPU ms")
}

fn own(row: &Figure) -> String {
    row.values.iter().map(|(_, value)| format!(" {} |", number(*value))).collect()
}

fn ratios(row: &Figure, rows: &[&Figure], bases: &[(&str, &str)]) -> String {
    let ratios = bases.iter().map(|(base, name)| {
        let ratio = row.value(name)? / value(rows, base, name)?;
        Some(format!(" {ratio:.2}"))
    });
    ratios.map(|ratio| ratio.unwrap_or_else(|| " –".to_owned())).collect::<Vec<_>>().join(" |")
}

/// As many digits as say something.
fn number(value: f64) -> String {
    match value {
        value if value.fract() == 0.0 || value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

pub fn print(figures: &Figures, section: &str) {
    println!("{}", tables(figures, section));
}

/// Writes the tables into the READMEs and draws the pictures.
pub fn draw(figures: &Figures) -> Result<(), Failure> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut readme = fs::read_to_string(here.join("README.md"))?;
    for section in ["streams", "requests", "herds", "held", "idle", "build"] {
        readme = between(&readme, section, &tables(figures, section));
    }
    fs::write(here.join("README.md"), readme)?;
    let folder = here.join("pictures");
    fs::create_dir_all(&folder)?;
    for (name, picture) in pictures::all(figures) {
        fs::write(folder.join(name), picture)?;
    }
    Ok(())
}

/// The text with what stands between the marks of this name replaced.
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

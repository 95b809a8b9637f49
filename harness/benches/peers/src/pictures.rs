//! Pictures of the figures. Their colours are readable on a light and on a dark background.

use std::fmt::Write as _;

use crate::figures::{Figure, Figures};

/// The name and the content of each picture file.
pub fn all(figures: &Figures) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut add = |name: &str, title: &str, section: &str, value: &str, best: &str| {
        let groups = figures.groups(section);
        if !groups.is_empty() {
            out.push((format!("{name}.svg"), picture(title, &groups, value, best)));
        }
    };
    add(
        "streams",
        "A stream of 2,000 text deltas: CPU milliseconds",
        "streams",
        "CPU ms",
        "harness",
    );
    const SERVED: &str = "CPU \u{b5}s an answer";
    add("served", "Answers as servers send them: CPU microseconds", "served", SERVED, "harness");
    let title = "A whole turn with a call of a tool: CPU milliseconds";
    add("turns", title, "turns", "CPU ms", "harness");
    add("herds", "1,000 streams at once: CPU milliseconds", "herds", "CPU ms", "harness");
    add("memory", "1,000 streams at once: peak memory, MiB", "herds", "peak RSS MiB", "harness");
    let title = "10,000 streams held: peak memory, MiB";
    add("held", title, "held", "peak RSS MiB", "harness");
    add("build", "A clean debug build: CPU seconds", "build", "debug CPU s", "harness");
    out
}

const ROW: usize = 24;
const WIDTH: f64 = 430.0;

/// One bar for each subject. All groups have the same scale and are drawn one below the other.
fn picture(title: &str, groups: &[(&str, Vec<&Figure>)], name: &str, best: &str) -> String {
    // Some subjects are shown only in the tables: steps below the floor, and scripts, whose long
    // bars would make all other bars too short to see.
    let shown = |row: &&&Figure| {
        !matches!(row.subject.as_str(), "split" | "shortcut" | "tcp read")
            && !row.subject.ends_with(')')
    };
    let values = groups.iter().flat_map(|(_, rows)| rows.iter().filter(shown));
    let most = values.filter_map(|row| row.value(name)).fold(f64::MIN_POSITIVE, f64::max);
    let mut body = String::new();
    let mut y = 46;
    for (group, rows) in groups {
        if groups.len() > 1 {
            y += 10;
            let _ = writeln!(
                body,
                "<text x=\"12\" y=\"{}\" class=\"t\" font-weight=\"bold\">{group}</text>",
                y + 8
            );
            y += 16;
        }
        let ours = rows.iter().find(|row| row.subject == best).and_then(|row| row.value(name));
        for row in rows.iter().filter(shown) {
            let Some(value) = row.value(name) else { continue };
            let width = (value / most * WIDTH).max(1.5);
            let (colour, ratio) = match (row.subject.as_str(), ours) {
                (subject, _) if subject == best => ("#d9480f", String::new()),
                ("floor" | "http read" | "flat struct", _) | (_, None) => {
                    ("#3b82a8", String::new())
                }
                (_, Some(ours)) => ("#8a94a0", format!(", \u{d7} {:.1}", value / ours)),
            };
            let digits = if most < 100.0 { 2 } else { 0 };
            let _ = writeln!(
                body,
                "<text x=\"150\" y=\"{0}\" text-anchor=\"end\" class=\"t\">{1}</text>\
                 <rect x=\"158\" y=\"{y}\" width=\"{width:.1}\" height=\"17\" rx=\"2\" \
                 fill=\"{colour}\"/><text x=\"{2:.1}\" y=\"{0}\" class=\"t\">{value:.digits$}\
                 {ratio}</text>",
                y + 13,
                row.subject,
                165.0 + width
            );
            y += ROW;
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"{0}\" \
         viewBox=\"0 0 720 {0}\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <style>.t {{ fill: #768390 }}</style>\n\
         <text x=\"12\" y=\"26\" class=\"t\" font-size=\"15\">{title}</text>\n{body}</svg>\n",
        y + 12
    )
}

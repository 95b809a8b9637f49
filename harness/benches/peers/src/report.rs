//! Medians, tables, pictures.

use std::{fmt::Write as _, fs, path::Path};

use crate::Failure;

/// What one answer has cost.
#[derive(Clone, Copy)]
pub struct Turn {
    pub nanoseconds: u64,
    pub allocations: u64,
    pub bytes: u64,
}

impl Turn {
    pub fn read(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace().map(str::parse);
        let mut next = || words.next()?.ok();
        Some(Self { nanoseconds: next()?, allocations: next()?, bytes: next()? })
    }

    #[expect(clippy::cast_precision_loss, reason = "it is shown with two digits")]
    fn milliseconds(self) -> f64 {
        self.nanoseconds as f64 / 1e6
    }
}

/// The median of the times; what is counted is the same each time.
pub fn median(turns: &[Turn]) -> Turn {
    let mut turns = turns.to_vec();
    turns.sort_by_key(|turn| turn.nanoseconds);
    turns.get(turns.len() / 2).copied().unwrap_or(Turn { nanoseconds: 0, allocations: 0, bytes: 0 })
}

type Table<'a> = (&'a str, Vec<(&'static str, Turn)>);

fn of(rows: &[(&str, Turn)], name: &str) -> Option<f64> {
    rows.iter().find(|(of, _)| *of == name).map(|(_, turn)| turn.milliseconds())
}

/// A stream of text deltas, read to its end.
pub fn streams(tables: &[Table<'_>]) -> Result<(), Failure> {
    for (wire, rows) in tables {
        let floor = of(rows, "floor").unwrap_or(f64::NAN);
        let ours = of(rows, "harness").unwrap_or(f64::NAN);
        println!("\n{} text deltas on the wire `{wire}`\n", crate::DELTAS);
        println!("| | CPU ms | x floor | x harness | allocations | text |");
        println!("|---|---|---|---|---|---|");
        for (name, turn) in rows {
            let time = turn.milliseconds();
            println!(
                "| {name} | {time:.2} | {:.2} | {:.2} | {} | {} |",
                time / floor,
                time / ours,
                turn.allocations,
                turn.bytes
            );
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("pictures");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{wire}.svg")), picture(wire, rows))?;
    }
    Ok(())
}

/// A turn of a long conversation.
pub fn requests(tables: &[Table<'_>]) {
    println!("\nA turn of a long conversation, the answer one word\n");
    println!(
        "| messages | memcpy ms | ready bytes ms | harness ms | x ready bytes | allocations |"
    );
    println!("|---|---|---|---|---|---|");
    for (messages, rows) in tables {
        let time = |name| of(rows, name).unwrap_or(f64::NAN);
        let allocations = rows
            .iter()
            .find(|(name, _)| *name == "harness")
            .map_or(0, |(_, turn)| turn.allocations);
        println!(
            "| {messages} | {:.2} | {:.2} | {:.2} | {:.2} | {allocations} |",
            time("memcpy"),
            time("ready bytes"),
            time("harness"),
            time("harness") / time("ready bytes")
        );
    }
}

/// Bars, one for each subject.
fn picture(wire: &str, rows: &[(&str, Turn)]) -> String {
    let most = rows.iter().map(|(_, turn)| turn.milliseconds()).fold(f64::MIN_POSITIVE, f64::max);
    let height = 46 + 26 * rows.len();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"14\">\n<text x=\"8\" y=\"24\" fill=\"#888\">CPU \
         milliseconds for {} text deltas, {wire}</text>\n",
        crate::DELTAS
    );
    for (at, (name, turn)) in rows.iter().enumerate() {
        let y = 40 + 26 * at;
        let width = (turn.milliseconds() / most * 460.0).max(1.0);
        let colour = if *name == "harness" { "#d9480f" } else { "#74889c" };
        let _ = write!(
            out,
            "<text x=\"150\" y=\"{}\" text-anchor=\"end\" fill=\"#888\">{name}</text>\
             <rect x=\"158\" y=\"{y}\" width=\"{width:.0}\" height=\"18\" fill=\"{colour}\"/>\
             <text x=\"{:.0}\" y=\"{}\" fill=\"#888\">{:.2}</text>\n",
            y + 14,
            164.0 + width,
            y + 14,
            turn.milliseconds()
        );
    }
    out.push_str("</svg>\n");
    out
}

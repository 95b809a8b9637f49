//! Measures answers as servers send them. For each answer, the subjects take turns.

use std::{collections::HashMap, fs, path::Path};

use super::{Answer, answers};
use crate::{
    figures::Figure,
    floor,
    process::{Programs, Server, Worker, mark},
    sections::keep,
    subject::{Failure, WIRES, speaks},
};

const SUBJECTS: &[&str] = &[
    "http read",
    "floor",
    "flat struct",
    "harness",
    "genai 0.7",
    "llm 1.3",
    "async-openai 0.43",
    "rig 0.46",
];

/// The number of times that a subject reads an answer in one turn (`AGAIN`), and the number of turns of each subject
/// for each answer (`TURNS`).
const AGAIN: u32 = 5;
const TURNS: usize = 15;

/// The cost of an answer for a subject: nanoseconds and allocations.
type Cost = (f64, f64);

/// Measures the answers in this folder.
pub fn served() -> Result<(), Failure> {
    let mut figures = Vec::new();
    let programs = Programs::build()?;
    for wire in WIRES {
        figures.extend(measure(&programs, "served", wire, &answers(wire))?);
    }
    keep("served", figures)
}

/// Measures recorded answers, if there are any beside the project. Incomplete answers and answers with calls are
/// skipped.
pub fn recorded() -> Result<(), Failure> {
    let mut figures = Vec::new();
    let programs = Programs::build()?;
    for wire in WIRES {
        match found(wire) {
            answers if answers.is_empty() => {
                println!("recorded on {wire}: skipped, no recorded streams lie beside the project");
            }
            answers => figures.extend(measure(&programs, "recorded", wire, &answers)?),
        }
    }
    if figures.is_empty() { Ok(()) } else { keep("recorded", figures) }
}

/// The suitable recorded answers of one wire.
fn found(wire: &str) -> Vec<Answer> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/corpus").join(wire);
    let mut files: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
    files.sort_by_key(fs::DirEntry::path);
    let bodies = files
        .iter()
        .filter(|file| file.path().extension().is_some_and(|extension| extension == "sse"))
        .filter_map(|file| fs::read_to_string(file.path()).ok());
    bodies.filter(|body| is_plain(wire, body)).map(|body| Answer { name: "", body }).collect()
}

/// Whether an answer is complete and has text. Answers that a limit or a filter has cut off, answers with calls (of
/// tools of the program or of the vendor), and answers with errors do not count.
fn is_plain(wire: &str, body: &str) -> bool {
    let (end, others): (&str, &[&str]) = match wire {
        "anthropic" => (
            "message_stop",
            &[
                r#""type":"tool_use""#,
                r#""type":"server_tool_use""#,
                r#"tool_result""#,
                r#""type":"error""#,
                r#""stop_reason":"max_tokens""#,
                r#""stop_reason":"refusal""#,
            ],
        ),
        "responses" => ("response.completed", &[r#"_call""#, "_call.", r#""type":"mcp_"#]),
        _ => (
            "[DONE]",
            &[
                r#""tool_calls":[{"#,
                r#""tool_calls": [{"#,
                r#""function_call":{"#,
                r#""finish_reason":"length""#,
                r#""finish_reason": "length""#,
                r#""finish_reason":"content_filter""#,
            ],
        ),
    };
    let text = floor::text(wire, body);
    body.contains(end)
        && !others.iter().any(|other| body.contains(other))
        && text.is_ok_and(|text| !text.is_empty())
}

/// The costs of each subject. Only answers that the subject has read correctly count.
fn measure(
    programs: &Programs,
    section: &str,
    wire: &str,
    answers: &[Answer],
) -> Result<Vec<Figure>, Failure> {
    let server = Server::start()?;
    let base = format!("{}/chosen", server.address);
    let mut costs: Vec<(&str, HashMap<usize, Cost>)> = Vec::new();
    let mut workers = Vec::new();
    for subject in SUBJECTS.iter().filter(|subject| speaks(subject, wire)) {
        costs.push((subject, HashMap::new()));
        workers.push(Worker::start(
            programs.of(subject),
            &["chosen", subject, wire, &base],
            AGAIN,
        )?);
    }
    for (at, answer) in answers.iter().enumerate() {
        server.choose(&answer.body)?;
        let expected = mark(&floor::text(wire, &answer.body)?);
        let nothing = mark("");
        let mut turns: Vec<Vec<Cost>> = vec![Vec::new(); workers.len()];
        for turn in 0..=TURNS {
            for ((worker, (subject, _)), turns) in workers.iter_mut().zip(&costs).zip(&mut turns) {
                let expected = if *subject == "http read" { nothing } else { expected };
                // The first turn is a warm-up. It also shows which subjects cannot read the answer.
                if turn > 0 && turns.is_empty() {
                    continue;
                }
                match worker.chosen()? {
                    Ok((spent, allocations, mark)) if mark == expected => {
                        turns.push((spent, allocations));
                    }
                    Ok(_) if turn == 0 => println!("{subject} read another text: {}", said(answer)),
                    Err(reason) if turn == 0 => println!("{subject}: {}: {reason}", said(answer)),
                    _ => {
                        return Err(format!("{subject} reads {} now and then", said(answer)).into());
                    }
                }
            }
        }
        for ((_, costs), turns) in costs.iter_mut().zip(&mut turns) {
            if !turns.is_empty() {
                turns.remove(0);
                turns.sort_by(|one, other| one.0.total_cmp(&other.0));
                costs.extend(turns.get(turns.len() / 2).map(|turn| (at, *turn)));
            }
        }
    }
    Ok(costs.iter().map(|(subject, own)| figure(section, wire, subject, own, &costs)).collect())
}

/// The name of an answer, or its beginning if it has no name.
fn said(answer: &Answer) -> String {
    match answer.name {
        "" => answer.body.chars().take(90).collect(),
        name => name.to_owned(),
    }
}

/// A row of the table: the number of answers that the subject has read, the cost of one answer, and the ratios to the
/// floor and to this library. Each ratio includes only the answers that both subjects have read.
fn figure(
    section: &str,
    wire: &str,
    subject: &str,
    own: &HashMap<usize, Cost>,
    all: &[(&str, HashMap<usize, Cost>)],
) -> Figure {
    let ratio = |to: &str| {
        let other = all.iter().find(|(name, _)| *name == to).map(|(_, costs)| costs);
        let both = own.iter().filter_map(|(at, cost)| Some((cost.0, other?.get(at)?.0)));
        let (own, other) = both.fold((0.0, 0.0), |sums, cost| (sums.0 + cost.0, sums.1 + cost.1));
        own / other
    };
    let mean = |of: fn(&Cost) -> f64| own.values().map(of).sum::<f64>() / own.len() as f64;
    let values = [
        ("answers read", own.len() as f64),
        ("CPU \u{b5}s an answer", mean(|cost| cost.0) / 1e3),
        ("\u{d7} floor", ratio("floor")),
        ("\u{d7} harness", ratio("harness")),
        ("allocations", mean(|cost| cost.1).round()),
    ];
    Figure::new(section, wire, subject, &values)
}

//! A herd: fifty agents ask a server that refuses all requests of the first half second and then
//! serves ten a second. How the agents retry decides how long it takes until all are served.
//!
//!     cargo run --release --example herd [-- path/of/the/picture.svg]
//!
//! runs the same fifty agents five times, in real time and at the same time: with and without
//! jitter, with and without `Retry-After`, and once behind one shared provider that paces them. It
//! prints a table after about half a minute, and draws the requests over time into
//! `target/herd.svg`, unless a path is given.

mod chart;
mod program;

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use chart::{Arrival, Panel};
use harness::{
    Agent, AnthropicProvider,
    policy::{RetryPolicy, ThrottledProvider},
    testing::{Answer, LoopbackServer, anthropic},
};
use tokio::task::JoinSet;

const AGENTS: u32 = 50;

/// Requests that the server serves in a second, and at once after a pause.
const CAPACITY: f64 = 10.0;
const BURST: f64 = 3.0;

/// The time after the first request in which the server refuses everything.
const REFUSES_ALL: Duration = Duration::from_millis(500);

/// One way to retry.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    jitter: bool,
    retry_after: bool,
    paced: bool,
}

const WAYS: [Way; 5] = [
    Way { name: "no jitter, no Retry-After", jitter: false, retry_after: false, paced: false },
    Way { name: "jitter, no Retry-After", jitter: true, retry_after: false, paced: false },
    Way { name: "no jitter, Retry-After", jitter: false, retry_after: true, paced: false },
    Way { name: "jitter and Retry-After", jitter: true, retry_after: true, paced: false },
    Way { name: "both, and one shared pace", jitter: true, retry_after: true, paced: true },
];

const USAGE: &str = "\
herd [FILE]: fifty agents ask a server that is full, in five ways at the same time
It prints a table after about half a minute, and draws the requests over time into FILE, target/herd.svg \
unless given. It needs no key.";

#[tokio::main]
async fn main() -> ExitCode {
    program::ended(race().await)
}

async fn race() -> anyhow::Result<ExitCode> {
    if program::helps(USAGE)? {
        return Ok(ExitCode::SUCCESS);
    }
    let given = program::arguments()?;
    let path = match given.as_slice() {
        [] => PathBuf::from("target/herd.svg"),
        [file] if !file.starts_with('-') => PathBuf::from(file),
        [other] | [_, other, ..] => {
            return Err(program::wrong(format!("`{other}` is unknown; expected one FILE")));
        }
    };
    let mut out = io::stdout();
    writeln!(
        out,
        "{AGENTS} agents, a server that serves {CAPACITY} a second, {} ways at the same time: this \
         takes about half a minute.\n",
        WAYS.len()
    )?;
    let mut running = JoinSet::new();
    for (at, way) in WAYS.into_iter().enumerate() {
        running.spawn(async move { (at, run(way).await) });
    }
    let mut panels: Vec<Option<Panel>> = WAYS.map(|_| None).into();
    while let Some(ended) = running.join_next().await {
        let (at, panel) = ended?;
        if let Some(place) = panels.get_mut(at) {
            *place = Some(panel?);
        }
    }
    let panels: Vec<Panel> = panels.into_iter().flatten().collect();
    let text = explained(&panels);
    // The picture is written before the table is printed: the output may be closed before its end.
    write(&path, &chart::draw(&panels, &text))?;
    writeln!(out, "{}\n{}", table(&panels), text.join("\n"))?;
    writeln!(out, "\nThe arrivals over time are drawn in {}.", path.display())?;
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, picture: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("the folder of {} cannot be made", path.display()))?;
    }
    std::fs::write(path, picture).with_context(|| format!("{} cannot be written", path.display()))
}

/// Runs the herd once, and records every request.
async fn run(way: Way) -> anyhow::Result<Panel> {
    let arrivals = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&arrivals);
    let mut begun = Instant::now();
    let mut bucket = Bucket { left: BURST, filled: begun };
    let server = LoopbackServer::answering(move |_| {
        let now = Instant::now();
        let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.is_empty() {
            begun = now;
        }
        let at = now.duration_since(begun);
        let served = at >= REFUSES_ALL && bucket.takes(now);
        noted.push(Arrival { at, served });
        answer(served, way.retry_after)
    })
    .await?;

    // So many attempts and so much time that all agents are served in each way.
    let policy = RetryPolicy {
        attempts: 100,
        time: Duration::from_secs(50),
        base: Duration::from_millis(500),
        max: Duration::from_secs(2),
        jitter: way.jitter,
        ..RetryPolicy::default()
    };
    let provider = AnthropicProvider::builder().api_key("none").base_url(server.url()).build()?;
    let provider = provider.with_retry(policy);
    let at_once = if way.paced { 5 } else { AGENTS as usize };
    let shared = ThrottledProvider::new(provider.clone(), at_once);
    let mut herd = JoinSet::new();
    for _ in 0..AGENTS {
        let agent = match way.paced {
            true => Agent::builder(shared.clone()),
            false => Agent::builder(provider.clone()),
        }
        .build()?;
        herd.spawn(async move { agent.run("Is it my turn?").await.is_ok() });
    }
    let mut answered = 0;
    while let Some(ended) = herd.join_next().await {
        answered += u32::from(ended?);
    }
    drop((provider, shared));
    server.shutdown().await;
    let arrivals = std::mem::take(&mut *arrivals.lock().unwrap_or_else(PoisonError::into_inner));
    let took = arrivals.last().map(|last| last.at).unwrap_or_default();
    Ok(Panel { name: way.name, arrivals, answered, took })
}

fn answer(served: bool, retry_after: bool) -> Answer {
    if served {
        return anthropic::body().text("It is your turn.").answer();
    }
    let refusal = anthropic::error(429, "rate_limit_error", "Too many requests");
    match retry_after {
        true => refusal.header("retry-after", "1"),
        false => refusal,
    }
}

/// A token bucket: it fills with time, up to the burst.
struct Bucket {
    left: f64,
    filled: Instant,
}

impl Bucket {
    fn takes(&mut self, now: Instant) -> bool {
        let more = now.duration_since(self.filled).as_secs_f64() * CAPACITY;
        (self.left, self.filled) = ((self.left + more).min(BURST), now);
        let takes = self.left >= 1.0;
        if takes {
            self.left -= 1.0;
        }
        takes
    }
}

fn table(panels: &[Panel]) -> String {
    let mut table = format!(
        "{:<28}{:>9}{:>9}{:>9}{:>8}{:>10}\n",
        "", "answered", "requests", "refused", "crowd", "took"
    );
    for panel in panels {
        table += &format!(
            "{:<28}{:>9}{:>9}{:>9}{:>8}{:>8.1} s\n",
            panel.name,
            panel.answered,
            panel.arrivals.len(),
            panel.refused(),
            panel.crowd(AGENTS),
            panel.took.as_secs_f64()
        );
    }
    table + "\ncrowd: the most requests within a tenth of a second, after the first of each agent\n"
}

/// What the figures show, in words that contain the figures.
fn explained(panels: &[Panel]) -> Vec<String> {
    let [plain, jitter, asked, both, paced] = panels else { return Vec::new() };
    let ideal = f64::from(AGENTS) / CAPACITY;
    vec![
        format!(
            "Serving {AGENTS} agents at {CAPACITY} a second takes {ideal:.0} s at best. Without a \
             shared pace the first request of every agent is refused."
        ),
        format!(
            "Without jitter, agents that were refused together retry together: waves of up to {} \
             requests within a tenth of a second, of which a few are served, and no requests between \
             the waves. It took {:.1} s and {} refusals.",
            plain.crowd(AGENTS),
            plain.took.as_secs_f64(),
            plain.refused()
        ),
        format!(
            "With jitter the retries spread out: at most {} at a time, {:.1} s, {} refusals.",
            jitter.crowd(AGENTS),
            jitter.took.as_secs_f64(),
            jitter.refused()
        ),
        format!(
            "Retry-After alone does not prevent waves, because it says the same to all agents: up to \
             {} at a time, {:.1} s, {} refusals. With jitter in addition they spread out: {} at a \
             time, {:.1} s, {} refusals.",
            asked.crowd(AGENTS),
            asked.took.as_secs_f64(),
            asked.refused(),
            both.crowd(AGENTS),
            both.took.as_secs_f64(),
            both.refused()
        ),
        format!(
            "Agents that share one provider with a pace learn from the refusals of all, and not \
             each from its own alone: {} requests for {AGENTS} answers, {:.1} s.",
            paced.arrivals.len(),
            paced.took.as_secs_f64()
        ),
        format!(
            "Use the shared pace all the same where it took longer than jitter alone: it pauses after a \
             refusal for as long as the server asks, and keeps a gap between requests which shrinks only as \
             answers come. Jitter alone was served in {:.1} s because it asked {} times. Some vendors count \
             refused requests in the rate limit, which then stops other programs of the account, too.",
            jitter.took.as_secs_f64(),
            jitter.arrivals.len(),
        ),
    ]
}

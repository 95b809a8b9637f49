//! A trace as an HTML page with the turns and calls on a time axis.

use std::{collections::HashMap, fmt::Write as _};

use super::{
    Happened, TraceEvent,
    pretty::{cut, print_events, time},
};
use crate::message::CallOutcome;

/// Formats the trace as a single HTML page that needs no other files. Each run is shown as a time axis with one bar per
/// turn and per call, and then as text.
///
/// ```
/// let page = harness::trace::page(&[]);
/// assert!(page.starts_with("<!doctype html>"));
/// ```
pub fn page(events: &[TraceEvent]) -> String {
    let mut runs: Vec<(&str, Vec<&TraceEvent>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for event in events {
        let place = *places.entry(&event.run).or_insert(runs.len());
        match runs.get_mut(place) {
            Some((_, of_run)) => of_run.push(event),
            None => runs.push((&event.run, vec![event])),
        }
    }
    let mut page = format!("<!doctype html>\n<html lang=\"en\">\n{HEAD}<body>\n<h1>Trace</h1>\n");
    page.push_str(KEY);
    for (run, of_run) in runs {
        // Writing to a string cannot fail.
        let _ = section(&mut page, run, &of_run);
    }
    page.push_str("</body>\n</html>\n");
    page
}

/// The maximum number of characters in the tooltip of a bar (`HINT`) and in the text beside the bar (`LABEL`).
const HINT: usize = 1000;
const LABEL: usize = 160;

const NO_RESULT: &str = "has no result";

/// The text for the tooltip of a bar. Long texts are cut to limit the size of the page.
fn hinted(text: &str) -> String {
    cut(text, HINT).map_or_else(|| text.to_owned(), |begin| format!("{begin} .."))
}

/// One bar on the time axis: a turn or a call. Times are in microseconds.
struct TimelineBar {
    class: &'static str,
    label: String,
    hint: String,
    from: u64,
    to: u64,
    /// For a turn: the time of the first event of the model's answer.
    sign: Option<u64>,
}

fn section(page: &mut String, run: &str, events: &[&TraceEvent]) -> std::fmt::Result {
    let began = events.first().map_or(0, |event| event.at_us);
    let ended = events.iter().map(|event| event.at_us).max().unwrap_or(began);
    let whole = ended.saturating_sub(began).max(1);
    let share = |us: u64| {
        let per_million = u128::from(us) * 1_000_000 / u128::from(whole);
        format!("{}.{:04}%", per_million / 10_000, per_million % 10_000)
    };
    writeln!(page, "<section>\n<h2>{}</h2>", escaped(&title(run, events)))?;
    writeln!(page, "<p>{}</p>", escaped(&summary(events, whole)))?;
    writeln!(page, "<div class=\"chart\">\n<div class=\"axis\">")?;
    let step = step(whole);
    for tick in (0..=whole / step).map(|n| n * step) {
        writeln!(page, "<span style=\"left:{}\">{}</span>", share(tick), time(tick))?;
    }
    writeln!(page, "</div>")?;
    for TimelineBar { class, label, hint, from, to, sign } in bars(events, ended) {
        let (at, width) = (share(from.saturating_sub(began)), share(to.saturating_sub(from)));
        let took = time(to.saturating_sub(from));
        let mut wait = String::new();
        if let Some(sign) = sign {
            let part = u128::from(sign.saturating_sub(from)) * 100
                / u128::from(to.saturating_sub(from).max(1));
            write!(wait, "<i style=\"width:{part}%\"></i>")?;
        }
        writeln!(
            page,
            "<div class=\"row\"><div class=\"name\" title=\"{hint}\">{label}</div><div \
             class=\"lane\"><div class=\"bar {class}\" style=\"left:{at};width:{width}\" \
             title=\"{hint}\">{wait}<b>{took}</b></div></div></div>",
            hint = escaped(&hint),
            label = escaped(&label),
        )?;
    }
    writeln!(
        page,
        "</div>\n<pre>{}</pre>\n</section>",
        escaped(&print_events(events.iter().copied()))
    )
}

fn title(run: &str, events: &[&TraceEvent]) -> String {
    events
        .iter()
        .find_map(|event| match &event.what {
            Happened::RunStarted { said, .. } => said.clone(),
            _ => None,
        })
        .unwrap_or_else(|| run.to_owned())
}

fn summary(events: &[&TraceEvent], whole: u64) -> String {
    let mut told = vec![time(whole)];
    for event in events {
        match &event.what {
            Happened::RunStarted { provider, model, .. } => {
                told.push(format!("{provider} {model}"))
            }
            Happened::RunEnded { outcome, turns, usage, cost, .. } => {
                told.push(format!("{turns} turns"));
                let tokens = |count: Option<u64>| {
                    count.map_or_else(|| "unknown".to_owned(), |count| count.to_string())
                };
                let (input, output) = (tokens(usage.input), tokens(usage.output));
                told.push(format!("tokens in {input}, out {output}"));
                told.extend(cost.map(|cost| format!("cost {cost:.4}")));
                told.push(outcome.clone());
            }
            _ => {}
        }
    }
    told.join(" · ")
}

/// The turns and calls, in the order in which they began. A bar without an end event extends to the end of the run.
fn bars(events: &[&TraceEvent], ended: u64) -> Vec<TimelineBar> {
    let mut bars: Vec<TimelineBar> = Vec::new();
    // The bars without an end event so far: turns by number, calls by id.
    let mut turns: Vec<(usize, u32)> = Vec::new();
    let mut calls: HashMap<&str, usize> = HashMap::new();
    for event in events {
        let from = event.at_us;
        let bar = |class, label: &str, hint, to: u64| {
            let label = cut(label, LABEL).unwrap_or(label).to_owned();
            TimelineBar { class, label, hint, from, to: to.min(ended), sign: None }
        };
        match &event.what {
            Happened::TurnStarted { turn } => {
                turns.push((bars.len(), *turn));
                let hint = "did not come to its end".to_owned();
                bars.push(bar("model", &format!("model, turn {turn}"), hint, ended));
            }
            Happened::AnswerBegan { turn } => {
                if let Some((at, of)) = turns.last()
                    && of == turn
                    && let Some(bar) = bars.get_mut(*at)
                {
                    bar.sign.get_or_insert(from);
                }
            }
            what @ (Happened::ModelReplied { .. } | Happened::Interrupted { .. }) => {
                let last = turns.last().and_then(|(at, _)| bars.get_mut(*at));
                if let (Some(last), Happened::ModelReplied { text, .. }) = (last, what) {
                    last.hint = hinted(text);
                }
                for (at, _) in turns.drain(..) {
                    if let Some(bar) = bars.get_mut(at) {
                        bar.to = from;
                    }
                }
            }
            Happened::CallStarted { call, tool, arguments, early } => {
                calls.insert(call, bars.len());
                let class = if *early { "early failed" } else { "call failed" };
                let hint = format!("{}({}) -> {NO_RESULT}", hinted(tool), hinted(arguments));
                bars.push(bar(class, tool, hint, ended));
            }
            Happened::CallFinished { call, outcome, text, ran_us, .. } => {
                let Some(bar) = calls.remove(call.as_str()).and_then(|at| bars.get_mut(at)) else {
                    continue;
                };
                if *outcome == CallOutcome::Succeeded {
                    bar.class = bar.class.trim_end_matches(" failed");
                }
                bar.hint.truncate(bar.hint.len() - NO_RESULT.len());
                bar.hint.push_str(&hinted(text));
                bar.to = ran_us.map_or(from, |ran| bar.from.saturating_add(ran)).min(ended);
            }
            Happened::Retried { wait_us, cause, .. } => {
                let to = from.saturating_add(*wait_us);
                bars.push(bar("wait", "waits to retry", hinted(cause), to));
            }
            _ => {}
        }
    }
    bars
}

/// A round time step that divides `whole` into about 4 to 10 parts.
fn step(whole: u64) -> u64 {
    let mut step = 1_u64;
    loop {
        for factor in [1, 2, 5] {
            let wide = step.saturating_mul(factor);
            if whole / wide <= 8 {
                return wide;
            }
        }
        step = step.saturating_mul(10);
    }
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c => safe.push(c),
        }
    }
    safe
}

const HEAD: &str = r#"<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Trace</title>
<style>
:root { color-scheme: light dark; --ink: #1c2330; --soft: #667; --line: #8884; --paper: #fbfbf9;
  --model: #4f6bd8; --call: #2e9e77; --early: #e0952b; --wait: #999; --failed: #cc3d4a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ee; --soft: #99a; --paper: #15181e; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
  color: var(--ink); background: var(--paper); }
h1 { font-size: 1.2rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2rem 0 0; }
p { color: var(--soft); margin: .2rem 0 .8rem; }
.key span { margin-right: 1.2rem; white-space: nowrap; }
.key i { display: inline-block; width: 1.4rem; height: .8rem; border-radius: 3px; margin-right: .4rem; }
.chart { border-top: 1px solid var(--line); border-bottom: 1px solid var(--line); padding-bottom: .4rem; }
.axis { position: relative; height: 1.6rem; margin-left: 11rem; margin-right: 3rem; font-size: .75rem;
  color: var(--soft); }
.axis span { position: absolute; padding-left: .3rem; border-left: 1px solid var(--line); height: 100%;
  white-space: nowrap; }
.row { display: flex; align-items: center; height: 1.7rem; }
.name { width: 10.5rem; margin-right: .5rem; text-align: right; font-size: .85rem; overflow: hidden;
  text-overflow: ellipsis; white-space: nowrap; }
.lane { position: relative; flex: 1; height: 100%; margin-right: 3rem; border-top: 1px dotted var(--line); }
.bar { position: absolute; top: .25rem; height: 1.1rem; min-width: 2px; border-radius: 3px; }
.bar i { display: block; height: 100%; background: #fff7; border-radius: 3px 0 0 3px; }
.bar b { position: absolute; left: 100%; top: -.15rem; padding-left: .4rem; font-weight: normal;
  font-size: .75rem; color: var(--soft); white-space: nowrap; }
.model { background: var(--model); } .call { background: var(--call); } .wait { background: var(--wait); }
.early { background: repeating-linear-gradient(135deg, var(--early) 0 7px, #e0952bbb 7px 11px); }
.failed { outline: 2px solid var(--failed); outline-offset: -2px; }
pre { font: 13px/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere;
  background: #8881; padding: .8rem 1rem; border-radius: 6px; }
</style>
</head>
"#;

const KEY: &str = r#"<p class="key"><span><i class="model"></i>the model speaks (pale: no word yet)</span>
<span><i class="call"></i>a call runs</span>
<span><i class="early"></i>a call that began while the model still spoke</span>
<span><i class="wait"></i>waits to try again</span>
<span><i class="call failed"></i>did not succeed</span></p>
"#;

#[cfg(test)]
mod tests {
    use super::{escaped, step};

    #[test]
    fn what_a_model_says_is_never_markup() {
        assert_eq!(escaped("<b a=\"1\">&"), "&lt;b a=&quot;1&quot;&gt;&amp;");
    }

    #[test]
    fn the_axis_has_a_handful_of_round_steps() {
        for whole in [1, 9, 10, 1234, 99_999, 60_000_000, u64::MAX] {
            let parts = whole / step(whole);
            assert!(parts <= 8, "{whole}: {parts}");
            assert!(whole < 4 || parts >= 3, "{whole}: {parts}");
        }
    }
}

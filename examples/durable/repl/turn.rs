//! One run, from a message or from where it was stopped: shown as it comes, stopped by Ctrl-C.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use harness::{CancellationToken, Event, Outcome, agent::Run, policy::visible};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    Signals, ending,
    screen::{Screen, cut, one_line, tokens},
};

/// How often the spinner turns.
const TURN: Duration = Duration::from_millis(100);
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// How a turn ended.
pub(crate) enum Ended {
    /// With an answer.
    Answered,
    /// With none, and why is shown.
    Stopped,
    /// By the person.
    Interrupted,
    /// The person or the system wants the program to end.
    Quit,
}

/// Lets a run go and shows what comes of it.
///
/// # Errors
/// Fails if the screen cannot be written to.
pub(crate) async fn take(
    run: Run<'_>,
    signals: &mut Signals,
    screen: &mut Screen<io::Stdout>,
) -> anyhow::Result<Ended> {
    let begun = Instant::now();
    let stop = CancellationToken::new();
    let view = Mutex::new(View { screen, spinner: Spinner::default() });
    let mut run =
        run.cancel_with(stop.clone()).on_event(|event| lock(&view).show(event)).into_future();
    let mut tick = interval(TURN);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let Signals { interrupt, terminate, hang_up } = signals;
    let ended = loop {
        tokio::select! {
            biased;
            ended = &mut run => break ended,
            _ = interrupt.recv() => {
                // The second one while the first takes effect: the run is dropped, which stops it.
                if stop.is_cancelled() {
                    return Ok(Ended::Quit);
                }
                stop.cancel();
                lock(&view).interrupted()?;
            }
            () = Signals::end(terminate, hang_up) => return Ok(Ended::Quit),
            _ = tick.tick() => lock(&view).spinner.turn(),
        }
    };
    drop(run);
    let View { screen, mut spinner } = view.into_inner().unwrap_or_else(PoisonError::into_inner);
    spinner.clear();
    let seconds = begun.elapsed().as_secs_f64();
    match ended {
        Ok(reply) => {
            screen.line(&format!("({}, {seconds:.1} s)", tokens(reply.usage())))?;
            Ok(Ended::Answered)
        }
        Err(stopped) if stopped.outcome() == Outcome::Waiting => {
            screen.line("■ the run waits")?;
            Ok(Ended::Stopped)
        }
        Err(stopped) => {
            ending::show(screen, &stopped)?;
            Ok(if stop.is_cancelled() { Ended::Interrupted } else { Ended::Stopped })
        }
    }
}

/// What is on the screen: the run, or a spinner while nothing of it can be shown.
struct View<'a> {
    screen: &'a mut Screen<io::Stdout>,
    spinner: Spinner,
}

fn lock<'v, 'a>(view: &'v Mutex<View<'a>>) -> MutexGuard<'v, View<'a>> {
    view.lock().unwrap_or_else(PoisonError::into_inner)
}

impl View<'_> {
    fn show(&mut self, event: Event<'_>) {
        self.spinner.clear();
        // Thinking is not shown, so that the spinner stays until there are words or a call.
        match event {
            Event::TurnStarted { .. } | Event::Discarded { .. } => self.spinner.starts(None),
            // A file that the model writes may take minutes until its call is complete.
            Event::ToolCallStart { tool, .. } => self.spinner.starts(Some(one_line(tool))),
            Event::ToolCallDelta { json, .. } => {
                self.spinner.written = self.spinner.written.saturating_add(json.len());
            }
            Event::Reasoning(_) | Event::Retrying { .. } | Event::FallingBack { .. } => {}
            _ => self.spinner.since = None,
        }
        self.screen.show(event);
    }

    /// The terminal has echoed `^C`: what comes now stands below it.
    fn interrupted(&mut self) -> io::Result<()> {
        self.spinner.clear();
        self.spinner.since = None;
        self.screen.line("")
    }
}

/// Turns while the model is asked and has said nothing, and while it writes a call.
#[derive(Default)]
struct Spinner {
    since: Option<Instant>,
    /// The tool whose call the model writes.
    tool: Option<String>,
    /// How many bytes of the call have been written.
    written: usize,
    frame: usize,
    shown: bool,
}

impl Spinner {
    fn starts(&mut self, tool: Option<String>) {
        (self.since, self.tool, self.written) = (Some(Instant::now()), tool, 0);
    }

    fn turn(&mut self) {
        let Some(since) = self.since else { return };
        let mut out = io::stdout();
        if !out.is_terminal() {
            return;
        }
        self.frame = (self.frame + 1) % FRAMES.len();
        let frame = FRAMES.get(self.frame).unwrap_or(&' ');
        let seconds = since.elapsed().as_secs();
        // A screen that cannot be written to is no reason to stop the run.
        let _ = match &self.tool {
            Some(tool) => {
                let kilobytes = self.written.div_ceil(1024);
                let tool = cut(&visible(tool), 40);
                write!(out, "\r\x1b[K{frame} {tool}: {kilobytes} KiB written, {seconds} s")
            }
            None => write!(out, "\r\x1b[K{frame} {seconds} s"),
        };
        let _ = out.flush();
        self.shown = true;
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let mut out = io::stdout();
            let _ = write!(out, "\r\x1b[K");
            let _ = out.flush();
        }
    }
}

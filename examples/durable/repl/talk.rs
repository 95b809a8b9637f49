//! Reads lines and does what they say until the person quits.

use std::{
    io,
    process::ExitCode,
    time::{Duration, Instant},
};

use crate::{
    Signals,
    commands::{self, Command},
    kept::Kept,
    left::{ask_again, left, settle},
    lines::{Line, Lines},
    screen::{Screen, one_line},
    turn::{self, Ended},
};

/// A second Ctrl-C within this time quits.
const TWICE: Duration = Duration::from_millis(1500);
const STOPPED: u8 = 130;

/// What the next line answers with yes or no.
enum Asked {
    /// Whether this file is replaced.
    Replace(String),
    /// Whether the conversation of this name is deleted.
    Delete(String),
}

/// Reads lines and answers them until the person quits.
///
/// # Errors
/// Fails if the screen cannot be written to, or the keyboard not read.
pub(crate) async fn talk(
    kept: &mut Kept,
    signals: &mut Signals,
    screen: &mut Screen<io::Stdout>,
) -> anyhow::Result<ExitCode> {
    let mut lines = Lines::start()?;
    let mut interrupted: Option<Instant> = None;
    let mut asked: Option<Asked> = None;
    loop {
        let Signals { interrupt, terminate, hang_up } = signals;
        let line = tokio::select! {
            line = lines.next() => line,
            // Pressed in the moment between an answer and the prompt, or sent by a program.
            _ = interrupt.recv() => Line::Interrupt,
            () = Signals::end(terminate, hang_up) => {
                kept.save().await?;
                return Ok(ExitCode::from(STOPPED));
            }
        };
        let text = match line {
            Line::Said(text) => {
                interrupted = None;
                text
            }
            Line::Interrupt => {
                if interrupted.is_some_and(|last| last.elapsed() < TWICE) {
                    return quit(kept, screen).await;
                }
                interrupted = Some(Instant::now());
                asked = None;
                screen.line("(Ctrl-C again quits)")?;
                continue;
            }
            Line::End => return quit(kept, screen).await,
            Line::Failed(err) => return Err(anyhow::anyhow!("no line could be read: {err}")),
        };
        if let Some(asked) = asked.take() {
            screen.line(&answered(asked, text.trim(), kept).await)?;
            continue;
        }
        let ended = match Command::of(&text) {
            Command::Nothing => continue,
            Command::Quit => return quit(kept, screen).await,
            Command::Say(text) => say(text, kept, signals, screen).await?,
            Command::Go => go(kept, signals, screen).await?,
            command => {
                let told = obey(command, kept, &mut asked).await;
                screen.line(&told.unwrap_or_else(|err| format!("✗ {err:#}")))?;
                continue;
            }
        };
        match ended {
            Ended::Answered => {}
            Ended::Stopped | Ended::Interrupted => {
                if let Some(left) = left(&kept.chat) {
                    screen.line(&left)?;
                }
                if let Ended::Interrupted = ended {
                    interrupted = Some(Instant::now());
                }
            }
            Ended::Quit => {
                kept.save().await?;
                return Ok(ExitCode::from(STOPPED));
            }
        }
    }
}

/// Does what a command says that begins no run, and gives what it tells.
async fn obey(
    command: Command<'_>,
    kept: &mut Kept,
    asked: &mut Option<Asked>,
) -> anyhow::Result<String> {
    Ok(match command {
        Command::Show(show) => show.text(&kept.chat),
        Command::New => kept.begin().await?,
        Command::List => kept.list().await?,
        Command::More => kept.more().await?,
        Command::Resume(which) => kept.resume(which).await?,
        Command::Fork => kept.fork().await?,
        Command::Settle(said) => {
            settle(&mut kept.chat, said).await?;
            left(&kept.chat).unwrap_or_default()
        }
        Command::Delete(which) => {
            let name = kept.named(which)?;
            let shown = one_line(&name);
            anyhow::ensure!(name != kept.name(), "you are in {shown}: begin with `/new`");
            let question = format!("Delete {shown} for ever? [y]es, [n]o");
            *asked = Some(Asked::Delete(name));
            question
        }
        Command::Save(file) => match commands::save(&kept.chat, file) {
            Some(told) => told,
            None => {
                *asked = Some(Asked::Replace(file.to_owned()));
                format!("`{file}` is there already. Replace it? [y]es, [n]o")
            }
        },
        Command::Thinking(level) => {
            kept.thinking = Some(level.parse()?);
            format!("from now on, thinking is `{}`", one_line(level))
        }
        Command::Unknown(text) => text,
        Command::Nothing | Command::Quit | Command::Say(_) | Command::Go => String::new(),
    })
}

/// Does what was asked about if the answer is yes, and gives what became of it.
async fn answered(asked: Asked, answer: &str, kept: &Kept) -> String {
    let yes = matches!(answer, "y" | "yes" | "Y");
    match asked {
        Asked::Replace(file) if yes => commands::replace(&kept.chat, &file),
        Asked::Replace(file) => format!("`{file}` was left as it is"),
        Asked::Delete(name) if yes => {
            kept.delete(&name).await.unwrap_or_else(|err| format!("✗ {err}"))
        }
        Asked::Delete(name) => format!("{} was kept", one_line(&name)),
    }
}

/// Says something to the model.
async fn say(
    text: &str,
    kept: &mut Kept,
    signals: &mut Signals,
    screen: &mut Screen<io::Stdout>,
) -> anyhow::Result<Ended> {
    if let Err(err) = kept.entitle(text).await {
        screen.line(&format!("✗ nothing was said: {err}"))?;
        return Ok(Ended::Answered);
    }
    turn::take(kept.send(text), signals, screen).await
}

/// Goes on with the run that came to no answer, and asks first what waits to be approved.
async fn go(
    kept: &mut Kept,
    signals: &mut Signals,
    screen: &mut Screen<io::Stdout>,
) -> anyhow::Result<Ended> {
    if !kept.chat.can_resume() {
        screen.line("There is nothing to go on with: say something.")?;
        return Ok(Ended::Answered);
    }
    match ask_again(&mut kept.chat, signals).await {
        Ok(Ended::Answered) => turn::take(kept.go_on(), signals, screen).await,
        Ok(ended) => Ok(ended),
        Err(err) => {
            screen.line(&format!("✗ {err}"))?;
            Ok(Ended::Stopped)
        }
    }
}

/// Says how the conversation goes on later.
async fn quit(kept: &mut Kept, screen: &mut Screen<io::Stdout>) -> anyhow::Result<ExitCode> {
    kept.save().await?;
    if kept.chat.facts() > 0 {
        screen.line(&format!("`--resume {}` goes on with this conversation.", kept.name()))?;
    }
    Ok(ExitCode::SUCCESS)
}

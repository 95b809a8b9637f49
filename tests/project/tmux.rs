//! A terminal for tests: keys in, screen out.
//!
//! It uses tmux, because tmux keeps a screen: a bare pseudo-terminal returns the bytes with which a
//! line editor redraws itself, and an emulator would be needed to read them. Tests wait for text on the
//! screen, with a limited number of looks, and never for a time to pass.

use std::{
    fmt::Display,
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::Duration,
};

use harness::Transcript;

use crate::transcripts::obeys;

/// How often a screen is looked at before a test gives up, and the breath between two looks.
const LOOKS: u32 = 600;
const BREATH: Duration = Duration::from_millis(50);

/// Columns and rows, if a test does not say others.
const SIZE: (u16, u16) = (160, 60);

/// A terminal in which a program runs.
pub(crate) struct Terminal {
    folder: tempfile::TempDir,
}

impl Terminal {
    /// Starts an example with these variables and arguments, in a folder of its own where its data is,
    /// too; or says why not. The terminal stays when the program has ended.
    pub(crate) fn start(example: &str, environment: &[&str], arguments: &str) -> Option<Self> {
        let program = built(example)?;
        let run = format!(
            "env -u PROVIDER XDG_DATA_HOME=\"$PWD/data\" {} {} {arguments}; echo \"exit code $?\"; stty -a; exec sleep 600",
            environment.join(" "),
            program.display(),
        );
        Self::running(&run, SIZE)
    }

    /// Runs a line of the shell in a terminal of so many columns and rows; or says why not.
    pub(crate) fn running(line: &str, size: (u16, u16)) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            println!("skipped: there is no tmux");
            return None;
        }
        let terminal = Self { folder: tempfile::tempdir().expect("a folder") };
        let folder = terminal.folder.path().display().to_string();
        let (columns, rows) = (size.0.to_string(), size.1.to_string());
        let started = terminal
            .command(&["new-session", "-d", "-s", "main", "-c", &folder])
            .args(["-x", &columns, "-y", &rows, line])
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .output();
        done(started, "tmux starts");
        Some(terminal)
    }

    /// The device of this terminal.
    pub(crate) fn device(&self) -> String {
        let device = self.command(&["display", "-p", "-t", "main", "#{pane_tty}"]).output();
        done(device, "the device's name").trim().to_owned()
    }

    /// The name of the program that runs in front.
    pub(crate) fn running_command(&self) -> String {
        let name = ["display", "-p", "-t", "main", "#{pane_current_command}"];
        done(self.command(&name).output(), "the program's name").trim().to_owned()
    }

    /// Gives the terminal another size.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let resize = ["resize-window", "-t", "main", "-x", &columns, "-y", &rows];
        done(self.command(&resize).output(), "another size");
        // tmux tells the device of it a moment later.
        let device = self.device();
        self.wait(format!("{columns} columns and {rows} rows"), |_| {
            let size = Command::new("sh").args(["-c", &format!("stty size < {device}")]).output();
            done(size, "the size") == format!("{rows} {columns}\n")
        });
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.args(["-u", "-f", "/dev/null", "-S"]).arg(self.file("socket")).args(arguments);
        tmux
    }

    /// Presses keys: text as it is, or names such as `Enter` and `C-c`.
    pub(crate) fn press(&self, keys: &[&str]) {
        let pressed = self.command(&["send-keys", "-t", "main"]).args(keys).output();
        done(pressed, "keys are pressed");
    }

    /// Types a line and sends it.
    pub(crate) fn say(&self, line: &str) {
        self.type_at_once(line);
        self.press(&["Enter"]);
    }

    /// Types these letters, which reach the program together. A `\n` ends a line.
    pub(crate) fn type_at_once(&self, letters: &str) {
        let typed = self.command(&["send-keys", "-t", "main", "-l", letters]).output();
        done(typed, "letters are typed");
    }

    /// All that was shown so far, lines that the screen has broken joined again.
    pub(crate) fn screen(&self) -> String {
        let shown = self.command(&["capture-pane", "-p", "-J", "-S", "-2000", "-t", "main"]);
        done({ shown }.output(), "the screen is read").trim_end().to_owned()
    }

    /// What stands on the screen now, row by row.
    pub(crate) fn visible(&self) -> String {
        let shown = self.command(&["capture-pane", "-p", "-t", "main"]).output();
        done(shown, "the screen is read").trim_end().to_owned()
    }

    /// Looks at the screen until it is as wanted.
    pub(crate) fn wait(&self, what: impl Display, wanted: impl Fn(&str) -> bool) -> String {
        for _ in 0..LOOKS {
            let screen = self.screen();
            if wanted(&screen) {
                return screen;
            }
            std::thread::sleep(BREATH);
        }
        panic!("waited for {what}; the screen:\n{}", self.screen());
    }

    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait(format!("{text:?}"), |screen| screen.contains(text))
    }

    /// Waits for a text, so many times on the screen, and the empty prompt below it.
    pub(crate) fn prompt_after(&self, text: &str, times: usize) -> String {
        self.wait(format!("{times} times {text:?}, and the prompt"), |screen| {
            screen.matches(text).count() >= times && screen.ends_with("\n>")
        })
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The conversation that was saved in a file, which obeys its law.
    pub(crate) fn saved(&self, name: &str) -> Transcript {
        let text = fs::read_to_string(self.file(name)).expect("a saved conversation");
        let transcript: Transcript = serde_json::from_str(&text).expect("a lawful one");
        obeys(transcript.sendable().expect("one that can be sent"));
        transcript
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The server of this terminal alone.
        let _ = self.command(&["kill-server"]).output();
    }
}

pub(crate) fn done(output: std::io::Result<Output>, what: &str) -> String {
    let output = output.unwrap_or_else(|err| panic!("{what}: {err}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The built example, if it was built beside this test.
pub(crate) fn built(example: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().expect("this test has a path");
    let built = test.parent()?.parent()?;
    let path = match example {
        // A program of the package `harness-durable-examples`.
        "repl" => built.join(example),
        _ => built.join("examples").join(example),
    };
    if !path.exists() {
        println!("skipped: {} was not built", path.display());
        return None;
    }
    Some(path)
}

//! The promises of the shell for a program whose `main` calls `supervise` in its first line. This
//! test is such a program: it runs the cases of the shell again, kills itself in the middle of
//! commands, and checks what is left.

#[cfg(target_os = "linux")]
#[path = "toolbox/calls.rs"]
mod calls;
#[cfg(target_os = "linux")]
#[path = "supervised/ends.rs"]
mod ends;
#[cfg(target_os = "linux")]
#[path = "supervised/line.rs"]
mod line;
#[cfg(target_os = "linux")]
use harness_test_support::process;
#[cfg(target_os = "linux")]
#[path = "supervised/program.rs"]
mod program;
#[cfg(target_os = "linux")]
#[path = "toolbox/shell.rs"]
mod shell;
#[cfg(target_os = "linux")]
#[path = "toolbox/stops.rs"]
mod stops;
#[cfg(target_os = "linux")]
#[path = "supervised/victim.rs"]
mod victim;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    program::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    assert!(!harness::toolbox::supervise(), "nothing is supervised here");
}

//! The server as a process: help, wrong arguments, and a port that is taken.

use std::{
    net::TcpListener,
    process::{Command, Output},
};

fn web(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_web")).args(arguments).output().expect("it runs")
}

#[test]
fn help_is_shown_and_wrong_arguments_are_named() {
    let output = web(&["--help"]);
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && out.contains("--listen ADDRESS"), "{out}");
    for (arguments, says) in [
        (vec!["--wrong"], "`--wrong` is unknown"),
        (vec!["--listen"], "`--listen` needs an ADDRESS"),
        (vec!["--listen", "127.0.0.1:0", "more"], "`more` is unknown"),
    ] {
        let output = web(&arguments);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains(says) && err.lines().count() == 1, "{err}");
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = web(&["--listen", &address]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains(&address) && err.contains("--listen ADDRESS"), "{err}");
}

//! The client as a process, with the server of this folder: what it prints and how it ends.

use std::process::Command;

#[test]
fn the_client_fails_if_the_call_did_not_run() {
    for (tool, arguments, code, says) in [
        ("add", r#"{"a": 17, "b": 23}"#, 0, "40"),
        ("nosuch", "{}", 1, "there is no tool"),
        ("add", r#"{"a": "x", "b": 1}"#, 1, "expected an integer"),
        ("add", "{", 2, "is not JSON"),
    ] {
        let mut client = Command::new(env!("CARGO_BIN_EXE_mcp_client"));
        client.args([tool, arguments, env!("CARGO_BIN_EXE_mcp_server")]);
        let output = client.output().expect("it runs");
        let (out, err) = (output.stdout, output.stderr);
        let said = String::from_utf8_lossy(if code == 0 { &out } else { &err }).into_owned();
        assert_eq!(output.status.code(), Some(code), "{tool} {arguments}: {said}");
        assert!(said.contains(says), "{tool} {arguments}: {said}");
    }
}

//! The version of 2026-07-28, and tools that change without a restart, in either version.

use harness::{SideEffects, mcp::McpVersion};

use super::{Scripted, call, text};

#[tokio::test]
async fn a_server_that_refuses_initialize_is_asked_in_the_newer_version_and_only_once() {
    let scripted = Scripted::new();
    let server = scripted.server("newer").connect().await.expect("a server");
    assert_eq!(text(call(&server.tools()[0]).await), "ran in life 2");
    assert_eq!((scripted.count("initialize"), scripted.count("discover")), (1, 1));
    server.close().await;
    scripted.until_none_lives().await;
}

#[tokio::test]
async fn a_version_that_the_program_sets_is_the_only_one_that_is_tried() {
    let scripted = Scripted::new();
    let server = scripted.server("newer").version(McpVersion::V2026_07_28);
    let server = server.connect().await.expect("a server");
    assert_eq!(text(call(&server.tools()[0]).await), "ran in life 1");
    assert_eq!((scripted.count("initialize"), scripted.pids().len()), (0, 1));
    server.close().await;

    let scripted = Scripted::new();
    let server = scripted.server("newer").version(McpVersion::V2025_11_25);
    let err = server.connect().await.expect_err("no server").to_string();
    assert!(err.contains("not this version"), "{err}");
    assert_eq!(scripted.count("discover"), 0);
}

/// A person may have allowed the tool as it was described before.
#[tokio::test]
async fn a_tool_that_is_described_otherwise_by_now_is_not_called_in_either_version() {
    for way in ["newer-changes", "newer-quiet", "older-quiet"] {
        let scripted = Scripted::new();
        let server = scripted.server(way).connect().await.expect("a server");
        let run = server.tools().remove(0);
        assert!(call(&run).await.is_ok(), "{way}");
        if way == "newer-changes" {
            scripted.until("the word of it", |_| server.has_changed()).await;
        }
        let err = call(&run).await.expect_err("another tool").to_string();
        assert!(err.contains("describes it differently"), "{way}: {err}");
        assert_eq!(scripted.count("call"), 1, "{way}");
        assert!(server.has_changed(), "{way}");
        let anew = server.reload().await.expect("the tools");
        assert!(!anew.has_changed(), "{way}");
        assert!(call(&anew.tools()[0]).await.is_ok(), "{way}");
        server.close().await;
    }
}

#[tokio::test]
async fn where_the_server_tells_of_changes_its_tools_are_listed_once() {
    let scripted = Scripted::new();
    let server = scripted.server("newer").connect().await.expect("a server");
    for _ in 0..3 {
        assert_eq!(text(call(&server.tools()[0]).await), "ran in life 2");
    }
    assert_eq!((scripted.count("listen"), scripted.count("list")), (1, 1));
    server.close().await;
}

/// The server acknowledges the subscription only after it has listed its tools. A client that does not list them before it
/// is acknowledged gives the subscription up.
#[tokio::test]
async fn a_late_acknowledgement_counts_and_the_tools_are_listed_again() {
    let scripted = Scripted::new();
    let server = scripted.server("newer-late-changes").connect().await.expect("a server");
    assert_eq!((scripted.count("listen"), scripted.count("list")), (1, 1));
    let run = server.tools().remove(0);
    assert!(call(&run).await.is_ok());
    scripted.until("the word of the change", |_| server.has_changed()).await;
    assert!(call(&run).await.expect_err("another tool").to_string().contains("differently"));
    assert_eq!((scripted.count("listen"), scripted.count("call")), (1, 1));
    server.close().await;
}

#[tokio::test]
async fn a_server_that_never_acknowledges_the_subscription_is_used_all_the_same() {
    let scripted = Scripted::new();
    let server = scripted.server("newer-mute").connect().await.expect("a server");
    for _ in 0..3 {
        assert!(call(&server.tools()[0]).await.is_ok());
    }
    assert_eq!((scripted.count("listen"), scripted.count("list")), (1, 1));
    server.close().await;
    scripted.until_none_lives().await;
}

#[tokio::test]
async fn a_reload_that_fails_leaves_the_change_to_be_read() {
    let scripted = Scripted::new();
    let server = scripted.server("fails-to-list").connect().await.expect("a server");
    assert!(call(&server.tools()[0]).await.is_ok());
    scripted.until("the word of the change", |_| server.has_changed()).await;
    server.reload().await.expect_err("it is busy");
    assert!(server.has_changed());
    server.reload().await.expect("the tools");
    assert!(!server.has_changed());
}

#[tokio::test]
async fn a_reload_without_a_tool_that_the_program_names_leaves_the_change_to_be_read() {
    let scripted = Scripted::new();
    let named = scripted.server("tool-gone").effects("run", SideEffects::ALL);
    let server = named.connect().await.expect("a server");
    assert!(call(&server.tools()[0]).await.expect_err("it dies").is_in_doubt());
    let err = server.reload().await.expect_err("no such tool").to_string();
    assert!(err.contains("has no tool `run`"), "{err}");
    assert!(server.has_changed());
}

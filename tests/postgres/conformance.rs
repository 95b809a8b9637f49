//! All that a journal promises.

use harness::testing::journal_conformance;

use crate::server::{fresh, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_in_postgresql_keeps_all_promises() {
    let server = server!();
    let schema = fresh("conformance");
    let report = journal_conformance(async || server.builder(&schema).connect().await).await;
    report.assert_kept();
    assert!(report.kept().len() > 30, "{report}");
}

/// One connection is enough for everything, as everything waits for its turn.
#[tokio::test]
async fn one_connection_is_enough() {
    let server = server!();
    let schema = fresh("narrow");
    let open = async || server.builder(&schema).max_connections(1).connect().await;
    journal_conformance(open).await.assert_kept();
}

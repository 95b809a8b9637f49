//! No fact is lost, no effect is repeated and nothing is untrue, whenever a process is killed.

use harness::{
    journal::{SqliteJournal, SqliteSynchronous},
    testing::Crashtest,
};

use crate::{
    file::FileJournal,
    world::{Tools, agent, observe},
};

/// Two messages, with seven calls each, and so many kills unless `HARNESS_KILLS` says otherwise.
fn sweep(test: Crashtest) {
    let report = test.send("Message 1").send("Message 2").observe(observe).kills(10).run();
    println!("{report}");
    report.assert_clean();
}

#[test]
fn with_a_file() {
    sweep(Crashtest::new(
        |folder| async move { Ok(FileJournal::new(folder.join("chat"))) },
        |folder| agent(folder, Tools::default()),
    ));
}

#[test]
fn with_sqlite_that_waits_for_the_disk() {
    sweep(Crashtest::new(
        |folder| SqliteJournal::open(folder.join("chats.db")),
        |folder| agent(folder, Tools::default()),
    ));
}

#[test]
fn with_sqlite_that_waits_for_the_system() {
    let normal = || SqliteJournal::builder().synchronous(SqliteSynchronous::Normal);
    sweep(Crashtest::new(
        move |folder| normal().open(folder.join("chats.db")),
        |folder| agent(folder, Tools::default()),
    ));
}

#[cfg(all(unix, feature = "postgres"))]
#[test]
fn with_postgres() {
    use harness::journal::PostgresJournal;

    // A process that is killed finds the server that the test has started.
    const ADDRESS: &str = "HARNESS_CRASHTEST_POSTGRES";
    let address = std::env::var(ADDRESS).ok();
    let server = match address {
        Some(_) => None,
        None => Some(crate::server::server!(crate::server::Server::start(&[], ""))),
    };
    let address = address.or_else(|| Some(server.as_ref()?.socket("harness", "postgres")));
    let address = address.expect("one of them is there");
    let at = address.clone();
    let test = Crashtest::new(
        move |_| PostgresJournal::connect(at.clone()),
        |folder| agent(folder, Tools::default()),
    );
    sweep(test.env(ADDRESS, address));
}

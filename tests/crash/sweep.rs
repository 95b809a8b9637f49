//! No fact is lost, no effect is repeated and nothing is untrue, whenever a process is killed.

use harness::testing::Crashtest;

use crate::{
    file::FileJournal,
    world::{Tools, agent, observe},
};

#[test]
fn with_a_file() {
    let test = Crashtest::new(
        |folder| async move { Ok(FileJournal::new(folder.join("chat"))) },
        |folder| agent(folder, Tools::default()),
    );
    let report = test.send("Message 1").send("Message 2").observe(observe).run();
    println!("{report}");
    report.assert_clean();
}

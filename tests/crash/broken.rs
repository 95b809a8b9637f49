//! What a crash test says of agents and journals that are broken on purpose.

use harness::testing::{CrashFinding, CrashReport, Crashtest, Harm};

use crate::{
    file::FileJournal,
    world::{Tools, agent, appends, observe},
};

/// The report of an agent with these tools, and the journal that keeps or loses.
fn report(tools: Tools, loses: bool) -> CrashReport {
    let journal = if loses { FileJournal::lazy } else { FileJournal::new };
    let test = Crashtest::new(
        move |folder| async move { Ok(journal(folder.join("chat"))) },
        move |folder| agent(folder, tools),
    );
    test.send("Message 1").observe(observe).kills(60).run()
}

#[test]
fn an_idempotent_tool_that_is_none_is_told() {
    let report = report(Tools { put: appends, ..Tools::default() }, false);
    println!("{report}");
    assert!(report.count(Harm::Repeated) > 0, "{report}");
    assert_eq!(report.findings.len(), report.count(Harm::Repeated), "and nothing else: {report}");
    let finding = &report.findings[0];
    assert!(finding.what.contains("put 11 by harness-crashtest-"), "{report}");
    assert!(!finding.kills.is_empty() && finding.world.len() > 2, "{report}");
}

#[test]
fn a_tool_that_declares_to_read_and_writes_is_told() {
    let report = report(Tools { look: appends, ..Tools::default() }, false);
    println!("{report}");
    // Each of its three calls, without any kill.
    assert_eq!(report.count(Harm::Undeclared), 3, "{report}");
    assert!(report.findings[0].kills.is_empty(), "{report}");
    // And it is repeated, as what only reads may be.
    assert!(report.count(Harm::Repeated) > 0, "{report}");
}

#[test]
fn a_journal_that_acknowledges_before_it_writes_is_told() {
    let report = report(Tools::default(), true);
    println!("{report}");
    assert!(report.count(Harm::Lost) > 0, "{report}");
    // That a call starts is lost, too: it starts again.
    let repeats =
        |it: &&CrashFinding| it.harm == Harm::Repeated && it.what.contains("not be repeated");
    // A kill may come before a call that has started has done anything, so not each of them shows its effect twice.
    let is_twice = |it: &CrashFinding| {
        it.world.iter().any(|effect| it.world.iter().filter(|one| *one == effect).count() > 1)
    };
    assert!(report.findings.iter().filter(repeats).any(is_twice), "{report}");
}

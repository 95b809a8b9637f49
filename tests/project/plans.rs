//! The examples that are plans in plain code: their answers, their turns, and their length.
#![expect(clippy::duplicate_mod, reason = "each example has what all have in common as programs")]

use std::{fs, path::Path};

use harness::{Agent, journal::MemoryJournal};

#[path = "../../examples/critic.rs"]
#[expect(dead_code, reason = "it is a program, too")]
mod critic;
#[path = "../../examples/router.rs"]
#[expect(dead_code, reason = "it is a program, too")]
mod router;
#[path = "../../examples/side_by_side.rs"]
#[expect(dead_code, reason = "it is a program, too")]
mod side_by_side;

/// What an agent answers, in memory and in a journal, and how many turns it takes with all below it.
async fn answered(lead: Agent) -> (String, u32) {
    let reply = lead.run("Go.").await.expect("an answer");
    let journal = MemoryJournal::new();
    let mut chat = lead.open(&journal, "chat").await.expect("opened");
    let kept = chat.send("Go.").await.expect("an answer");
    assert_eq!((kept.text(), kept.spent()), (reply.text(), reply.spent()));
    (reply.text().to_owned(), reply.spent().turns)
}

#[tokio::test]
async fn agents_side_by_side_are_joined() {
    let (text, turns) = answered(side_by_side::lead().expect("an agent")).await;
    assert_eq!(text, "They say: Safe. Line 3 is slow. Well written.");
    assert_eq!(turns, 6, "two of the lead, and one of each other");
}

#[tokio::test]
async fn a_question_comes_to_the_one_whose_work_it_is() {
    let desks = router::desks().expect("agents");
    for (question, expected) in [
        ("Where is my parcel?", Some("It comes tomorrow.")),
        ("The lamp is broken.", Some("Send it to us.")),
        ("Why is the sky blue?", None),
    ] {
        let answer = router::answer(&desks, question).await.ok();
        assert_eq!(answer.as_deref(), expected, "{question}");
    }
}

#[tokio::test]
async fn a_critic_sends_work_back_so_often_and_no_more() {
    for (good, expected, turns) in [
        (1, "Draft 1 about crabs.", 4),
        (3, "Draft 3 about crabs.", 8),
        (9, "after 3 rounds the critic is not content: Draft 4 about crabs.", 9),
    ] {
        let (text, spent) = answered(critic::lead(good).expect("an agent")).await;
        assert_eq!((text.as_str(), spent), (expected, turns), "{good}");
    }
}

/// The plan itself, with what it is made of, takes at most forty lines.
#[test]
fn each_plan_is_at_most_forty_lines_of_plain_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    for name in ["side_by_side", "router", "critic"] {
        let text = fs::read_to_string(folder.join(format!("{name}.rs"))).expect("the example");
        let from = text.find("It asks scripted models").expect("the usage");
        let plan = &text[from..text.find("#[tokio::main]").expect("the program")];
        let lines = plan.lines().skip(1).filter(|line| !line.trim().is_empty()).count();
        assert!(lines <= 40, "{name}: {lines}");
    }
}

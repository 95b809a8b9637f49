//! A driver that cannot store all that an action came to.

use harness::{
    Agent, ErrorKind, Outcome,
    agent::Action,
    journal::{Envelope, Fact, InterruptCause, SummaryRequest},
    testing::{ScriptedProvider, reply},
};

use crate::steps::{acts, entries_of, is_end, said};

#[tokio::test]
async fn what_a_driver_cannot_store_is_cut_short_and_counts() {
    let model = ScriptedProvider::answering(|_| reply().text("x".repeat(900)).tokens(7, 8));
    let agent = Agent::builder(model).build().expect("an agent");
    let mut steps = said(&agent, "Go.").await;
    let facts = steps.act().await.expect("facts");
    let small = |facts: &[Envelope]| serde_json::to_string(facts).expect("JSON").len() < 500;
    assert!(!small(&facts));
    let cut = steps.cut_short(facts.clone(), "too large", small).expect("facts");
    assert!(small(&cut));
    steps.apply(cut).expect("they follow");
    let ended = entries_of(&steps).pop().expect("a fact");
    let Fact::Interrupted { usage, cause, asked, message } = ended else { panic!("{ended:?}") };
    assert_eq!((usage.input, usage.output), (Some(7), Some(8)));
    assert_eq!(cause, InterruptCause::Failure { error: "too large".to_owned(), public_text: None });
    assert!(asked && message.is_none());
    while !is_end(&steps.next()) {
        acts(&mut steps).await;
    }
    assert_eq!(steps.next(), Action::Finish(Outcome::Failed));
    // A fact that is no turn counts as none, and what a summary has used counts.
    let steps = said(&agent, "Go.").await;
    let mut request = SummaryRequest::default();
    request.usage.input = Some(9);
    let (cause, stopped, vendor, too_large) = ("none".to_owned(), false, false, None);
    let request = Box::new(request);
    let failed = Fact::CompactionFailed { request, cause, stopped, vendor, too_large };
    let failed = Envelope::of(&failed, 0).expect("a fact");
    let cut = steps.cut_short(vec![failed.clone(), failed], "full", |facts| facts.is_empty());
    let ended = cut.expect("facts")[0].fact().expect("a fact");
    let Fact::Interrupted { usage, asked, .. } = ended else { panic!("{ended:?}") };
    assert_eq!((usage.input, asked), (Some(18), false));
    // What fits comes first, and then the failure.
    let mut steps = said(&agent, "Go.").await;
    let facts = steps.act().await.expect("facts");
    let cut = steps.cut_short(facts.clone(), "full", |_| true).map(|cut| cut.len());
    assert!(cut.is_err() || cut.is_ok_and(|cut| cut == facts.len() + 1));
    // No run goes on.
    steps.apply(facts).expect("they follow");
    assert_eq!(steps.next(), Action::Finish(Outcome::Answered));
    let error = steps.cut_short(Vec::new(), "full", |_| true).expect_err("no run");
    assert_eq!(error.kind(), ErrorKind::Transcript);
}

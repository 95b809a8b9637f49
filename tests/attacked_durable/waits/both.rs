//! One call is answered twice: in the chat, where the journal fails, and by an inbox.

use super::*;
use harness::policy::Approval;

/// What somebody says about a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Says {
    Yes,
    Always,
    No,
}

const ALL: [Says; 3] = [Says::Yes, Says::Always, Says::No];

impl Says {
    fn about(self, question: &Question) -> Approval {
        match self {
            Self::Yes => question.yes(),
            Self::Always => question.always(),
            Self::No => question.no("no"),
        }
    }
}

/// What happens in the chat between its answer and the next run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meanwhile {
    Nothing,
    Pinned,
    /// The other call is answered in the chat, too.
    Decided,
}

/// How the append of the chat's answer ends.
#[derive(Clone, Copy, Debug)]
enum Ends {
    With(JournalFault),
    /// The future is dropped after so many polls.
    Dropped(usize),
}

/// The answer that is in the journal first counts, and the conversation goes on.
#[tokio::test]
async fn of_two_answers_the_first_one_in_the_journal_counts() {
    let with = [JournalFault::FailBefore, JournalFault::FailAfter, JournalFault::Repeat];
    let ends = with.map(Ends::With).into_iter().chain((0..12).map(Ends::Dropped));
    let mut broken = Vec::new();
    for ends in ends {
        for (here, there) in ALL.into_iter().flat_map(|it| ALL.map(|there| (it, there))) {
            for meanwhile in [Meanwhile::Nothing, Meanwhile::Pinned, Meanwhile::Decided] {
                let what = format!("{ends:?}, {here:?} here, {there:?} there, {meanwhile:?}");
                if let Err(why) = answered_twice(ends, here, there, meanwhile).await {
                    broken.push(format!("{what}: {why}"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{} cases:\n{}", broken.len(), broken.join("\n"));
}

async fn answered_twice(
    ends: Ends,
    here: Says,
    there: Says,
    meanwhile: Meanwhile,
) -> Result<(), String> {
    let (inner, world) = (MemoryJournal::new(), World::default());
    let slow = Odd { slow: true, ..Odd::over(&inner) };
    let journal = FaultyJournal::new(slow);
    let agent = mailing(&world, 2);
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    chat.send("Go.").await.expect_err("it waits");
    let questions: Vec<Question> =
        chat.waiting().iter().map(|open| open.question().expect("a question").clone()).collect();
    let mut decided = None;
    match ends {
        Ends::With(fault) => {
            journal.fail(JournalCall::Append, journal.counts().appends, fault);
            decided = Some(chat.decide(here.about(&questions[0])).await.map_err(|it| it.kind()));
        }
        Ends::Dropped(polls) => {
            let decide = chat.decide(here.about(&questions[0]));
            let ended = polled(std::pin::pin!(decide), polls).await;
            decided = ended.map(|ended| ended.map_err(|it| it.kind())).or(decided);
        }
    }
    let inbox = agent.inbox(&inner).decide(CHAT, there.about(&questions[0])).await;
    if matches!(decided, Some(Ok(()))) && inbox.is_ok() {
        return Err("both count".to_owned());
    }
    match meanwhile {
        Meanwhile::Nothing => {}
        Meanwhile::Pinned => {
            chat.pin("The budget is 100.").map_err(|err| format!("pin: {err}"))?;
        }
        Meanwhile::Decided => {
            chat.decide(questions[1].yes()).await.map_err(|err| format!("the other: {err}"))?;
        }
    }
    chat.save().await.map_err(|err| format!("save: {err}"))?;
    if meanwhile != Meanwhile::Decided {
        chat.decide(questions[1].yes()).await.map_err(|err| format!("the other: {err}"))?;
    }
    let answer = chat.resume().await.map_err(|err| format!("resume: {err}"))?;
    if answer.text() != "Done." {
        return Err(format!("it says {}", answer.text()));
    }
    is_kept("two answers", &inner, chat.transcript());
    let (id, grants) = (questions[0].id(), chat.grants().to_vec());
    let decisions: Vec<bool> = entries(&inner)
        .iter()
        .filter_map(|fact| match fact {
            Entry::CallDecided { call, decision } if *call == "mail_1" => {
                Some(matches!(decision, harness::journal::Decision::Allow { .. }))
            }
            _ => None,
        })
        .collect();
    let [allowed] = decisions.as_slice() else {
        return Err(format!("{} decisions about {id:?}", decisions.len()));
    };
    if world.count("mail 1") != usize::from(*allowed) {
        return Err(format!("allowed: {allowed}, ran {} times", world.count("mail 1")));
    }
    drop(chat);
    let again = agent.open(&inner, CHAT).await.map_err(|err| err.to_string())?;
    match again.grants() == grants {
        true => Ok(()),
        false => Err(format!("grants: {grants:?}, reopened {:?}", again.grants())),
    }
}

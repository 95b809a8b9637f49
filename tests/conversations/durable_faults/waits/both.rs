//! One call is answered twice: in the chat, where the journal fails, and by an inbox.

use super::*;
use harness::{agent::Inbox, policy::Approval};
use std::sync::atomic::AtomicBool;

/// What somebody says about a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Says {
    Yes,
    Always,
    No,
}

const ALL: [Says; 3] = [Says::Yes, Says::Always, Says::No];

impl Says {
    fn about(self, question: &ApprovalRequest) -> Approval {
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
    /// The same, and then the grant that had allowed the call is revoked.
    Revoked,
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
    let ends =
        with.map(Ends::With).into_iter().chain((0..12).step_by(crate::step(3)).map(Ends::Dropped));
    let mut broken = Vec::new();
    for ends in ends {
        for (here, there) in ALL.into_iter().flat_map(|it| ALL.map(|there| (it, there))) {
            for meanwhile in
                [Meanwhile::Nothing, Meanwhile::Pinned, Meanwhile::Decided, Meanwhile::Revoked]
            {
                let what = format!("{ends:?}, {here:?} here, {there:?} there, {meanwhile:?}");
                if let Err(why) = answered_twice(ends, here, there, meanwhile).await {
                    broken.push(format!("{what}: {why}"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{} cases:\n{}", broken.len(), broken.join("\n"));
}

/// The journal has taken the chat's answer and says that it failed. Before the chat looks, an inbox answers another call: the
/// first answer is not written again.
#[derive(Clone)]
struct Broken {
    inner: MemoryJournal,
    inbox: Option<Arc<Inbox>>,
    is_on: Arc<AtomicBool>,
}

impl Journal for Broken {
    crate::kept::hands_on!(inner: read hold rest);

    fn append<'a>(
        &'a self,
        id: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            let head = self.inner.append(id, after, facts).await?;
            let Some(inbox) =
                self.inbox.as_ref().filter(|_| self.is_on.swap(false, Ordering::SeqCst))
            else {
                return Ok(head);
            };
            let last = inbox.waiting(id).await?.pop().expect("another one waits");
            inbox.decide(id, last.question().expect("a question").yes()).await?;
            Err(Error::new(ErrorKind::Journal, "the connection broke"))
        })
    }
}

#[tokio::test]
async fn an_answer_that_was_written_after_all_is_not_written_again() {
    for dropped in [false, true] {
        let (inner, world) = (MemoryJournal::new(), World::default());
        let agent = mailing(&world, 2);
        let (inbox, is_on) = (Arc::new(agent.inbox(&inner)), Arc::new(AtomicBool::new(false)));
        let journal =
            Broken { inner: inner.clone(), inbox: Some(inbox), is_on: Arc::clone(&is_on) };
        let mut chat = agent.open(&journal, CHAT).await.expect("new");
        chat.send("Go.").await.expect_err("it waits");
        let yes = chat.waiting()[0].question().expect("a question").always();
        is_on.store(true, Ordering::SeqCst);
        match dropped {
            false => chat.decide(yes).await.expect("it is written"),
            true => {
                let _ = polled(std::pin::pin!(chat.decide(yes)), 1).await;
            }
        }
        assert_eq!(chat.resume().await.expect("an answer").text(), "Done.");
        assert_eq!((world.count("mail 1"), world.count("mail 2")), (1, 1));
        is_kept("an answer", &inner, chat.transcript());
        let grants = chat.grants().to_vec();
        drop(chat);
        let again = agent.open(&inner, CHAT).await.expect("it opens");
        assert_eq!(again.grants(), grants);
    }
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
    let questions: Vec<ApprovalRequest> =
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
        Meanwhile::Revoked => {
            chat.decide(questions[1].always()).await.map_err(|err| format!("the other: {err}"))?;
            let grants = chat.grants().to_vec();
            if !grants.iter().all(|grant| chat.revoke(grant)) {
                return Err("a grant is not there".to_owned());
            }
        }
        Meanwhile::Decided => {
            chat.decide(questions[1].yes()).await.map_err(|err| format!("the other: {err}"))?;
        }
    }
    chat.save().await.map_err(|err| format!("save: {err}"))?;
    if matches!(meanwhile, Meanwhile::Nothing | Meanwhile::Pinned) {
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
            Fact::CallDecided { call, decision } if *call == "mail_1" => {
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

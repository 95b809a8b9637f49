//! Agents in calls that cannot continue for a while, because their conversation is open elsewhere
//! or the journal has failed; whose caller gets its result from elsewhere; and whose denial ends
//! the runs above them.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use harness::{
    Agent, CallOutcome, Chat, Error, ErrorKind, Message, Outcome, Permissions, SideEffects, Tool,
    ToolContext,
    agent::AgentBuilder,
    journal::{
        Awaited, ConversationPage, ConversationQuery, Envelope, Fact, Head, Journal, JournalFuture,
        Lease, MemoryJournal, Metadata, StoredFacts,
    },
    policy::{Approval, ApprovalRequest},
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

use crate::probe::{MUTATE, READ};

/// How often each call of `pay` ran.
type World = Arc<AtomicU32>;

async fn later(question: ApprovalRequest) -> Approval {
    question.later(None)
}

/// Calls this tool, and says what came of it.
fn calls(tool: &'static str) -> ScriptedProvider {
    ScriptedProvider::answering(move |request| match request.results().next() {
        Some(result) => reply().text(result.to_text()),
        None => reply().call_with_id("c", tool, json!({"task": "Go."})),
    })
}

fn pay(world: &World, effects: SideEffects) -> Tool {
    let world = Arc::clone(world);
    Tool::new("pay", "Pays.", json!({"type": "object"}), effects, move |_, _| {
        world.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok("It is paid.".into()) })
    })
}

/// An agent whose agent's agent pays. One of them is run by a function.
fn lead(world: &World, by_function: bool) -> AgentBuilder {
    let deep = Agent::builder(calls("pay")).tools([pay(world, MUTATE)]).build().expect("an agent");
    let deep = match by_function {
        false => deep.as_tool("deep", "Pays."),
        true => {
            let run = move |context: ToolContext, _| -> harness::tool::ToolFuture {
                let deep = deep.clone();
                Box::pin(async move { Ok(deep.run("Go.").in_call(&context).await?.text().into()) })
            };
            Tool::new("deep", "Pays.", json!({"type": "object"}), MUTATE, run).idempotent()
        }
    };
    let middle = Agent::builder(calls("deep")).tools([deep]);
    let middle = middle.permissions(Permissions::default().allow("deep")).build();
    let middle = middle.expect("an agent").as_tool("middle", "Pays.");
    Agent::builder(calls("middle")).tools([middle]).approver(later)
}

/// Where the question is, and the run that asks it.
async fn asked<J: Journal + Clone + 'static>(lead: &Agent, journal: &J) -> Chat {
    let mut chat = lead.open(journal, "chat").await.expect("opened");
    let stopped = chat.send("Go.").await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Waiting, "{stopped}");
    chat
}

async fn says_yes<J: Journal + Clone + 'static>(lead: &Agent, journal: &J) {
    let inbox = lead.inbox(journal);
    let waiting = inbox.waiting("chat/c/c").await.expect("read");
    let question = waiting[0].question().expect("a question");
    inbox.decide("chat/c/c", question.yes()).await.expect("written");
}

#[tokio::test]
async fn an_agent_that_is_open_elsewhere_leaves_its_call_open_and_what_was_decided_stands() {
    for by_function in [false, true] {
        for held in ["chat/c", "chat/c/c"] {
            let (journal, world) = (MemoryJournal::new(), World::default());
            let told = Arc::new(Mutex::new(Vec::new()));
            let hears = Arc::clone(&told);
            let lead = lead(&world, by_function).on_waiting(move |conversation, _| {
                hears.lock().expect("unpoisoned").push(conversation.to_owned());
            });
            let lead = lead.build().expect("an agent");
            let mut chat = asked(&lead, &journal).await;
            says_yes(&lead, &journal).await;
            let count = told.lock().expect("unpoisoned").len();
            let elsewhere = lead.open(&journal, held).await.expect("opened");
            for _ in 0..3 {
                let stopped = chat.resume().await.unwrap_err();
                assert_eq!(stopped.outcome(), Outcome::Failed, "{held}");
                let error = stopped.error().expect("an error");
                assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                assert!(error.to_string().contains("its call stays open"), "{error}");
                let open = chat.waiting();
                let wait = open[0].wait.as_ref().expect("it waits");
                assert!(matches!(&wait.awaited, Awaited::Agent { cut_off: true, .. }), "{wait:?}");
                let refused = chat.settle(open[0].answered("yes")).await.unwrap_err();
                assert!(refused.to_string().contains("`resume` tries again"), "{refused}");
            }
            assert_eq!(told.lock().expect("unpoisoned").len(), count, "nobody has to answer");
            // In another process as well.
            drop(chat);
            let mut chat = lead.open(&journal, "chat").await.expect("opened");
            assert_eq!(
                chat.resume().await.unwrap_err().error().map(Error::kind),
                Some(ErrorKind::Busy)
            );
            drop(elsewhere);
            let reply = chat.resume().await.expect("an answer");
            assert_eq!(reply.text(), "It is paid.", "{held}");
            assert_eq!(world.load(Ordering::Relaxed), 1);
            assert_eq!(chat.budget().spent().tool_calls, 3, "each call counts once");
        }
    }
}

/// A journal whose call of this number on a conversation of an agent fails.
#[derive(Clone, Default)]
struct FailsBelow {
    journal: MemoryJournal,
    /// How many calls are left before it.
    left: Arc<Mutex<Option<u32>>>,
    /// Whether it is done, and the answer is lost.
    after: bool,
}

impl FailsBelow {
    fn fails(&self, conversation: &str) -> Result<(), Error> {
        let mut left = self.left.lock().expect("unpoisoned");
        match &mut *left {
            Some(0) if conversation.contains('/') => {
                *left = None;
                Err(Error::new(ErrorKind::Journal, "the disk\nis full"))
            }
            Some(left) if conversation.contains('/') => {
                *left -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn does<'a, T: 'a>(
        &'a self,
        conversation: &'a str,
        call: JournalFuture<'a, T>,
    ) -> JournalFuture<'a, T> {
        Box::pin(async move {
            let failed = self.fails(conversation);
            if !self.after {
                failed?;
                return call.await;
            }
            let done = call.await;
            failed.and(done)
        })
    }
}

impl Journal for FailsBelow {
    fn read<'a>(&'a self, id: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        self.does(id, self.journal.read(id, from))
    }

    fn append<'a>(
        &'a self,
        id: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        self.does(id, self.journal.append(id, after, facts))
    }

    fn hold<'a>(&'a self, id: &'a str) -> JournalFuture<'a, Lease> {
        self.does(id, self.journal.hold(id))
    }

    fn describe<'a>(&'a self, id: &'a str, data: &'a Metadata) -> JournalFuture<'a, ()> {
        self.does(id, self.journal.describe(id, data))
    }

    fn list<'a>(&'a self, listing: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage> {
        self.does("of/agents", self.journal.list(listing))
    }

    fn delete<'a>(&'a self, id: &'a str) -> JournalFuture<'a, bool> {
        self.journal.delete(id)
    }
}

/// Goes on, in the same process or in another one, until the run has its answer.
async fn to_the_end(lead: &Agent, journal: &FailsBelow, mut chat: Chat, lives: bool) -> String {
    for _ in 0..4 {
        if lives {
            drop(chat);
            chat = lead.open(journal, "chat").await.expect("opened");
        }
        match chat.resume().await {
            Ok(reply) => return reply.text().to_owned(),
            Err(stopped) => {
                let error = stopped.error().map(ToString::to_string);
                let kind = stopped.error().map(Error::kind);
                assert_eq!(kind, Some(ErrorKind::Journal), "{stopped}");
                assert!(
                    error.is_some_and(|error| error.contains("the disk\nis full")),
                    "{stopped}"
                );
            }
        }
    }
    panic!("it comes to no end");
}

#[tokio::test]
async fn a_journal_that_fails_once_below_ends_no_call_and_loses_no_approval() {
    let mut failures = 0;
    for (by_function, after, lives) in
        (0..8).map(|bits| (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0))
    {
        for number in 0.. {
            let world = World::default();
            let journal = FailsBelow { after, ..FailsBelow::default() };
            let lead = lead(&world, by_function).build().expect("an agent");
            let chat = asked(&lead, &journal).await;
            says_yes(&lead, &journal).await;
            *journal.left.lock().expect("unpoisoned") = Some(number);
            let text = to_the_end(&lead, &journal, chat, lives).await;
            let case = format!("function {by_function}, after {after}, lives {lives}, {number}");
            assert_eq!(text, "It is paid.", "{case}");
            assert_eq!(world.load(Ordering::Relaxed), 1, "{case}");
            if journal.left.lock().expect("unpoisoned").is_some() {
                failures += number;
                break;
            }
        }
    }
    println!("{failures} failures");
    assert!(failures > 40, "{failures}");
}

#[tokio::test]
async fn a_journal_that_fails_once_before_the_question_loses_nothing() {
    for (after, number) in (0..2).flat_map(|after| (0..40).map(move |number| (after == 1, number)))
    {
        let world = World::default();
        let journal = FailsBelow { after, ..FailsBelow::default() };
        let lead = lead(&world, false).build().expect("an agent");
        let mut chat = lead.open(&journal, "chat").await.expect("opened");
        *journal.left.lock().expect("unpoisoned") = Some(number);
        let mut ended = chat.send("Go.").await;
        for _ in 0..3 {
            match ended {
                Err(stopped) if stopped.outcome() == Outcome::Waiting => {
                    *journal.left.lock().expect("unpoisoned") = None;
                    says_yes(&lead, &journal).await;
                }
                Err(stopped) => {
                    let kind = stopped.error().map(Error::kind);
                    assert_eq!(kind, Some(ErrorKind::Journal), "{after} {number}: {stopped}");
                }
                Ok(_) => break,
            }
            ended = chat.resume().await;
        }
        assert_eq!(ended.expect("an answer").text(), "It is paid.", "{after} {number}");
        assert_eq!(world.load(Ordering::Relaxed), 1, "{after} {number}");
    }
}

#[tokio::test]
async fn nothing_waits_below_a_call_that_has_its_result_from_elsewhere() {
    for by_hand in [false, true] {
        let (journal, world) = (MemoryJournal::new(), World::default());
        let lead = lead(&world, false).build().expect("an agent");
        let inbox = lead.inbox(&journal);
        let mut chat = asked(&lead, &journal).await;
        for conversation in ["chat", "chat/c", "chat/c/c"] {
            assert_eq!(inbox.waiting(conversation).await.expect("read").len(), 1, "{conversation}");
        }
        match by_hand {
            true => {
                let open = inbox.waiting("chat").await.expect("read").remove(0);
                inbox.settle("chat", open.succeeded("Ada has paid.")).await.expect("written");
                assert_eq!(chat.resume().await.expect("an answer").text(), "Ada has paid.");
            }
            // The run goes on without it.
            false => {
                let denied = Permissions::default().deny("middle", "not now");
                let _ = chat.send("Never mind.").permissions(denied).await;
            }
        }
        for conversation in ["chat", "chat/c", "chat/c/c"] {
            let waiting = inbox.waiting(conversation).await.expect("read");
            assert_eq!(waiting, [], "{by_hand} {conversation}");
        }
    }
}

#[tokio::test]
async fn a_denial_below_ends_the_run_whose_permissions_say_so_and_all_between() {
    let no = |question: ApprovalRequest| async move { question.no("not today") };
    for stops in ["agent", "run", "middle", "nobody"] {
        let world = World::default();
        let stopping = |here: &str| match here == stops {
            true => Permissions::default().stop_on_denial(),
            false => Permissions::default(),
        };
        let deep = Agent::builder(calls("pay")).tools([pay(&world, MUTATE)]).build();
        let deep = deep.expect("an agent").as_tool("deep", "Pays.");
        let middle = Agent::builder(calls("deep")).tools([deep]).permissions(stopping("middle"));
        let middle = middle.build().expect("an agent").as_tool("middle", "Pays.");
        let lead = Agent::builder(calls("middle")).tools([middle]);
        let lead = lead.permissions(stopping("agent")).approver(no).build().expect("an agent");
        let mut chat = lead.chat();
        let ended = chat.send("Go.").permissions(stopping("run")).await;
        assert_eq!(world.load(Ordering::Relaxed), 0);
        let results: Vec<String> = chat
            .transcript()
            .messages()
            .iter()
            .flat_map(Message::results)
            .map(|it| it.to_text())
            .collect();
        assert_eq!(results.len(), 1, "{results:?}");
        match stops {
            "agent" | "run" => {
                assert_eq!(ended.unwrap_err().outcome(), Outcome::Denied, "{stops}");
                chat.transcript().sendable().expect("it can be sent");
            }
            "middle" => {
                let reply = ended.expect("an answer");
                assert!(reply.text().contains("came to no answer"), "{reply}");
            }
            _ => assert!(ended.expect("an answer").text().contains("not today")),
        }
    }
}

#[tokio::test]
async fn of_a_call_that_has_waited_and_whose_tool_is_gone_the_model_is_told_that_it_may_have_run() {
    for effects in [READ, MUTATE] {
        let (journal, world) = (MemoryJournal::new(), World::default());
        let asks = Permissions::default().ask("pay");
        let worker = Agent::builder(calls("pay")).tools([pay(&world, effects)]).permissions(asks);
        let worker = worker.build().expect("an agent").as_tool("middle", "Pays.");
        let lead = Agent::builder(calls("middle")).tools([worker]).approver(later);
        let mut chat = asked(&lead.build().expect("an agent"), &journal).await;
        let other = Agent::builder(calls("middle")).build().expect("an agent");
        let inbox = other.inbox(&journal);
        let question = inbox.waiting("chat/c").await.expect("read")[0].question().expect("one");
        inbox.decide("chat/c", question.yes()).await.expect("written");
        drop(chat);
        chat = other.open(&journal, "chat").await.expect("opened");
        let reply = chat.resume().await.expect("an answer");
        let results: Vec<CallOutcome> = chat
            .transcript()
            .messages()
            .iter()
            .flat_map(Message::results)
            .map(|it| it.outcome())
            .collect();
        match effects == READ {
            true => assert_eq!(results, [CallOutcome::StoppedReading], "{reply}"),
            false => assert_eq!(results, [CallOutcome::InDoubt], "{reply}"),
        }
    }
}

#[test]
fn an_agent_without_a_name_or_a_description_is_no_tool() {
    let agent = Agent::builder(calls("pay")).build().expect("an agent");
    let built = |tools: Vec<Tool>| Agent::builder(calls("pay")).tools(tools).build();
    for (tools, says) in [
        (vec![agent.as_tool("", "Reviews.")], "`agent.as_tool(\"review\", ..)`"),
        (vec![agent.as_tool("review", " ")], "the agent tool `review` has no description"),
        (
            vec![agent.as_tool("review", "One."), agent.as_tool("review", "Two.")],
            "another name, as in `agent.as_tool(\"...\", ..)`",
        ),
    ] {
        let error = built(tools).expect_err(says);
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// A journal in which somebody else writes into the conversation of an agent, right before its next facts.
#[derive(Clone, Default)]
struct OthersBelow {
    journal: MemoryJournal,
    /// Whether they are about to write.
    come: Arc<AtomicBool>,
}

impl Journal for OthersBelow {
    fn read<'a>(&'a self, id: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        self.journal.read(id, from)
    }

    fn append<'a>(
        &'a self,
        id: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            if id.contains('/') && self.come.swap(false, Ordering::Relaxed) {
                let pinned = Fact::ContextPinned { text: "Somebody was here.".to_owned() };
                self.journal.append(id, after, &[Envelope::of(&pinned, 0)?]).await?;
            }
            self.journal.append(id, after, facts).await
        })
    }

    fn hold<'a>(&'a self, id: &'a str) -> JournalFuture<'a, Lease> {
        self.journal.hold(id)
    }

    fn describe<'a>(&'a self, id: &'a str, data: &'a Metadata) -> JournalFuture<'a, ()> {
        self.journal.describe(id, data)
    }

    fn list<'a>(&'a self, listing: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage> {
        self.journal.list(listing)
    }

    fn delete<'a>(&'a self, id: &'a str) -> JournalFuture<'a, bool> {
        self.journal.delete(id)
    }
}

#[tokio::test]
async fn an_agent_whose_conversation_somebody_else_goes_on_with_leaves_its_call_open() {
    for by_function in [false, true] {
        let (world, journal) = (World::default(), OthersBelow::default());
        let lead = lead(&world, by_function).build().expect("an agent");
        let mut chat = asked(&lead, &journal).await;
        says_yes(&lead, &journal).await;
        journal.come.store(true, Ordering::Relaxed);
        let stopped = chat.resume().await.expect_err("somebody else has it");
        let error = stopped.error().expect("why");
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(error.to_string().contains("its call stays open"), "{error}");
        let reply = chat.resume().await.expect("it goes on from what is there now");
        assert_eq!(reply.text(), "It is paid.");
        assert_eq!(world.load(Ordering::Relaxed), 1);
    }
}

/// A tool that runs an agent, and answers by itself if that one cannot go on.
#[tokio::test]
async fn a_tool_that_answers_although_its_agent_is_open_elsewhere_has_its_result() {
    let journal = MemoryJournal::new();
    let deep = Agent::builder(calls("none")).build().expect("an agent");
    let run = move |context: ToolContext, _| -> harness::tool::ToolFuture {
        let deep = deep.clone();
        Box::pin(async move {
            let ended = deep.run("Go.").in_call(&context).await;
            let stopped = ended.expect_err("it is open elsewhere");
            assert_eq!(stopped.error().map(Error::kind), Some(ErrorKind::Busy), "{stopped}");
            Ok("It is not needed.".into())
        })
    };
    let tool = Tool::new("deep", "Looks.", json!({"type": "object"}), READ, run);
    let lead = Agent::builder(calls("deep")).tools([tool]).build().expect("an agent");
    let elsewhere = lead.open(&journal, "chat/c").await.expect("opened");
    let mut chat = lead.open(&journal, "chat").await.expect("opened");
    let reply = chat.send("Go.").await.expect("an answer");
    assert_eq!(reply.text(), "It is not needed.");
    drop(elsewhere);
}

/// Only a call that runs an agent starts that agent again. Nobody does that for a run with permissions of its own.
#[tokio::test]
async fn a_run_with_its_own_permissions_that_a_journal_has_ended_leaves_no_call_open() {
    for of_its_own in [false, true] {
        let mut not_started = 0;
        for number in 0.. {
            let (world, journal) = (World::default(), FailsBelow::default());
            let agent = Agent::builder(calls("pay")).tools([pay(&world, MUTATE)]);
            let agent = agent.permissions(Permissions::allow_all()).build().expect("an agent");
            let mut chat = agent.open(&journal, "of/nobody").await.expect("opened");
            *journal.left.lock().expect("unpoisoned") = Some(number);
            let run = chat.send("Go.");
            let ended = match of_its_own {
                true => run.permissions(Permissions::allow_all()).await,
                false => run.await,
            };
            let case = format!("{of_its_own} {number}");
            assert_eq!(
                ended.is_err(),
                journal.left.lock().expect("unpoisoned").is_none(),
                "{case}"
            );
            assert_eq!(chat.waiting(), [], "{case}");
            chat.transcript().sendable().unwrap_or_else(|error| panic!("{case}: {error}"));
            let results = chat.transcript().messages().iter().flat_map(Message::results);
            not_started += results.filter(|it| it.outcome() == CallOutcome::NotStarted).count();
            if ended.is_ok() {
                break;
            }
        }
        assert!(not_started > 0, "{of_its_own}: it fails before the call begins");
    }
}

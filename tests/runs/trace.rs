//! The trace of a run: its events, that it can be read back, and that it contains no secret.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{
    Agent, Error, ErrorKind, Media, Outcome, Permissions, Provider as _, StopReason, StreamEvent,
    Tool, ToolContent,
    journal::LimitKind,
    policy::{Guardrails, Limits, RetryPolicy, RetryProvider},
    provider::ContextTokens,
    testing::{ScriptedProvider, outline, reply},
    trace::{self, Happened, Redaction, SCHEMA, Trace, TraceEvent},
};
use serde_json::{Value, json};

use crate::probe::{Log, READ, WRITE, Work, tool};

/// What was written, and in how many pieces.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<Vec<u8>>>>);

impl Paper {
    /// All that a trace has written here.
    fn text(&self, of: &Trace) -> String {
        assert!(of.flush(Duration::from_secs(30)), "{:?}", of.problem());
        self.so_far()
    }

    fn so_far(&self) -> String {
        String::from_utf8(self.0.lock().expect("unpoisoned").concat()).expect("UTF-8")
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("unpoisoned").push(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A tool that takes its time and says this.
fn slow(name: &'static str, effects: harness::SideEffects, millis: u64, said: Value) -> Tool {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": true});
    Tool::new(name, "Says it.", schema, effects, move |_, _| {
        let said = said.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            Ok(match said {
                Value::String(text) => ToolContent::Text(text),
                value => ToolContent::Json(value),
            }
            .into())
        })
    })
}

fn names(events: &[TraceEvent]) -> Vec<String> {
    let name = |event: &TraceEvent| {
        let json = serde_json::to_value(&event.what).expect("JSON");
        json["event"].as_str().expect("a name").to_owned()
    };
    events.iter().map(name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_trace_reads_like_the_run_itself() {
    let model = ScriptedProvider::new([
        reply().call("search_orders", json!({"email": "a@b.com"})).tokens(100, 10),
        reply()
            .text("Let me note that.")
            .call("note", json!({}))
            .call("pay", json!({"cents": 1}))
            .call("lok", json!({}))
            .tokens(150, 20),
        reply()
            .text(format!("I found two orders. {}", "They are long. ".repeat(30)))
            .tokens(200, 9),
    ]);
    let tools = [
        slow("search_orders", READ, 84, json!("[order #1021, #1044]")),
        slow("note", WRITE, 3, json!({"noted": true})),
        slow("pay", crate::probe::MUTATE, 3, json!("paid")),
    ];
    let agent = Agent::builder(model).tools(tools).build().expect("an agent");
    let reply = agent.run("Where are\nmy orders?").await.expect("an answer");
    let shown = reply.trace().to_string();
    let (start, end) = shown.split_at(shown.find("model -> \"I found").expect("the answer"));
    assert_eq!(
        start,
        r#"user -> "Where are my orders?"
model -> search_orders
  search_orders({"email":"a@b.com"})
  -> [order #1021, #1044] (84 ms)
model -> "Let me note that." note, pay, lok
  pay({"cents":1})
  -> denied: `pay` needs a person's approval (it declares `mutate`), and there is nobody to ask
     the program can give an approver, or allow the tool: `Permissions::default().allow(..)`
  note({})
  -> {"noted":true} (3 ms)
  lok({})
  -> failed: there is no tool `lok`; the tools are: search_orders, note, pay (0 µs)
"#
    );
    assert!(end.ends_with(" ..\"\n") && end.len() < 200, "{end}");
}

#[tokio::test(start_paused = true)]
async fn every_step_is_there_with_its_time() {
    let model = ScriptedProvider::new([
        reply()
            .pause(Duration::from_millis(100))
            .call("look", json!({"deep": false}))
            .pause(Duration::from_millis(50))
            .text("Hm.")
            .tokens(100, 10),
        reply().text("Done.").tokens(120, 2),
    ]);
    let agent =
        Agent::builder(model).system("Be brief.").tools([slow("look", READ, 20, json!("x"))]);
    let reply = agent.build().expect("an agent").run("Go.").await.expect("an answer");
    let events = reply.trace().events();
    assert_eq!(
        names(events),
        [
            "run_started",
            "turn_started",
            "answer_began",
            "call_started",
            "model_replied",
            "call_decided",
            "call_finished",
            "turn_started",
            "answer_began",
            "model_replied",
            "run_ended",
        ]
    );
    let at: Vec<u64> = events.iter().map(|event| (event.at_us - events[0].at_us) / 1000).collect();
    assert_eq!(at[..8], [0, 0, 100, 100, 150, 150, 150, 150]);
    assert!(at.is_sorted());
    assert!(reply.trace().to_string().contains("  -> x (20 ms, began 50 ms early)\n"));
    assert!(matches!(events[3].what, Happened::CallStarted { early: true, .. }));
    assert!(matches!(events[6].what, Happened::CallFinished { ran_us: Some(20_000..21_000), .. }));
    let Happened::ModelReplied { context, usage, .. } = &events[9].what else { panic!("no reply") };
    assert_eq!((context.total(), context.measured, usage.output), (120, true, Some(2)));
    assert_eq!(*context, reply.context(), "the last request's");
    let Happened::ModelReplied { response: Some(id), .. } = &events[9].what else {
        panic!("no id")
    };
    assert!(id.starts_with("scripted_"), "{id}");
    assert!(context.tools > 0 && context.system > 0 && context.history > 0, "{context:?}");
    assert!(events.iter().all(|event| event.v == SCHEMA && event.run == events[0].run));
}

#[tokio::test]
async fn lines_are_written_one_by_one_and_read_back() {
    let paper = Paper::default();
    let trace = Trace::default().to_writer(paper.clone());
    let model = ScriptedProvider::new([reply().text("One."), reply().overloaded()]);
    let agent = Agent::builder(model).trace(trace.clone()).build().expect("an agent");
    let mut chat = agent.chat();
    let first = chat.send("Go.").await.expect("an answer");
    let second = chat.send("And?").await.expect_err("no answer");

    let text = paper.text(&trace);
    let pieces = paper.0.lock().expect("unpoisoned").clone();
    assert!(pieces.iter().all(|piece| piece.iter().filter(|byte| **byte == b'\n').count() == 1));
    assert!(pieces.iter().all(|piece| piece.ends_with(b"\n")), "a line is one piece");
    let read = trace::read(&text).expect("events");
    assert_eq!(read, [first.trace().events(), second.trace().events()].concat());

    // However the last line was cut, all lines before it are there.
    let (before, last) = text.trim_end().rsplit_once('\n').expect("lines");
    for cut in (0..last.len()).filter(|at| last.is_char_boundary(*at)) {
        let torn = format!("{before}\n{}", &last[..cut]);
        assert_eq!(trace::read(&torn).expect("events").len(), read.len() - 1, "{cut}");
    }
    let broken = text.replacen("{", "", 1);
    let err = trace::read(&broken).expect_err("a line in the middle");
    assert!(err.to_string().contains("line 1 of the trace"), "{err}");
    let err = trace::read(&text[..text.len() - 2]).map(|events| events.len());
    assert_eq!(err.expect("it was cut off"), read.len() - 1);
    let err = trace::read(&format!("{text}{{}}\n")).expect_err("it was not cut off");
    assert!(err.to_string().contains("is no event"), "{err}");
    let newer = text.replacen("\"v\":1", "\"v\":2", 1);
    assert!(trace::read(&newer).expect_err("newer").to_string().contains("format 2"));
    let more = "{\"v\":1,\"run\":\"r\",\"at_us\":1,\"event\":\"sneezed\",\"loud\":true}\n";
    assert_eq!(trace::read(more).expect("it is let alone")[0].what, Happened::Unknown);
}

/// What keeps lines back is told not to, and what has failed once is let alone: a line that is
/// missing in the middle would not be seen.
#[tokio::test]
async fn no_line_is_kept_back_and_none_is_missing_in_the_middle() {
    struct FailsOnce(Paper, usize);
    impl Write for FailsOnce {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            if self.1 == 3 { Err(io::Error::other("busy")) } else { self.0.write(bytes) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let run = |trace: Trace| {
        let agent = Agent::builder(ScriptedProvider::new([reply().text("One.")])).trace(trace);
        let agent = agent.build().expect("an agent");
        async move { agent.run("Go.").await.expect("an answer").trace().events().len() }
    };
    let (paper, once) = (Paper::default(), Paper::default());
    let kept = Trace::default().to_writer(io::BufWriter::with_capacity(1 << 20, paper.clone()));
    let events = run(kept.clone()).await;
    assert_eq!(trace::read(&paper.text(&kept)).expect("events").len(), events);
    let failed = Trace::default().to_writer(FailsOnce(once.clone(), 0));
    assert_eq!(run(failed.clone()).await, events);
    assert!(!failed.flush(Duration::from_secs(30)), "it has failed");
    assert_eq!(trace::read(&once.so_far()).expect("events").len(), 2);
    assert_eq!(failed.problem().as_deref(), Some("busy"));
}

#[tokio::test]
async fn what_is_secret_is_nowhere() {
    let secrets = [
        "hunter2-hunter2",
        "4111111111111111",
        "sk-ant-api03-abcdefghijkl",
        "tok_123456",
        "visa-5500",
    ];
    let paper = Paper::default();
    let trace = Trace::default()
        .redaction(Redaction::default().field("login", "card"))
        .to_writer(paper.clone());
    let login = json!({
        "user": "ann", "password": secrets[0], "card": 4_111_111_111_111_111_u64,
        "headers": {"X-Api-Key": secrets[2]},
    });
    let session = json!({
        "ok": true, "session": {"access_token": secrets[3]}, "card": secrets[4],
    });
    let model = ScriptedProvider::new([
        reply().reasoning(format!("The password is {}.", secrets[0])).call("login", login.clone()),
        reply().text(format!("Your card is {} and {}.", secrets[1], secrets[3])),
        reply().error(Error::new(ErrorKind::Api, format!("bad key {}", secrets[2]))),
    ]);
    let agent = Agent::builder(model.clone()).tools([slow("login", READ, 0, session)]);
    let mut chat = agent.trace(trace.clone()).build().expect("an agent").chat();
    let reply = chat.send("Log me in.").await.expect("an answer");
    let stopped = chat.send("Again.").await.expect_err("no answer");

    assert!(reply.text().contains(secrets[1]), "the run itself is not changed");
    assert!(model.requests()[1].last_text().contains(secrets[3]));
    let kept = format!("{:?}{:?}", reply.trace(), stopped.trace());
    let shown = format!("{}{}", reply.trace(), trace::page(reply.trace().events()));
    let written = paper.text(&trace);
    for secret in secrets {
        for text in [&written, &kept, &shown] {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
    }
    assert!(written.contains("ann"), "what is not secret is there");
}

/// A tool that says how far it has come, in these words.
fn reports(name: &'static str, words: String) -> Tool {
    let schema = json!({"type": "object"});
    Tool::new(name, "Reports.", schema, READ, move |context, _| {
        context.progress().report(words.clone());
        Box::pin(async {
            tokio::task::yield_now().await;
            Ok("done".into())
        })
    })
}

/// What is said about another try is no part of the answer, which begins after it.
#[tokio::test(start_paused = true)]
async fn an_answer_begins_with_its_first_word() {
    let model = ScriptedProvider::new([reply().overloaded(), reply().text("Cold.")]);
    let model = RetryProvider::new(model, RetryPolicy::default());
    let agent = Agent::builder(model).build().expect("an agent");
    let reply = agent.run("Oslo?").await.expect("an answer");
    let names = names(reply.trace().events());
    assert_eq!(names[1..4], ["turn_started", "retried", "answer_began"]);
}

#[tokio::test]
async fn what_is_secret_is_in_no_kind_of_event() {
    let key = "sk-ant-api03-abcdefghijkl";
    let told = |words: &str| format!("{words} {key}");
    let paper = Paper::default();
    let trace = Trace::default().to_writer(paper.clone());
    let model = ScriptedProvider::new([
        reply()
            .event(StreamEvent::Retrying {
                attempt: 1,
                of: 5,
                wait: Duration::from_millis(250),
                refused: None,
                cause: told("retrying"),
            })
            .event(StreamEvent::FallingBack {
                from: "one".into(),
                to: "other".into(),
                cause: told("down"),
            })
            .text(told("I say"))
            .event(StreamEvent::Discarded { cause: told("again") })
            .text(told("I say"))
            .call("look", json!({}))
            .call("pay", json!({})),
        reply()
            .text(told("I still say"))
            .call("look", json!({"password": "hunter2-hunter2"}))
            .cut(),
    ]);
    let pay = slow("pay", READ, 0, json!("paid"));
    let agent = Agent::builder(model)
        .tools([reports("look", told("half way")), pay])
        .permissions(Permissions::default().deny("pay", told("not with")))
        .trace(trace.clone())
        .build()
        .expect("an agent");
    let stopped = agent.run(told("Use")).await.expect_err("it broke off");

    let events = stopped.trace().events();
    let kinds = names(events);
    for kind in [
        "run_started",
        "retried",
        "fell_back",
        "discarded",
        "call_progressed",
        "model_replied",
        "call_decided",
        "call_finished",
        "interrupted",
    ] {
        assert!(kinds.iter().any(|of| of == kind), "{kind} is in {kinds:?}");
    }
    let (kept, page) = (format!("{events:?}"), trace::page(events));
    let written = paper.text(&trace);
    for text in [written.clone(), kept, stopped.trace().to_string(), page] {
        assert!(!text.contains(key) && !text.contains("hunter2"), "{text}");
    }
    let hidden = written.matches("[secret]").count();
    assert_eq!(hidden, 10, "{written}");
}

#[tokio::test]
async fn a_password_that_the_trace_has_as_a_word_lets_no_other_secret_through() {
    let key = "sk-ant-api03-abcdefghijkl";
    let model = ScriptedProvider::new([
        reply().call("look", json!({"password": "failure"})),
        reply().error(Error::new(ErrorKind::Api, format!("no such key: {key}"))),
    ]);
    let agent = Agent::builder(model).tools([slow("look", READ, 0, json!("done"))]);
    let stopped = agent.build().expect("an agent").run("Look.").await.expect_err("it failed");

    let trace = format!("{:?}", stopped.trace().events());
    assert!(trace.contains("Failure { error: ") && !trace.contains(key), "{trace}");
}

/// What another process would find if this one were killed now.
#[tokio::test]
async fn while_a_run_goes_on_all_of_it_so_far_is_in_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("runs.jsonl");
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (kept, file) = (Arc::clone(&seen), path.clone());
    let schema = json!({"type": "object"});
    let look = Tool::new("look", "Looks.", schema, WRITE, move |_, _| {
        let written = std::fs::read_to_string(&file).expect("a file");
        assert!(written.ends_with('\n'), "{written}");
        *kept.lock().expect("unpoisoned") = names(&trace::read(&written).expect("events"));
        Box::pin(async { Ok("seen".into()) })
    });
    for _ in 0..2 {
        let trace = Trace::default().to_file(&path).expect("a file");
        let model = ScriptedProvider::new([reply().call("look", json!({})), reply().text("Done.")]);
        let agent = Agent::builder(model).tools([look.clone()]).trace(trace).build();
        agent.expect("an agent").run("Go.").await.expect("an answer");
    }
    let second = ["run_started", "turn_started", "answer_began", "model_replied", "call_decided"];
    let seen = seen.lock().expect("unpoisoned").clone();
    let (first, so_far) = seen.split_at(11);
    assert_eq!(first.last().map(String::as_str), Some("run_ended"), "it is written to the end");
    assert_eq!(so_far, [&second[..], &["call_started"]].concat());
}

#[tokio::test]
async fn with_and_without_a_trace_the_same_happens() {
    let run = |trace: Trace| async move {
        let log = Log::default();
        let model = ScriptedProvider::new([
            reply().call("look", json!({})).call("fail", json!({})),
            reply().call("look", json!({})),
            reply().text("Done."),
        ]);
        let tools =
            [tool("look", READ, &log, Work::Steps(2)), tool("fail", WRITE, &log, Work::Fails)];
        let agent = Agent::builder(model).tools(tools).trace(trace).build().expect("an agent");
        let reply = agent.run("Go.").await.expect("an answer");
        (outline(reply.transcript().messages()), log.lines(), reply.trace().events().len())
    };
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is full"))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let broken = Trace::default().to_writer(Broken);
    let off = run(Trace::off()).await;
    let on = run(Trace::default()).await;
    let failing = run(broken.clone()).await;
    assert_eq!((&off.0, &off.1), (&on.0, &on.1));
    assert_eq!((&off.0, &off.1), (&failing.0, &failing.1));
    assert_eq!((off.2, on.2), (0, failing.2), "a disk that is full ends no run");
    assert!(!broken.flush(Duration::from_secs(30)), "it has failed");
    assert!(broken.problem().is_some_and(|problem| problem.contains("the disk is full")));
}

#[tokio::test]
async fn a_dropped_run_leaves_its_trace_and_a_limit_says_which() {
    let paper = Paper::default();
    let model = ScriptedProvider::new([reply().text("I think").stall()]);
    let trace = Trace::default().to_writer(paper.clone());
    let agent = Agent::builder(model).trace(trace.clone());
    let agent = agent.build().expect("an agent");
    {
        let run = std::pin::pin!(agent.run("Go.").into_future());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut run = run;
        for _ in 0..20 {
            assert!(run.as_mut().poll(&mut context).is_pending());
        }
    }
    let events = trace::read(&paper.text(&trace)).expect("events");
    assert_eq!(
        names(&events),
        ["run_started", "turn_started", "answer_began", "interrupted", "run_ended"]
    );
    let shown = trace::pretty(&events);
    assert!(shown.ends_with("(cut off)\nstopped by the program\n"), "{shown}");

    let log = Log::default();
    let model = ScriptedProvider::answering(|_| reply().call("look", json!({})));
    let agent = Agent::builder(model).tools([tool("look", READ, &log, Work::Steps(0))]);
    let agent = agent.guardrails(Guardrails::default().turns(2)).build().expect("an agent");
    let stopped = agent.run("Go.").await.expect_err("no answer");
    let shown = stopped.trace().to_string();
    assert!(
        shown.ends_with("stopped by the limit of turns: the model was asked 2 times\n"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_recorded_run_is_a_test() {
    let record = |model: ScriptedProvider| async move {
        let log = Log::default();
        let tools =
            [tool("look", READ, &log, Work::Steps(0)), tool("note", WRITE, &log, Work::Steps(0))];
        let agent = Agent::builder(model.clone()).tools(tools).build().expect("an agent");
        let mut chat = agent.chat();
        let first = chat.send("Go.").await;
        let first = first.map_err(|stopped| stopped.outcome()).expect("an answer");
        let second = chat.send("And?").await.expect_err("it breaks off");
        model.assert_finished();
        let events = [first.trace().events(), second.trace().events()].concat();
        let lines: Vec<String> =
            events.iter().map(|event| serde_json::to_string(event).expect("JSON")).collect();
        assert_eq!(second.outcome(), Outcome::Failed);
        (outline(chat.transcript().messages()), log.lines(), first.usage(), lines.join("\n"))
    };
    let first = record(ScriptedProvider::new([
        reply().reasoning("Hm.").text("Let me see.").call("look", json!({})).tokens(10, 4),
        reply().call_text("note", "{\"a\": ").call("note", json!({})).tokens(20, 5),
        reply().text("All is well.").tokens(30, 6),
        reply().text("Well,").overloaded(),
    ]))
    .await;
    let events = trace::read(&first.3).expect("events");
    let again = record(ScriptedProvider::from_trace(&events)).await;
    assert_eq!((again.0, again.1, again.2), (first.0, first.1, first.2));
}

#[tokio::test(start_paused = true)]
async fn what_went_wrong_reads_like_it_happened() {
    let wait = Duration::from_millis(250);
    let said = || reply().text("I").begin_call("a", "look").arguments("{}").end_call();
    let model = ScriptedProvider::new([
        said()
            .event(StreamEvent::Discarded { cause: "it broke off".into() })
            .event(StreamEvent::Retrying {
                attempt: 1,
                of: 5,
                wait,
                refused: None,
                cause: "overloaded".into(),
            })
            .event(StreamEvent::FallingBack {
                from: "one".into(),
                to: "other".into(),
                cause: "still down".into(),
            })
            .call_with_id("b", "look", json!({"deep": true}))
            .tokens(85, 1),
        reply().text("Well,").call_with_id("c", "write", json!({})).cut(),
    ]);
    let tools = [reports("look", "half way".into()), slow("write", WRITE, 0, json!("written"))];
    let agent = Agent::builder(model).tools(tools).run_limits(Limits::new().input_tokens(100));
    let stopped = agent.build().expect("an agent").run("Go.").await.expect_err("it broke off");
    let shown = stopped.trace().to_string();
    assert_eq!(
        shown,
        r#"user -> "Go."
  look(..) began early and was dropped
the answer begins again: it broke off
retrying in 250 ms (1 of 5): overloaded
one is down, asking other: still down
model -> look
warning: 85 % of the limit of input tokens are used
  .. half way
  look({"deep":true})
  -> done (0 µs)
model -> "Well," write (cut off)
failed: the answer ended before it was complete: the connection was closed in the middle
  write({})
  -> not started: This call was not started: the run failed first. Nothing of it has happened.
"#
    );
}

#[tokio::test(start_paused = true)]
async fn a_replay_has_the_same_names_ids_and_ends() {
    let run = |model: ScriptedProvider| async move {
        let tools = [slow("look", READ, 0, json!("seen"))];
        let agent = Agent::builder(model.clone()).tools(tools);
        let agent = agent
            .guardrails(Guardrails::none().turns(2).time(Duration::from_secs(60)))
            .build()
            .expect("an agent");
        let mut chat = agent.chat();
        let mut ends = Vec::new();
        let mut events = Vec::new();
        for _ in 0..3 {
            let ended = chat.send("Go.").await;
            ends.push(
                ended.as_ref().map_or_else(|stopped| stopped.outcome(), |_| Outcome::Answered),
            );
            let trace = ended.map_or_else(|s| s.trace().clone(), |reply| reply.trace().clone());
            events.extend(trace.events().to_vec());
        }
        model.assert_finished();
        let messages = chat.transcript().messages();
        let calls = messages.iter().flat_map(|message| message.calls());
        let calls: Vec<String> = calls.map(|call| call.id().to_owned()).collect();
        (ends, calls, (model.name().to_owned(), model.model().to_owned()), events)
    };
    let call = |id: &str| reply().call_with_id(id, "look", json!({}));
    let script = [
        call("one"),
        call("two"),
        reply().text("So f").stop(StopReason::Truncated),
        call("three"),
        reply().text("Done."),
    ];
    let recorded = run(ScriptedProvider::new(script).with_name("vendor").with_model("m-1")).await;
    let limit = Outcome::Limit(LimitKind::Turns);
    assert_eq!(recorded.0, [limit, Outcome::Truncated, Outcome::Answered]);
    let again = run(ScriptedProvider::from_trace(&recorded.3)).await;
    assert_eq!((again.0, again.1, again.2), (recorded.0, recorded.1, recorded.2));
}

#[tokio::test]
async fn pictures_and_limits_that_cannot_be_held_are_told() {
    let draw = Tool::new("draw", "Draws.", json!({"type": "object"}), READ, |_, _| {
        let picture = || ToolContent::Image(Media::from_bytes("image/png", vec![1]));
        Box::pin(async move { Ok(vec!["Two.".into(), picture(), picture()].into()) })
    });
    let model = ScriptedProvider::new([reply().call("draw", json!({})), reply().text("Done.")]);
    let agent = Agent::builder(model).tools([draw]).run_limits(Limits::new().input_tokens(9));
    let reply = agent.build().expect("an agent").run("Go.").await.expect("an answer");
    let kinds = names(reply.trace().events());
    assert_eq!(kinds.iter().filter(|kind| *kind == "limit_unknown").count(), 1, "{kinds:?}");
    let shown = reply.trace().to_string();
    let each = "and a picture, image/png, 1 bytes";
    assert!(shown.contains(&format!("-> Two. {each} {each}")), "{shown}");
}

#[test]
fn an_id_that_comes_again_is_a_call_of_its_own() {
    let event = |at_us: u64, what: Value| {
        let mut event = json!({"v": 1, "run": "run_1", "at_us": at_us});
        let (event_map, what) = (event.as_object_mut().expect("a map"), what);
        event_map.extend(what.as_object().expect("a map").clone());
        serde_json::from_value::<TraceEvent>(event).expect("an event")
    };
    let context = serde_json::to_value(ContextTokens::default()).expect("JSON");
    let events = [
        event(
            0,
            json!({"event": "run_started", "unix_ms": 0, "provider": "p", "model": "m",
                        "tools": [], "said": "<script>alert(1)</script>"}),
        ),
        event(10, json!({"event": "turn_started", "turn": 1})),
        event(400_000, json!({"event": "answer_began", "turn": 1})),
        event(
            500_000,
            json!({"event": "call_started", "call": "c", "tool": "look",
                              "arguments": "{\"a\":\"<b>\"}", "early": true}),
        ),
        event(
            1_000_000,
            json!({"event": "model_replied", "turn": 1, "text": "", "stop": "complete",
                                "usage": {}, "context": context, "provider": "p", "model": "m"}),
        ),
        event(
            2_000_000,
            json!({"event": "call_finished", "call": "c", "outcome": "succeeded",
                                "text": "seen", "ran_us": 250_000}),
        ),
    ];
    // The same id again, in a turn and in a run of their own.
    let second = [
        event(
            3_000_000,
            json!({"event": "call_started", "call": "c", "tool": "hear", "arguments": "{}",
                              "early": false}),
        ),
        event(
            3_000_001,
            json!({"event": "call_finished", "call": "c", "outcome": "succeeded",
                              "text": "heard"}),
        ),
    ];
    let shown = trace::pretty(&[&events[..], &second].concat());
    assert!(shown.ends_with("  hear({})\n  -> heard\n"), "{shown}");
}

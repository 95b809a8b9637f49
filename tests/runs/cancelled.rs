//! `cancel` closes the connection of a run before it returns: at any depth of agents, from any
//! thread, and while the run is not polled.

use std::{
    cell::RefCell,
    future::IntoFuture as _,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::mpsc,
    thread,
    time::Duration,
};

use harness::{
    Agent, AnthropicProvider, CancellationToken, Event, Outcome, Permissions, Reply, State,
    Stopped, ToolContext, ToolError,
    agent::Chats,
    journal::MemoryJournal,
    testing::{Answer, ClosedBy, LoopbackServer, Point, ScriptedProvider, anthropic, reply},
    tool, tools,
};
use serde_json::json;
use tokio::{
    io::AsyncReadExt as _,
    net::TcpSocket,
    runtime::{self, Handle},
    task::{block_in_place, yield_now},
    time::timeout,
};

type Going<'a> = Pin<Box<dyn Future<Output = Result<Reply, Stopped>> + Send + 'a>>;

fn provider(server: &LoopbackServer) -> AnthropicProvider {
    AnthropicProvider::builder().api_key("k").base_url(server.url()).build().unwrap()
}

fn cold() -> Answer {
    anthropic::body().text("Cold.").answer()
}

/// An answer that has told its text and does not end.
fn stalls() -> Answer {
    let body = anthropic::body().text("Cold.").to_string();
    cold().stall_at(Point::Byte(body.find("content_block_stop").unwrap()))
}

/// Until the server has the question, and the run has read what there is.
async fn until_asked(run: &mut Going<'_>, server: &LoopbackServer) {
    let asked = async {
        server.received(0).await;
        for _ in 0..1000 {
            yield_now().await;
        }
    };
    tokio::select! {
        biased;
        _ = run => panic!("the server stalls"),
        () = asked => {}
    }
}

async fn closed_by_us(server: &LoopbackServer, what: &str) {
    let closed = timeout(Duration::from_secs(30), server.closed(0)).await;
    let closed = closed.unwrap_or_else(|_| panic!("the socket is open still: {what}"));
    assert_eq!(closed, ClosedBy::Client, "{what}");
}

/// How a call runs an agent.
#[derive(Clone, Copy, Debug)]
enum Runs {
    AsTool,
    InCall,
    AsEvents,
}

/// Runs an agent.
#[tool(side_effects = "network", idempotent)]
async fn research(
    /** What it is to do */
    task: String,
    agent: State<Agent>,
    context: ToolContext,
) -> Result<String, ToolError> {
    Ok(agent.run(task).in_call(&context).await?.text().to_owned())
}

/// Runs an agent, as a stream of its events.
#[tool(side_effects = "network", idempotent)]
async fn watch(
    /** What it is to do */
    task: String,
    agent: State<Agent>,
    context: ToolContext,
) -> Result<String, ToolError> {
    Ok(agent.run(task).in_call(&context).events().finish().await?.text().to_owned())
}

/// An agent whose first call runs the one below.
fn above(below: Agent, runs: Runs) -> Agent {
    let name = match runs {
        Runs::AsTool => "ask",
        Runs::InCall => "research",
        Runs::AsEvents => "watch",
    };
    let model = ScriptedProvider::answering(move |request| match request.results().next() {
        Some(_) => reply().text("Done."),
        None => reply().call(name, json!({"task": "Find out."})),
    });
    let builder = Agent::builder(model).permissions(Permissions::allow_all());
    match runs {
        Runs::AsTool => builder.tools([below.as_tool("ask", "Asks.")]),
        Runs::InCall => builder.tools(tools![research]).state(below),
        Runs::AsEvents => builder.tools(tools![watch]).state(below),
    }
    .build()
    .unwrap()
}

#[tokio::test]
async fn an_agent_inside_a_call_closes_its_connection_before_its_caller_is_polled() {
    for runs in [Runs::AsTool, Runs::InCall, Runs::AsEvents] {
        for (depth, as_events) in [(1, false), (1, true), (3, false), (3, true)] {
            let what = format!("{runs:?}, {depth} deep, as events: {as_events}");
            let server = LoopbackServer::start([stalls(), cold()]).await.unwrap();
            let below = Agent::builder(provider(&server)).build().unwrap();
            let agent = (0..depth).fold(below, |below, _| above(below, runs));
            let token = CancellationToken::new();
            let mut chat = agent.chat();
            let sending = chat.send("Oslo?").cancel_with(token.clone());
            let mut run: Going<'_> = match as_events {
                true => Box::pin(sending.events().finish()),
                false => sending.into_future(),
            };
            until_asked(&mut run, &server).await;
            token.cancel();
            closed_by_us(&server, &what).await;
            assert_eq!(run.await.unwrap_err().outcome(), Outcome::Cancelled, "{what}");
            assert_eq!(chat.send("Oslo?").await.unwrap().text(), "Done.", "{what}");
        }
    }
}

/// The task of the conversation stands in its watcher meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_conversation_by_id_closes_its_connection_before_its_task_is_polled() {
    let server = LoopbackServer::start([stalls(), cold()]).await.unwrap();
    let agent = Agent::builder(provider(&server)).build().unwrap();
    let chats = Chats::new(&agent, &MemoryJournal::new());
    let (stands, stood) = mpsc::channel::<()>();
    let (goes_on, may_go_on) = mpsc::channel::<()>();
    let run = chats.send("oslo", "Oslo?").with(move |sending| {
        sending.on_event(move |event| {
            if let Event::Text(_) = event {
                stands.send(()).unwrap();
                // It ends when the other end is dropped, too.
                let _ = block_in_place(|| may_go_on.recv());
            }
        })
    });
    let run = run.await.unwrap();
    block_in_place(|| stood.recv().unwrap());
    assert!(chats.stop("oslo"));
    closed_by_us(&server, "stopped by id").await;
    goes_on.send(()).unwrap();
    assert_eq!(run.finish().await.unwrap_err().outcome(), Outcome::Cancelled);
    let reply = chats.send("oslo", "Oslo?").await.unwrap().finish().await;
    assert_eq!(reply.unwrap().text(), "Cold.");
}

/// What a thread does when it has ended, and drops its thread-locals.
struct AtEnd(Option<Box<dyn FnOnce()>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|act| act());
    }
}

thread_local! {
    static AT_END: RefCell<AtEnd> = const { RefCell::new(AtEnd(None)) };
}

/// Acts while a thread ends, when it cannot enter a runtime any more. Says whether that was so, and whether it
/// did not panic.
fn while_a_thread_ends(act: impl FnOnce() + Send + 'static) -> (bool, bool) {
    let (tell, told) = mpsc::channel();
    let ends = move || {
        // What is used first is dropped last.
        AT_END.with(|_| ());
        let _ = Handle::try_current();
        let acts = move || {
            let none = Handle::try_current().unwrap_err();
            let ended = catch_unwind(AssertUnwindSafe(act));
            tell.send((none.is_thread_local_destroyed(), ended.is_ok())).unwrap();
        };
        AT_END.with(|at_end| at_end.borrow_mut().0 = Some(Box::new(acts)));
    };
    thread::spawn(ends).join().unwrap();
    told.recv().unwrap()
}

#[test]
fn a_thread_that_ends_cancels_a_run() {
    // The first leaves its connection free at once, to be kept.
    for (what, answer) in [("empty", Answer::empty(503)), ("stalls", stalls())] {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(LoopbackServer::start([answer, cold()])).unwrap();
        let agent = Agent::builder(provider(&server)).build().unwrap();
        let token = CancellationToken::new();
        let mut run: Going<'static> = agent.run("Oslo?").cancel_with(token.clone()).into_future();
        runtime.block_on(async {
            tokio::select! {
                biased;
                _ = server.received(0) => {}
                _ = &mut run => panic!("it is not answered yet"),
            }
            for _ in 0..1000 {
                yield_now().await;
            }
        });
        assert_eq!(while_a_thread_ends(move || token.cancel()), (true, true), "{what}");
        let stopped = runtime.block_on(run).unwrap_err();
        assert_eq!(stopped.outcome(), Outcome::Cancelled, "{what}");
        let reply = runtime.block_on(agent.run("Oslo?").into_future());
        assert_eq!(reply.unwrap().text(), "Cold.", "{what}");
    }
}

/// Of a question that is being sent, what was not handed to the system is not sent any more. A server that has
/// not got all of a question does not answer it.
#[tokio::test]
async fn the_rest_of_a_long_question_is_not_sent() {
    const LONG: usize = 12 * 1024 * 1024;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let provider = AnthropicProvider::builder().api_key("k").base_url(url).build().unwrap();
    let agent = Agent::builder(provider).build().unwrap();
    for cancels in [true, false] {
        let token = CancellationToken::new();
        let sending = agent.run("y".repeat(LONG)).cancel_with(token.clone());
        let mut run: Going<'static> = sending.into_future();
        let begins = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let read = socket.read(&mut [0; 1024]).await.unwrap();
            (socket, read)
        };
        let (mut socket, mut read) = tokio::select! {
            biased;
            _ = &mut run => panic!("nothing is answered"),
            begun = begins => begun,
        };
        let stopped = match cancels {
            true => {
                token.cancel();
                Some(run)
            }
            false => {
                drop(run);
                None
            }
        };
        let mut rest = vec![0; 1024 * 1024];
        // The connection may be reset in place of its end.
        while let Ok(more @ 1..) = socket.read(&mut rest).await {
            read += more;
        }
        assert!(read < LONG / 2, "{read} bytes were sent, cancels: {cancels}");
        if let Some(run) = stopped {
            assert_eq!(run.await.unwrap_err().outcome(), Outcome::Cancelled);
        }
    }
}

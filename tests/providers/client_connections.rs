//! Connections that are kept, and servers that close them: a request on a closing connection is
//! sent again over a new one, and the program does not notice.

use std::{
    collections::HashSet,
    future::IntoFuture as _,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use harness::{
    Agent, AnthropicProvider, CancellationToken, ErrorKind, Message, Outcome, StreamEvent,
    Transcript,
    policy::{FallbackProvider, RetryPolicy, RetryProvider},
    provider::Request,
    testing::{Answer, ClosedBy, LoopbackServer, Point, ScriptedProvider, anthropic, reply},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinSet,
    time::timeout,
};

/// How often a server is asked that closes its connections.
const SENDS: usize = 300;

fn provider(server: &LoopbackServer) -> AnthropicProvider {
    AnthropicProvider::builder().api_key("k").base_url(server.url()).build().unwrap()
}

fn cold() -> Answer {
    anthropic::body().text("Cold.").answer()
}

fn lost() -> Answer {
    Answer::empty(200).reset_at(Point::BeforeHead)
}

/// Asks once: how often it was tried again and told so, and how it ended.
async fn ask(provider: &dyn harness::Provider) -> (usize, Result<(), harness::Error>) {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    let mut events = provider.stream(Request::new(&transcript).unwrap());
    let mut told = 0;
    while let Some(event) = events.next().await {
        match event {
            Ok(StreamEvent::Retrying { .. } | StreamEvent::FallingBack { .. }) => told += 1,
            Ok(_) => {}
            Err(error) => return (told, Err(error)),
        }
    }
    (told, Ok(()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_closes_after_each_stream_loses_nothing() {
    for says_so in [false, true] {
        let server = LoopbackServer::answering(move |_| match says_so {
            false => cold().then_close(),
            true => cold().header("connection", "close").then_close(),
        })
        .await
        .unwrap();
        let provider = provider(&server);
        for send in 0..SENDS {
            let (told, result) = ask(&provider).await;
            assert!(result.is_ok() && told == 0, "send {send}: {result:?}, {told} tries told");
        }
        // What met a closed connection was never read.
        assert_eq!((server.requests().len(), server.connections()), (SENDS, SENDS));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_with_many_streams_at_once() {
    let server = LoopbackServer::answering(|_| cold().then_close()).await.unwrap();
    let provider = provider(&server);
    let asking = (0..SENDS).map(|_| ask(&provider));
    let ends: Vec<_> = stream::iter(asking).buffer_unordered(20).collect().await;
    let failed: Vec<_> = ends.iter().filter(|(told, end)| *told > 0 || end.is_err()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(server.requests().len(), SENDS);
}

/// Serves one request on each connection, and closes it when the next one comes, without reading
/// it. Says how many it has served.
async fn serve_one_each(listener: TcpListener, served: Arc<AtomicU32>) {
    let mut serving = JoinSet::new();
    while let Ok((mut socket, _)) = listener.accept().await {
        let served = Arc::clone(&served);
        serving.spawn(async move {
            let mut came = Vec::new();
            // The request ends with the JSON of its body, and comes in one or in several reads.
            while !came.ends_with(b"}") {
                assert!(socket.read_buf(&mut came).await.unwrap() > 0);
            }
            served.fetch_add(1, Ordering::SeqCst);
            let body = anthropic::body().text("Cold.").to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: ";
            let answer = format!("{head}{}\r\n\r\n{body}", body.len());
            socket.write_all(answer.as_bytes()).await.unwrap();
            socket.readable().await.unwrap();
        });
    }
}

#[tokio::test]
async fn a_request_that_is_not_read_is_sent_over_a_new_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = Arc::new(AtomicU32::new(0));
    let server = tokio::spawn(serve_one_each(listener, Arc::clone(&served)));
    let provider = AnthropicProvider::builder().api_key("k").base_url(url).build().unwrap();
    for send in 0..SENDS {
        let (told, result) = ask(&provider).await;
        assert!(result.is_ok() && told == 0, "send {send}: {result:?}, {told} tries told");
    }
    assert_eq!(served.load(Ordering::SeqCst) as usize, SENDS, "each is served once");
    server.abort();
}

#[tokio::test]
async fn a_kept_connection_that_breaks_is_replaced_once_and_at_once() {
    // Whatever comes second over a connection is read, and reset.
    let (mut seen, resets) = (HashSet::new(), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&resets);
    let server = LoopbackServer::answering(move |request| {
        if seen.insert(request.connection()) {
            return cold();
        }
        counted.fetch_add(1, Ordering::SeqCst);
        lost()
    })
    .await
    .unwrap();
    let provider = provider(&server);
    for send in 0..SENDS {
        let (told, result) = ask(&provider).await;
        assert!(result.is_ok() && told == 0, "send {send}: {result:?}, {told} tries told");
    }
    let resets = resets.load(Ordering::SeqCst) as usize;
    // The connection of the second try is not kept, so that every other send meets a kept one.
    assert_eq!(resets, SENDS / 2);
    assert_eq!(server.requests().len(), SENDS + resets);
}

#[tokio::test]
async fn the_new_connection_is_a_try_like_any_other() {
    let server = LoopbackServer::start([cold(), lost(), lost(), lost(), cold()]).await.unwrap();
    let policy = RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() };
    let provider = provider(&server).with_retry(policy);
    assert_eq!(ask(&provider).await.0, 0);
    // Over the kept one, over a new one: the first try has failed. Then one more, and the third.
    let (told, result) = ask(&provider).await;
    result.unwrap();
    assert_eq!((told, server.connections()), (2, 4));
    server.assert_finished();
}

#[tokio::test]
async fn an_answer_that_has_begun_is_not_asked_for_again() {
    let begun = Answer::sse("data: ").cut_at(3);
    let server = LoopbackServer::start([cold(), begun]).await.unwrap();
    let once = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    let provider = provider(&server).with_retry(once);
    ask(&provider).await.1.unwrap();
    let error = ask(&provider).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CutOff);
    server.assert_finished();
}

#[tokio::test]
async fn nothing_is_sent_twice_where_no_second_try_is_wanted() {
    let once = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    type Decide = fn(AnthropicProvider) -> Box<dyn harness::Provider>;
    // Who decides, and whether the broken connection is replaced.
    let decide: [(Decide, bool); 5] = [
        (|it| Box::new(it.with_retry(RetryPolicy::none())), false),
        (|it| Box::new(it.with_retry(RetryPolicy { attempts: 1, ..RetryPolicy::default() })), true),
        (|it| Box::new(RetryProvider::new(it, RetryPolicy::none())), false),
        (|it| Box::new(FallbackProvider::new(it).with_retry(RetryPolicy::none())), false),
        (
            |it| {
                let inner = it.with_retry(RetryPolicy::none());
                let once = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
                Box::new(RetryProvider::new(inner, once))
            },
            true,
        ),
    ];
    for (at, (decide, replaced)) in decide.into_iter().enumerate() {
        let server = LoopbackServer::start([cold(), lost(), cold()]).await.unwrap();
        let provider = decide(provider(&server));
        ask(&*provider).await.1.unwrap();
        let (told, result) = ask(&*provider).await;
        assert_eq!((told, result.is_ok()), (0, replaced), "{at}");
        assert_eq!(server.requests().len(), if replaced { 3 } else { 2 }, "{at}");
    }
    // A fallback does not take a dying connection for a server that is down.
    let server = LoopbackServer::start([cold(), lost(), cold()]).await.unwrap();
    let second = ScriptedProvider::answering(|_| reply().text("Warm."));
    let both = FallbackProvider::new(provider(&server)).or(second.clone()).with_retry(once);
    ask(&both).await.1.unwrap();
    ask(&both).await.1.unwrap();
    assert!(second.requests().is_empty());
    server.assert_finished();
}

/// What a token stops is closed in the moment in which it is cancelled, also if nobody polls the run: a task
/// of a busy runtime is polled after all others.
#[tokio::test]
async fn a_cancelled_run_closes_its_socket_before_it_is_polled_again() {
    let body = anthropic::body().text("Cold.").to_string();
    let middle = body.len() / 2;
    let places = [Point::BeforeHead, Point::Byte(0), Point::Byte(middle)];
    for place in places {
        let stalls = Answer::sse(body.clone()).stall_at(place);
        let server = LoopbackServer::start([stalls, cold()]).await.unwrap();
        let agent = Agent::builder(provider(&server)).build().unwrap();
        let token = CancellationToken::new();
        let mut chat = agent.chat();
        let mut run = Box::pin(chat.send("Oslo?").cancel_with(token.clone()).into_future());
        // Until the server has the question, and the run has read what there is.
        let asked = async {
            server.received(0).await;
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            _ = &mut run => panic!("the server stalls"),
            () = asked => {}
        }
        token.cancel();
        let closed = timeout(Duration::from_secs(30), server.closed(0)).await;
        assert_eq!(closed.expect("the socket is open still"), ClosedBy::Client, "{place:?}");
        let stopped = run.await.unwrap_err();
        assert_eq!(stopped.outcome(), Outcome::Cancelled, "{place:?}");
        // And the conversation goes on.
        assert_eq!(chat.send("Oslo?").await.unwrap().text(), "Cold.", "{place:?}");
    }
}

/// An answer without a body leaves its connection free at once. Whoever then cancels or drops the run, on
/// a thread that no runtime drives, neither panics nor spoils the connections of the provider.
#[test]
fn a_free_connection_is_let_go_outside_of_any_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for cancels in [true, false] {
        let answers = [Answer::empty(503), cold()];
        let server = runtime.block_on(LoopbackServer::start(answers)).unwrap();
        let agent = Agent::builder(provider(&server)).build().unwrap();
        let token = CancellationToken::new();
        let mut chat = agent.chat();
        let mut run = Box::pin(chat.send("Oslo?").cancel_with(token.clone()).into_future());
        runtime.block_on(async {
            tokio::select! {
                biased;
                _ = server.received(0) => {}
                _ = &mut run => panic!("it is not answered yet"),
            }
            // The answer comes in, and the run is not polled any more.
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
        });
        if cancels {
            token.cancel();
            let stopped = runtime.block_on(run).unwrap_err();
            assert_eq!(stopped.outcome(), Outcome::Cancelled);
        } else {
            drop(run);
        }
        let reply = runtime.block_on(async { chat.send("Oslo?").await }).unwrap();
        assert_eq!(reply.text(), "Cold.");
    }
}

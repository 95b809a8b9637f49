//! What was granted is not lost with whoever asked for it, and nobody is asked twice after a no.

use super::*;

/// A token endpoint whose renewals wait until they are let go. Says how many have come.
struct Gate {
    come: AtomicUsize,
    open: Mutex<bool>,
    opened: std::sync::Condvar,
}

impl Gate {
    fn new() -> Arc<Self> {
        let (come, open) = (AtomicUsize::new(0), Mutex::new(false));
        Arc::new(Self { come, open, opened: std::sync::Condvar::new() })
    }

    fn pass(&self) {
        self.come.fetch_add(1, Ordering::SeqCst);
        let mut open = self.open.lock().expect("a gate");
        while !*open {
            open = self.opened.wait(open).expect("a gate");
        }
    }

    fn open(&self) {
        *self.open.lock().expect("a gate") = true;
        self.opened.notify_all();
    }
}

fn gated(gate: &Arc<Gate>) -> Arc<World> {
    let gate = Arc::clone(gate);
    World::start(move |asked, _| {
        if asked.path == "/token" && asked.parameter("refresh_token").is_some() {
            gate.pass();
        }
        None
    })
}

/// A call is dropped while its token is renewed: the new token is used and kept all the same, and the spent one is not
/// shown again.
#[tokio::test]
async fn a_call_that_is_dropped_while_a_token_is_renewed_loses_no_token() {
    let (gate, store) = (Gate::new(), Store::default());
    let world = gated(&gate);
    let (auth, pages) = person(says_yes);
    world.server(auth.credential_store(store.clone())).connect().await.expect("a server");
    store.age();
    let (auth, others) = person(says_yes);
    let auth = auth.credential_store(store.clone());
    let connecting = tokio::spawn(world.server(auth.clone()).connect());
    until(|| gate.come.load(Ordering::SeqCst) == 1).await;
    connecting.abort();
    assert!(connecting.await.expect_err("it was dropped").is_cancelled());
    gate.open();
    let is_new = |text: &String| text.contains("renewal-2-of-the-test");
    until(|| store.texts.lock().expect("texts").values().any(is_new)).await;
    let it = world.server(auth).connect().await.expect("a server");
    assert_eq!(text(call(&it.tools()[0]).await), "done");
    assert_eq!((count(&pages), count(&others), world.to("/token").len()), (1, 0, 2));
}

/// The same with what is in memory alone; and whoever closes the connection waits for the token.
#[tokio::test]
async fn a_connection_that_is_closed_while_a_token_is_renewed_loses_no_token() {
    let gate = Gate::new();
    let world = {
        let gate = Arc::clone(&gate);
        let refused = AtomicUsize::new(0);
        World::start(move |asked, world| {
            if asked.path == "/token" && asked.parameter("refresh_token").is_some() {
                gate.pass();
            }
            let first = asked.rpc() == "tools/call" && refused.fetch_add(1, Ordering::SeqCst) == 0;
            first.then(|| (401, world.refusal(""), String::new()))
        })
    };
    let (auth, pages) = person(says_yes);
    let it = Arc::new(world.server(auth.clone()).connect().await.expect("a server"));
    let tool = it.tools().remove(0);
    call(&tool).await.expect_err("a refusal");
    let calling = tokio::spawn(async move { call(&tool).await.map(text_of) });
    until(|| gate.come.load(Ordering::SeqCst) == 1).await;
    let closing = {
        let it = Arc::clone(&it);
        tokio::spawn(async move { it.close().await })
    };
    let err = calling.await.expect("no panic").expect_err("it was closed");
    assert!(err.to_string().contains("was closed by the program"), "{err}");
    assert!(!closing.is_finished(), "a token is on its way");
    gate.open();
    closing.await.expect("no panic");
    let it = world.server(auth).connect().await.expect("a server");
    assert_eq!(text(call(&it.tools()[0]).await), "done");
    assert_eq!((count(&pages), world.to("/token").len()), (1, 2));
}

fn text_of(output: harness::ToolOutput) -> String {
    text(Ok(output))
}

/// A token is renewed before it ends. An authorization server that is down in these seconds stops nothing.
#[tokio::test]
async fn an_authorization_server_that_is_down_does_not_end_a_token_that_is_good() {
    for (ends, goes) in [(u64::MAX, true), (1, false)] {
        let store = Store::default();
        let world = World::start(|asked, _| {
            let renews = asked.path == "/token" && asked.parameter("refresh_token").is_some();
            renews.then(|| (503, String::new(), String::new()))
        });
        let (auth, pages) = person(says_yes);
        world.server(auth.credential_store(store.clone())).connect().await.expect("a server");
        store.age();
        for text in store.texts.lock().expect("texts").values_mut() {
            let mut grant: Value = serde_json::from_str(text).expect("JSON");
            assert!(grant["ends"].as_u64() > grant["until"].as_u64());
            grant["ends"] = json!(ends);
            *text = grant.to_string();
        }
        let (auth, others) = person(says_yes);
        let it = world.server(auth.credential_store(store)).connect().await;
        match goes {
            true => assert_eq!(text(call(&it.expect("a server").tools()[0]).await), "done"),
            false => {
                let err = it.expect_err("no token").to_string();
                assert!(err.contains("status 503"), "{err}");
            }
        }
        assert_eq!((count(&pages), count(&others)), (1, 0));
    }
}

/// Three connections are made, and a person who is asked by one says no: the two others take that for their answer,
/// however late they come to ask.
#[tokio::test]
async fn a_person_who_says_no_is_asked_once_by_all_who_wait() {
    let world = World::start(|_, _| None);
    let (auth, pages) = person(|page| {
        let state = parameter(&page.url, "state").expect("a state");
        visit(&back(page, &[("error", "access_denied"), ("state", &state)]));
    });
    let connect = || world.server(auth.clone()).connect();
    let (one, two, three) = tokio::join!(connect(), connect(), connect());
    for ended in [one, two, three] {
        let err = ended.expect_err("no token").to_string();
        assert!(err.contains("was not given"), "{err}");
    }
    assert_eq!(count(&pages), 1);
    // Whoever connects anew asks anew.
    connect().await.expect_err("no token");
    assert_eq!(count(&pages), 2);
}

/// Tokens for a server on this machine are read by no proxy that the environment names.
#[test]
fn what_goes_to_this_machine_goes_through_no_proxy() {
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    proxy.set_nonblocking(true).expect("a port");
    let address = format!("http://{}", proxy.local_addr().expect("an address"));
    let one = "oauth::a_person_says_yes_once_and_the_token_goes_to_the_server_alone";
    let child = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", one])
        .env("HTTP_PROXY", &address)
        .env("http_proxy", &address)
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .output()
        .expect("a process");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
    assert!(proxy.accept().is_err(), "something has come to the proxy");
}

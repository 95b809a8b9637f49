//! OAuth: a server that wants tokens, an authorization server that lies, and a person who may not come back.

mod attacked;
mod ended;
mod kept;

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use harness::{
    Error, ErrorKind,
    mcp::{
        McpAuth, McpAuthorizationPage, McpCredentialStore, McpCredentials, McpCredentialsFuture,
        McpServer,
    },
};
use serde_json::{Value, json};
use tokio::time;

use super::{call, text};

/// One request.
#[derive(Clone, Debug)]
struct Asked {
    method: String,
    path: String,
    /// With their names in small letters.
    headers: HashMap<String, String>,
    body: String,
}

impl Asked {
    fn rpc(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        body["method"].as_str().unwrap_or_default().to_owned()
    }

    fn token(&self) -> Option<&str> {
        self.headers.get("authorization")?.strip_prefix("Bearer ")
    }

    /// A parameter of a form or a query.
    fn parameter(&self, name: &str) -> Option<String> {
        let url = reqwest::Url::parse(&format!("http://h/?{}", self.body)).ok()?;
        url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }
}

/// Status, headers, body.
type Reply = (u16, String, String);
type Special = dyn Fn(&Asked, &World) -> Option<Reply> + Send + Sync;

/// A server of tools and its authorization server, at one address. It ends with the process of the test.
struct World {
    base: String,
    asked: Mutex<Vec<Asked>>,
    /// Tokens that were given.
    given: AtomicUsize,
    /// The token that the server takes now.
    good: Mutex<String>,
    /// The renewal token that is not spent.
    renewal: Mutex<String>,
}

fn json_of(status: u16, body: &Value) -> Reply {
    (status, "content-type: application/json\r\n".to_owned(), body.to_string())
}

impl World {
    /// One that does what this says, and what is right where it says nothing.
    fn start(
        special: impl Fn(&Asked, &World) -> Option<Reply> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let world = Arc::new(Self {
            base: format!("http://{}", listener.local_addr().expect("an address")),
            asked: Mutex::default(),
            given: AtomicUsize::new(0),
            good: Mutex::default(),
            renewal: Mutex::default(),
        });
        let (own, special) =
            (Arc::clone(&world), Arc::<Special>::from(Box::new(special) as Box<Special>));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (world, special) = (Arc::clone(&own), Arc::clone(&special));
                thread::spawn(move || world.serve(stream, &*special));
            }
        });
        world
    }

    fn serve(&self, mut stream: TcpStream, special: &Special) {
        let Some(asked) = read(&stream) else { return };
        self.asked.lock().expect("a list").push(asked.clone());
        let (status, headers, body) = special(&asked, self).unwrap_or_else(|| self.right(&asked));
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} It\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n"
        );
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    }

    fn metadata(&self) -> Value {
        let base = &self.base;
        json!({
            "issuer": base,
            "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"),
            "registration_endpoint": format!("{base}/register"),
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
        })
    }

    fn token(&self) -> Reply {
        let number = self.given.fetch_add(1, Ordering::SeqCst) + 1;
        let (token, renewal) =
            (format!("token-{number}-of-the-test"), format!("renewal-{number}-of-the-test"));
        self.good.lock().expect("a word").clone_from(&token);
        self.renewal.lock().expect("a word").clone_from(&renewal);
        json_of(
            200,
            &json!({
                "access_token": token, "token_type": "bearer", "expires_in": 3600, "refresh_token": renewal,
            }),
        )
    }

    /// What a right server says.
    fn right(&self, asked: &Asked) -> Reply {
        let base = &self.base;
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET", "/.well-known/oauth-protected-resource/mcp") => json_of(
                200,
                &json!({"resource": format!("{base}/mcp"), "authorization_servers": [base]}),
            ),
            ("GET", "/.well-known/oauth-authorization-server") => json_of(200, &self.metadata()),
            ("POST", "/register") => json_of(201, &json!({"client_id": "registered"})),
            ("POST", "/token") => {
                let refresh = asked.parameter("refresh_token");
                let known = self.renewal.lock().expect("a word").clone();
                match refresh.is_some_and(|it| it != known) {
                    true => json_of(400, &json!({"error": "invalid_grant"})),
                    false => self.token(),
                }
            }
            ("POST", "/mcp") => self.mcp(asked),
            _ => (404, String::new(), String::new()),
        }
    }

    fn refusal(&self, more: &str) -> String {
        let base = &self.base;
        format!(
            "www-authenticate: Bearer resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\"{more}\r\n"
        )
    }

    fn mcp(&self, asked: &Asked) -> Reply {
        let good = self.good.lock().expect("a word").clone();
        if good.is_empty() || asked.token() != Some(&good) {
            return (401, self.refusal(""), String::new());
        }
        let id = serde_json::from_str::<Value>(&asked.body).unwrap_or_default()["id"].clone();
        let result =
            |result: Value| json_of(200, &json!({"jsonrpc": "2.0", "id": id, "result": result}));
        match asked.rpc().as_str() {
            "initialize" => result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "scripted", "version": "1"},
            })),
            "tools/list" => {
                result(json!({"tools": [{"name": "run", "inputSchema": {"type": "object"}}]}))
            }
            "tools/call" => result(json!({"content": [{"type": "text", "text": "done"}]})),
            _ => (202, String::new(), String::new()),
        }
    }

    fn server(&self, auth: McpAuth) -> harness::mcp::McpServerBuilder {
        McpServer::url(format!("{}/mcp", self.base)).name("it").oauth(auth)
    }

    fn to(&self, path: &str) -> Vec<Asked> {
        let asked = self.asked.lock().expect("a list");
        asked.iter().filter(|asked| asked.path == path).cloned().collect()
    }

    fn calls(&self) -> usize {
        self.to("/mcp").iter().filter(|asked| asked.rpc() == "tools/call").count()
    }
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { method, path, headers, body: String::from_utf8(body).ok()? })
}

/// What a browser gets at an address of this machine.
fn visit(url: &reqwest::Url) -> String {
    let address = (url.host_str().expect("a host"), url.port().expect("a port"));
    let mut stream = TcpStream::connect(address).expect("an open port");
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let target = format!("{}{query}", url.path());
    write!(stream, "GET {target} HTTP/1.1\r\nhost: h\r\n\r\n").expect("to be heard");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn parameter(url: &str, name: &str) -> Option<String> {
    let url = reqwest::Url::parse(url).expect("an address");
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Where the page leads back to, with these parameters.
fn back(page: &McpAuthorizationPage, parameters: &[(&str, &str)]) -> reqwest::Url {
    let redirect = parameter(&page.url, "redirect_uri").expect("an address to come back to");
    reqwest::Url::parse_with_params(&redirect, parameters).expect("an address")
}

type Pages = Arc<Mutex<Vec<McpAuthorizationPage>>>;

/// A person who does this with each page; and the pages.
fn person(does: impl Fn(&McpAuthorizationPage) + Send + Sync + 'static) -> (McpAuth, Pages) {
    let (pages, does) = (Pages::default(), Arc::new(does));
    let seen = Arc::clone(&pages);
    let auth = McpAuth::new().on_page(move |page| {
        seen.lock().expect("a list").push(page.clone());
        let does = Arc::clone(&does);
        Box::pin(async move {
            tokio::task::spawn_blocking(move || does(&page)).await.expect("a person");
            Ok(())
        })
    });
    (auth, pages)
}

fn says_yes(page: &McpAuthorizationPage) {
    let state = parameter(&page.url, "state").expect("a state");
    visit(&back(page, &[("code", "code-of-the-test"), ("state", &state)]));
}

fn count(pages: &Pages) -> usize {
    pages.lock().expect("a list").len()
}

/// Waits until this holds.
async fn until(holds: impl Fn() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not come to be");
}

/// The port of this page is closed, or will be.
async fn is_closed(pages: &Pages, number: usize) {
    let redirect = back(&pages.lock().expect("a list")[number], &[]);
    let port = redirect.port().expect("a port");
    until(|| TcpStream::connect(("127.0.0.1", port)).is_err()).await;
}

#[tokio::test]
async fn a_person_says_yes_once_and_the_token_goes_to_the_server_alone() {
    let world = World::start(|_, _| None);
    let (auth, pages) = person(says_yes);
    let it = world.server(auth.clone()).connect().await.expect("a server");
    assert_eq!(text(call(&it.tools()[0]).await), "done");
    // Another connection that shares what was granted.
    let other = world.server(auth.clone()).connect().await.expect("a server");
    assert_eq!(text(call(&other.tools()[0]).await), "done");
    assert_eq!((count(&pages), world.calls(), world.to("/register").len()), (1, 2, 1));
    let resource = Some(format!("{}/mcp", world.base));
    let page = pages.lock().expect("a list")[0].url.clone();
    assert_eq!(parameter(&page, "resource"), resource);
    assert_eq!(parameter(&page, "code_challenge_method").as_deref(), Some("S256"));
    let tokens = world.to("/token");
    assert_eq!(tokens.len(), 1);
    assert_eq!(tokens[0].parameter("resource"), resource);
    let verifier = tokens[0].parameter("code_verifier").expect("a verifier");
    assert!(verifier.len() >= 43 && !page.contains(&verifier), "{page}");
    for asked in world.asked.lock().expect("a list").iter() {
        assert!(asked.path == "/mcp" || asked.token().is_none(), "{asked:?}");
    }
    assert!(!format!("{auth:?} {it:?}").contains("of-the-test"));
}

#[tokio::test]
async fn a_call_whose_token_is_refused_is_sent_once_and_the_next_one_goes() {
    for header in [true, false] {
        let refused = AtomicUsize::new(0);
        let world = World::start(move |asked, world| {
            let first = asked.rpc() == "tools/call" && refused.fetch_add(1, Ordering::SeqCst) == 0;
            first.then(|| {
                world.good.lock().expect("a word").clear();
                (401, if header { world.refusal("") } else { String::new() }, String::new())
            })
        });
        let (auth, pages) = person(says_yes);
        let it = world.server(auth).connect().await.expect("a server");
        let tool = it.tools().remove(0);
        let err = call(&tool).await.expect_err("a refusal");
        assert!(!err.is_in_doubt() && !err.is_transient(), "{err}");
        assert!(err.to_string().contains("may be made again"), "{err}");
        assert_eq!(world.calls(), 1);
        assert_eq!(text(call(&tool).await), "done");
        // Renewed, without the person.
        assert_eq!((world.calls(), count(&pages), world.to("/token").len()), (2, 1, 2));
    }
}

#[tokio::test]
async fn a_token_that_is_good_for_too_little_is_exchanged_for_one_that_is_good_for_both() {
    let refused = AtomicUsize::new(0);
    let world = World::start(move |asked, world| {
        if asked.path == "/mcp" && asked.token().is_none() {
            return Some((401, world.refusal(", scope=\"read\""), String::new()));
        }
        let first = asked.rpc() == "tools/call" && refused.fetch_add(1, Ordering::SeqCst) == 0;
        let more = ", error=\"insufficient_scope\", scope=\"write\"";
        first.then(|| (403, world.refusal(more), String::new()))
    });
    let (auth, pages) = person(says_yes);
    let it = world.server(auth).connect().await.expect("a server");
    let tool = it.tools().remove(0);
    assert!(call(&tool).await.is_err());
    assert_eq!((count(&pages), world.calls()), (1, 1));
    assert_eq!(text(call(&tool).await), "done");
    let pages = pages.lock().expect("a list");
    let scopes: Vec<_> = pages.iter().filter_map(|page| parameter(&page.url, "scope")).collect();
    assert_eq!(scopes, ["read", "write read"]);
    // The program is still who it was.
    assert_eq!(world.to("/register").len(), 1);
}

#[tokio::test]
async fn a_server_that_takes_no_token_asks_the_person_a_few_times() {
    let world = World::start(|asked, world| {
        (asked.rpc() == "tools/call").then(|| (401, world.refusal(""), String::new()))
    });
    let (auth, pages) = person(says_yes);
    let it = world.server(auth).connect().await.expect("a server");
    let tool = it.tools().remove(0);
    let mut said = Vec::new();
    for _ in 0..6 {
        said.push(call(&tool).await.expect_err("a refusal").to_string());
    }
    assert!(
        said.last().is_some_and(|it| it.contains("not sent") && it.contains("in a row")),
        "{said:?}"
    );
    assert!(world.calls() <= 4, "{}", world.calls());
    assert!(count(&pages) <= 3, "{}", count(&pages));
}

#[tokio::test]
async fn an_authorization_server_that_lies_gets_nothing() {
    const WELL: &str = "/.well-known/oauth-authorization-server";
    const OF_IT: &str = "/.well-known/oauth-protected-resource/mcp";
    type Lie = fn(&Asked, &World) -> Option<Reply>;
    fn other(world: &World, member: &str, value: Value) -> Option<Reply> {
        let mut metadata = world.metadata();
        metadata[member] = value;
        Some(json_of(200, &metadata))
    }
    fn at(asked: &Asked, path: &str, reply: Reply) -> Option<Reply> {
        (asked.path == path).then_some(reply)
    }
    let lies: &[(&str, ErrorKind, Lie)] = &[
        ("more than", ErrorKind::TooLarge, |asked, _| {
            at(asked, "/token", (200, String::new(), "[".repeat(10 << 20)))
        }),
        ("more than", ErrorKind::TooLarge, |asked, _| {
            at(asked, WELL, (200, String::new(), "[".repeat(10 << 20)))
        }),
        ("not followed", ErrorKind::Protocol, |asked, _| {
            at(asked, "/token", (307, "location: /elsewhere\r\n".to_owned(), String::new()))
        }),
        ("not followed", ErrorKind::Protocol, |asked, _| {
            at(asked, WELL, (302, "location: /elsewhere\r\n".to_owned(), String::new()))
        }),
        ("describes itself as another", ErrorKind::Protocol, |asked, world| {
            (asked.path == WELL).then(|| other(world, "issuer", json!("https://as.example.com")))?
        }),
        ("not an `https` address", ErrorKind::Protocol, |asked, world| {
            let value = json!("http://as.example.com/token");
            (asked.path == WELL).then(|| other(world, "token_endpoint", value))?
        }),
        ("not an `https` address", ErrorKind::Protocol, |asked, world| {
            let value = json!("file:///etc/passwd");
            (asked.path == WELL).then(|| other(world, "authorization_endpoint", value))?
        }),
        ("S256", ErrorKind::Protocol, |asked, world| {
            let value = json!(["plain"]);
            (asked.path == WELL).then(|| other(world, "code_challenge_methods_supported", value))?
        }),
        ("set `client`", ErrorKind::Configuration, |asked, world| {
            (asked.path == WELL).then(|| other(world, "registration_endpoint", json!(null)))?
        }),
        ("`iss`", ErrorKind::Protocol, |asked, world| {
            let member = "authorization_response_iss_parameter_supported";
            (asked.path == WELL).then(|| other(world, member, json!(true)))?
        }),
        ("another server", ErrorKind::Protocol, |asked, world| {
            let of = json!({"resource": "https://other.example.com/mcp", "authorization_servers": [world.base]});
            at(asked, OF_IT, json_of(200, &of))
        }),
        ("`Bearer` can", ErrorKind::Protocol, |asked, _| {
            let token = json!({"access_token": "token-x-of-the-test", "token_type": "DPoP"});
            at(asked, "/token", json_of(200, &token))
        }),
        ("cannot stand in a header", ErrorKind::Protocol, |asked, _| {
            let token =
                json!({"access_token": "token-x-of-the-test\r\nx: y", "token_type": "Bearer"});
            at(asked, "/token", json_of(200, &token))
        }),
        ("invalid_grant", ErrorKind::Api, |asked, _| {
            let code = asked.parameter("code_verifier").unwrap_or_default();
            let refusal = json!({"error": "invalid_grant", "error_description": format!("code-of-the-test {code}")});
            at(asked, "/token", json_of(400, &refusal))
        }),
        ("status 500", ErrorKind::Api, |asked, _| {
            at(asked, WELL, (500, String::new(), String::new()))
        }),
    ];
    for (why, kind, lie) in lies {
        let world = World::start(lie);
        let (auth, _) = person(says_yes);
        let err = world.server(auth).connect().await.expect_err(why);
        let said = format!("{err} {err:?}");
        assert!(err.kind() == *kind && said.contains(why), "{why}: {err:?}");
        assert!(!said.contains("of-the-test"), "{said}");
        for asked in world.to("/token") {
            let verifier = asked.parameter("code_verifier").expect("a verifier");
            assert!(!said.contains(&verifier), "{said}");
        }
        assert!(world.to("/token").len() <= 1 && world.to("/elsewhere").is_empty(), "{why}");
        assert!(world.to("/mcp").iter().all(|asked| asked.token().is_none()), "{why}");
    }
}

#[tokio::test]
async fn an_answer_of_another_issuer_or_without_the_state_is_not_used() {
    let world = World::start(|_, _| None);
    let (auth, pages) = person(|page| {
        let state = parameter(&page.url, "state").expect("a state");
        let of =
            [("code", "code-of-the-test"), ("state", &state), ("iss", "https://as.example.com")];
        visit(&back(page, &of));
    });
    let err = world.server(auth).connect().await.expect_err("another issuer");
    assert!(err.to_string().contains("another authorization server has answered"), "{err}");
    assert!(world.to("/token").is_empty());
    is_closed(&pages, 0).await;

    let (auth, pages) = person(|page| {
        let state = parameter(&page.url, "state").expect("a state");
        for odd in [
            vec![("code", "x")],
            vec![("code", "x"), ("state", "wrong")],
            vec![("error", "access_denied"), ("state", "wrong")],
            vec![("code", "x"), ("state", &state), ("state", &state)],
        ] {
            assert!(visit(&back(page, &odd)).starts_with("HTTP/1.1 404"));
        }
        says_yes(page);
    });
    let it = world.server(auth).connect().await.expect("a server");
    assert_eq!(text(call(&it.tools()[0]).await), "done");
    assert_eq!((count(&pages), world.to("/token").len()), (1, 1));
    assert_eq!(world.to("/token")[0].parameter("code").as_deref(), Some("code-of-the-test"));

    let (auth, _) = person(|page| {
        let state = parameter(&page.url, "state").expect("a state");
        visit(&back(page, &[("error", "access_denied"), ("state", &state)]));
    });
    let err = world.server(auth).connect().await.expect_err("a person who says no");
    assert!(err.kind() == ErrorKind::Api && err.to_string().contains("access_denied"), "{err}");
}

#[tokio::test]
async fn a_person_who_does_not_come_back_is_not_waited_for_for_ever() {
    let world = World::start(|_, _| None);
    let (auth, pages) = person(|_| {});
    let limited = auth.clone().time_limit(Duration::from_millis(50));
    let err = world.server(limited).connect().await.expect_err("nobody");
    assert!(
        err.kind() == ErrorKind::Timeout && err.to_string().contains("nobody has come back"),
        "{err}"
    );
    is_closed(&pages, 0).await;

    // The program goes away.
    let connecting = tokio::spawn(world.server(auth).connect());
    until(|| count(&pages) == 2).await;
    connecting.abort();
    let _ = connecting.await;
    is_closed(&pages, 1).await;

    let failing = McpAuth::new().on_page(|_| {
        Box::pin(async { Err(Error::new(ErrorKind::Configuration, "there is no browser")) })
    });
    let err = world.server(failing).connect().await.expect_err("no browser");
    assert!(err.to_string().contains("there is no browser"), "{err}");
    for panics in [
        McpAuth::new().on_page(|_| panic!("oh")),
        McpAuth::new().on_page(|_| Box::pin(async { panic!("oh") })),
    ] {
        let err = world.server(panics).connect().await.expect_err("a panic");
        assert_eq!(err.kind(), ErrorKind::Panicked, "{err}");
    }
}

#[tokio::test]
async fn a_connection_is_closed_while_a_call_waits_for_the_person() {
    let world = World::start(|asked, world| {
        let refused = asked.rpc() == "tools/call" || asked.parameter("refresh_token").is_some();
        refused.then(|| match asked.path.as_str() {
            "/mcp" => (401, world.refusal(""), String::new()),
            _ => json_of(400, &json!({"error": "invalid_grant"})),
        })
    });
    let first = AtomicUsize::new(0);
    let (auth, pages) = person(move |page| {
        if first.fetch_add(1, Ordering::SeqCst) == 0 {
            says_yes(page);
        }
    });
    let it = world.server(auth).connect().await.expect("a server");
    let tool = it.tools().remove(0);
    assert!(call(&tool).await.is_err());
    let waiting = tokio::spawn(async move { call(&tool).await });
    until(|| count(&pages) == 2).await;
    it.close().await;
    let err = waiting.await.expect("a task").expect_err("a closed connection");
    assert!(err.to_string().contains("not sent") && err.to_string().contains("closed"), "{err}");
    assert_eq!(world.calls(), 1);
    is_closed(&pages, 1).await;
}

#[tokio::test]
async fn an_endpoint_that_hangs_is_given_up() {
    let world = World::start(|asked, _| {
        if asked.path == "/token" {
            thread::sleep(Duration::from_secs(3600));
        }
        None
    });
    let (auth, _) = person(says_yes);
    let connecting = tokio::spawn(world.server(auth).connect());
    until(|| !world.to("/token").is_empty()).await;
    time::pause();
    let start = time::Instant::now();
    let err = connecting.await.expect("a task").expect_err("nothing");
    assert!(start.elapsed() <= Duration::from_secs(31), "{:?}", start.elapsed());
    assert!(err.kind() == ErrorKind::Timeout && err.to_string().contains("within 30 s"), "{err}");
    assert_eq!(world.to("/token").len(), 1);
}

/// A store of the program.
#[derive(Clone, Default)]
struct Store {
    texts: Arc<Mutex<HashMap<String, String>>>,
    loading: Arc<Mutex<&'static str>>,
    saving: Arc<Mutex<&'static str>>,
}

async fn misbehave(way: &str) -> Result<(), Error> {
    match way {
        "fails" => Err(Error::new(ErrorKind::Journal, "the key ring is locked")),
        "panics" => panic!("oh"),
        "hangs" => std::future::pending().await,
        _ => Ok(()),
    }
}

impl McpCredentialStore for Store {
    fn load<'a>(&'a self, server: &'a str) -> McpCredentialsFuture<'a, Option<McpCredentials>> {
        let way = *self.loading.lock().expect("a way");
        Box::pin(async move {
            misbehave(way).await?;
            Ok(self.texts.lock().expect("texts").get(server).map(McpCredentials::from_text))
        })
    }

    fn save<'a>(&'a self, server: &'a str, grant: McpCredentials) -> McpCredentialsFuture<'a, ()> {
        let way = *self.saving.lock().expect("a way");
        Box::pin(async move {
            misbehave(way).await?;
            let text = grant.expose_text().to_owned();
            self.texts.lock().expect("texts").insert(server.to_owned(), text);
            Ok(())
        })
    }
}

impl Store {
    /// Lets the token be old.
    fn age(&self) {
        for text in self.texts.lock().expect("texts").values_mut() {
            let mut grant: Value = serde_json::from_str(text).expect("JSON");
            grant["until"] = json!(0);
            *text = grant.to_string();
        }
    }
}

#[tokio::test]
async fn connections_that_share_a_store_renew_once_and_the_new_renewal_token_is_kept() {
    let world = World::start(|_, _| None);
    let store = Store::default();
    let (auth, pages) = person(says_yes);
    world.server(auth.credential_store(store.clone())).connect().await.expect("a server");
    for round in 1..=2 {
        store.age();
        // The program was started anew.
        let auth = person(says_yes).0.credential_store(store.clone());
        let (one, two) = tokio::join!(
            world.server(auth.clone()).connect(),
            world.server(auth.clone()).connect()
        );
        for it in [one, two] {
            assert_eq!(text(call(&it.expect("a server").tools()[0]).await), "done");
        }
        assert_eq!(world.to("/token").len(), 1 + round);
    }
    assert_eq!((count(&pages), world.to("/register").len()), (1, 1));
    // Only the first request of all had no token.
    assert_eq!(world.to("/mcp").iter().filter(|asked| asked.token().is_none()).count(), 1);
}

#[tokio::test]
async fn what_was_granted_for_one_server_is_not_used_for_another() {
    let (world, other) = (World::start(|_, _| None), World::start(|_, _| None));
    let store = Store::default();
    let (auth, pages) = person(says_yes);
    world.server(auth.credential_store(store.clone())).connect().await.expect("a server");
    let text = store.texts.lock().expect("texts").values().next().expect("a text").clone();
    store.texts.lock().expect("texts").insert(format!("{}/mcp", other.base), text);
    let (auth, others) = person(says_yes);
    other.server(auth.credential_store(store)).connect().await.expect("a server");
    assert_eq!((count(&pages), count(&others)), (1, 1));
    // Each has given a first token of its own; the first request to the other had none.
    assert_eq!(other.to("/mcp")[0].token(), None);
}

#[tokio::test]
async fn a_store_that_misbehaves_is_told_and_nothing_is_sent_without_it() {
    for (way, kind) in [
        ("fails", ErrorKind::Configuration),
        ("panics", ErrorKind::Panicked),
        ("hangs", ErrorKind::Timeout),
    ] {
        let world = World::start(|_, _| None);
        let store = Store::default();
        *store.loading.lock().expect("a way") = way;
        let (auth, pages) = person(says_yes);
        let auth = auth.credential_store(store.clone());
        if way == "hangs" {
            time::pause();
        }
        let err = world.server(auth.clone()).connect().await.expect_err(way);
        if way == "hangs" {
            time::resume();
        }
        assert!(err.kind() == kind && err.to_string().contains("cannot read"), "{way}: {err}");
        assert!(world.asked.lock().expect("a list").is_empty(), "{way}");

        *store.loading.lock().expect("a way") = "";
        if way != "hangs" {
            *store.saving.lock().expect("a way") = way;
            let err = world.server(auth.clone()).connect().await.expect_err(way);
            assert!(err.kind() == kind && err.to_string().contains("cannot keep"), "{way}: {err}");
            assert!(!err.to_string().contains("of-the-test"), "{way}: {err}");
        }
        *store.saving.lock().expect("a way") = "";
        world.server(auth).connect().await.expect("a server");
        assert_eq!(count(&pages), 1, "{way}");
    }
}

#[tokio::test]
async fn a_program_asks_in_its_own_name() {
    let world = World::start(|_, _| None);
    let store = Store::default();
    let auth = McpAuth::new()
        .client("program")
        .secret("secret/of-the-test")
        .issuer(&world.base)
        .scopes(["a", "b"])
        .without_person()
        .credential_store(store.clone());
    let it = world.server(auth.clone()).connect().await.expect("a server");
    assert_eq!(text(call(&it.tools()[0]).await), "done");
    let asked = world.to("/token").remove(0);
    assert_eq!(asked.parameter("grant_type").as_deref(), Some("client_credentials"));
    assert_eq!(asked.parameter("scope").as_deref(), Some("a b"));
    // `program:secret%2Fof-the-test`, in base64.
    let basic = asked.headers.get("authorization").map(String::as_str);
    assert_eq!(basic, Some("Basic cHJvZ3JhbTpzZWNyZXQlMkZvZi10aGUtdGVzdA=="));
    let kept = store.texts.lock().expect("texts").values().next().expect("a text").clone();
    assert!(kept.contains("token-1-of-the-test") && !kept.contains("secret/of"), "{kept}");
    assert!(!format!("{auth:?}").contains("of-the-test"));
    // It is renewed with the secret all the same.
    store.age();
    let auth = auth.credential_store(store);
    world.server(auth).connect().await.expect("a server");
    let renewed = world.to("/token").remove(1);
    assert_eq!(renewed.parameter("grant_type").as_deref(), Some("refresh_token"));
    assert_eq!(renewed.headers.get("authorization").map(String::as_str), basic);

    let elsewhere = McpAuth::new().client("program").issuer("https://as.example.com");
    let err = world.server(elsewhere).connect().await.expect_err("another issuer");
    assert!(err.to_string().contains("https://as.example.com"), "{err}");
}

#[tokio::test]
async fn what_cannot_be_is_said_before_anything_is_sent() {
    let world = World::start(|_, _| None);
    let auth = McpAuth::new;
    let here = |auth| world.server(auth);
    for (builder, why) in [
        (McpServer::url("http://mcp.example.com/mcp").oauth(auth()), "https"),
        (McpServer::command("it", ["x"]).oauth(auth()), "is a command"),
        (here(auth()).header("Authorization", "Bearer x"), "leave one out"),
        (here(auth().secret("x")), "`client`"),
        (here(auth().without_person()), "`client` and `secret`"),
    ] {
        let err = builder.connect().await.expect_err(why);
        assert!(err.kind() == ErrorKind::Configuration && err.to_string().contains(why), "{err}");
    }
    assert!(world.asked.lock().expect("a list").is_empty());
    for redirect in ["https://127.0.0.1/x", "http://mcp.example.com/x", "x", "http://127.0.0.1/x?y"]
    {
        let err = here(auth().redirect(redirect)).connect().await.expect_err(redirect);
        assert!(
            err.kind() == ErrorKind::Configuration && err.to_string().contains("`redirect`"),
            "{err}"
        );
    }
    assert!(world.to("/register").is_empty());
}

#[tokio::test]
async fn an_error_of_the_server_does_not_show_the_token() {
    let world = World::start(|asked, _| {
        let id = serde_json::from_str::<Value>(&asked.body).unwrap_or_default()["id"].clone();
        let token = asked.token().unwrap_or_default();
        let error = json!({"code": -32000, "message": format!("I do not like {token}")});
        (asked.rpc() == "tools/call")
            .then(|| json_of(200, &json!({"jsonrpc": "2.0", "id": id, "error": error})))
    });
    let (auth, _) = person(says_yes);
    let it = world.server(auth).connect().await.expect("a server");
    let err = call(&it.tools()[0]).await.expect_err("an error");
    assert!(err.to_string().contains("I do not like"), "{err}");
    assert!(!err.to_string().contains("of-the-test"), "{err}");
}

//! Attacks: a person who is shown another page than was asked for, what is secret in an address, a store that keeps
//! nothing, and tokens that end at once.

use super::*;

const WELL: &str = "/.well-known/oauth-authorization-server";

fn with(world: &World, member: &str, value: Value) -> Reply {
    let mut metadata = world.metadata();
    metadata[member] = value;
    json_of(200, &metadata)
}

#[tokio::test]
async fn a_page_that_says_beforehand_what_the_program_has_to_say_is_not_opened() {
    for named in [
        "client_id=x",
        "a=b&redirect_uri=https%3A%2F%2Fx.example",
        "%73tate=x",
        "scope=all",
        "resource=x",
    ] {
        let world = World::start(move |asked, world| {
            let page = json!(format!("{}/authorize?{named}", world.base));
            (asked.path == WELL).then(|| with(world, "authorization_endpoint", page))
        });
        let (auth, pages) = person(says_yes);
        let err = world.server(auth).connect().await.expect_err(named);
        assert!(
            err.kind() == ErrorKind::Protocol && err.to_string().contains("beforehand"),
            "{err}"
        );
        assert_eq!((count(&pages), world.to("/register").len()), (0, 0), "{named}");
    }
}

#[tokio::test]
async fn the_address_of_a_page_has_nothing_that_a_shell_obeys() {
    let world = World::start(|asked, world| {
        let page =
            json!(format!("{}/a$(id)`id`;id|id'\"/<>\\{{}}*!?tenant=$(id);'id'|`id`", world.base));
        (asked.path == WELL).then(|| with(world, "authorization_endpoint", page))
    });
    let (auth, pages) = person(says_yes);
    world.server(auth).connect().await.expect("a server");
    let page = pages.lock().expect("a list")[0].url.clone();
    let odd = |c: char| !(c.is_ascii_alphanumeric() || ":/?&=%-._~+#[]@,".contains(c));
    assert!(!page.contains(odd), "{page}");
    assert_eq!(parameter(&page, "tenant").as_deref(), Some("$(id);'id'|`id`"));
}

#[tokio::test]
async fn what_is_secret_in_an_address_is_not_shown_on_the_page() {
    let world = World::start(|asked, world| {
        let mut asked = asked.clone();
        asked.path = asked.path.split('?').next().unwrap_or_default().to_owned();
        // It does not describe itself.
        let known = !asked.path.starts_with("/.well-known/oauth-protected-resource");
        Some(if known { world.right(&asked) } else { (404, String::new(), String::new()) })
    });
    let (auth, pages) = person(says_yes);
    let address = format!("{}/mcp?key=key-of-the-test", world.base);
    McpServer::url(address).name("it").oauth(auth).connect().await.expect("a server");
    let page = pages.lock().expect("a list")[0].url.clone();
    assert_eq!(parameter(&page, "resource"), Some(format!("{}/mcp", world.base)), "{page}");
    for asked in world.asked.lock().expect("a list").iter() {
        let with_key = format!("{asked:?}").contains("key-of-the-test");
        assert_eq!(with_key, asked.path.starts_with("/mcp"), "{asked:?}");
    }

    // Such an address would have two authorizations.
    let address = world.base.replace("http://", "http://user:password-of-the-test@");
    let auth = person(says_yes).0;
    let err = McpServer::url(format!("{address}/mcp")).name("it").oauth(auth).connect().await;
    let err = err.expect_err("two authorizations");
    assert!(
        err.kind() == ErrorKind::Configuration && err.to_string().contains("password"),
        "{err}"
    );
    assert!(!format!("{err:?}").contains("of-the-test"), "{err:?}");
}

#[tokio::test]
async fn an_answer_that_says_something_twice_is_passed_over() {
    let world = World::start(|_, _| None);
    let (base, answers) = (world.base.clone(), Arc::<Mutex<Vec<String>>>::default());
    let heard = Arc::clone(&answers);
    let (auth, _) = person(move |page| {
        let state = parameter(&page.url, "state").expect("a state");
        let right = [("code", "code-of-the-test"), ("state", state.as_str())];
        for odd in [
            [("iss", base.as_str()), ("iss", "https://as.example.com")],
            [("error", "a"), ("error", "b")],
            [("code", "x"), ("error", "a")],
        ] {
            let parameters: Vec<_> = right.into_iter().chain(odd).collect();
            heard.lock().expect("a list").push(visit(&back(page, &parameters)));
        }
        says_yes(page);
    });
    world.server(auth).connect().await.expect("a server");
    let answers = answers.lock().expect("a list");
    let passed = answers.iter().filter(|answer| answer.starts_with("HTTP/1.1 404")).count();
    assert_eq!((answers.len(), passed), (3, 3), "{answers:?}");
    assert_eq!(world.to("/token").len(), 1);
}

#[tokio::test]
async fn no_error_shows_a_token_that_was_renewed_since_nor_the_header_of_a_secret() {
    let world = World::start(|asked, world| {
        let id = serde_json::from_str::<Value>(&asked.body).unwrap_or_default()["id"].clone();
        if asked.rpc() != "tools/call" {
            return None;
        }
        if world.calls() == 1 {
            return Some((401, world.refusal(""), String::new()));
        }
        let said = format!("token-1-of-the-test renewal-1-of-the-test {}", asked.token()?);
        let error = json!({"code": -32000, "message": format!("I do not like {said}")});
        Some(json_of(200, &json!({"jsonrpc": "2.0", "id": id, "error": error})))
    });
    let (auth, _) = person(says_yes);
    let it = world.server(auth).connect().await.expect("a server");
    let tool = it.tools().remove(0);
    assert!(call(&tool).await.is_err());
    let err = call(&tool).await.expect_err("an error").to_string();
    assert!(err.contains("I do not like") && !err.contains("of-the-test"), "{err}");

    let world = World::start(|asked, _| {
        let header = asked.headers.get("authorization").cloned().unwrap_or_default();
        let said = json!({"error": "invalid_client", "error_description": format!("not {header}")});
        (asked.path == "/token").then(|| json_of(401, &said))
    });
    let auth = McpAuth::new().client("program").secret("secret/of-the-test").without_person();
    let err = world.server(auth).connect().await.expect_err("a refusal").to_string();
    assert!(err.contains("invalid_client") && err.contains("not Basic"), "{err}");
    assert!(!err.contains("cHJvZ3JhbT"), "{err}");
}

#[tokio::test]
async fn a_person_is_not_asked_again_and_again_for_tokens_that_end_at_once() {
    for lives in [json!(0), json!(0.4), json!("0"), json!(-5), json!(1e300), json!("x"), json!([])]
    {
        let said = lives.clone();
        let world = World::start(move |asked, world| {
            world.good.lock().expect("a word").clone_from(&"token-of-the-test".to_owned());
            let token = json!({
                "access_token": "token-of-the-test", "token_type": "Bearer", "expires_in": lives,
            });
            (asked.path == "/token").then(|| json_of(200, &token))
        });
        let (auth, pages) = person(says_yes);
        let it = world.server(auth).connect().await.expect("a server");
        for _ in 0..3 {
            assert_eq!(text(call(&it.tools()[0]).await), "done");
        }
        assert_eq!((count(&pages), world.calls()), (1, 3), "{said}");
    }
}

#[tokio::test]
async fn a_person_who_says_no_to_a_new_token_is_not_asked_for_ever() {
    let world = World::start(|asked, _| {
        let token = json!({
            "access_token": "token-of-the-test", "token_type": "Bearer", "expires_in": 1,
        });
        (asked.path == "/token").then(|| json_of(200, &token))
    });
    "token-of-the-test".clone_into(&mut world.good.lock().expect("a word"));
    let first = AtomicUsize::new(0);
    let (auth, pages) = person(move |page| {
        if first.fetch_add(1, Ordering::SeqCst) == 0 {
            return says_yes(page);
        }
        let state = parameter(&page.url, "state").expect("a state");
        visit(&back(page, &[("error", "access_denied"), ("state", &state)]));
    });
    let it = world.server(auth).connect().await.expect("a server");
    let tool = it.tools().remove(0);
    // Until it is old. It cannot be renewed.
    for _ in 0..1000 {
        if call(&tool).await.is_err() {
            break;
        }
        time::sleep(Duration::from_millis(10)).await;
    }
    let mut said = String::new();
    for _ in 0..8 {
        said = call(&tool).await.expect_err("a person who says no").to_string();
    }
    assert_eq!(count(&pages), 2, "one page after the no would be one too many");
    assert!(said.contains("not sent") && said.contains("was not given before"), "{said}");
}

#[tokio::test]
async fn a_store_that_keeps_nothing_any_more_does_not_bring_back_what_is_spent() {
    let refused = AtomicUsize::new(0);
    let world = World::start(move |asked, world| {
        // The first and the third call are refused.
        let number = || refused.fetch_add(1, Ordering::SeqCst);
        (asked.rpc() == "tools/call" && number() % 2 == 0)
            .then(|| (401, world.refusal(""), String::new()))
    });
    let (auth, pages) = person(says_yes);
    let store = Store::default();
    let it = world.server(auth.credential_store(store.clone())).connect().await.expect("a server");
    let tool = it.tools().remove(0);
    *store.saving.lock().expect("a way") = "fails";
    assert!(call(&tool).await.is_err());
    // It is told once.
    let err = call(&tool).await.expect_err("a store that fails").to_string();
    assert!(err.contains("not sent") && err.contains("cannot keep"), "{err}");
    assert_eq!(text(call(&tool).await), "done");
    *store.saving.lock().expect("a way") = "";
    assert!(call(&tool).await.is_err());
    assert_eq!(text(call(&tool).await), "done");
    // The renewal token of the store is spent, and the newer one was used.
    let shown: Vec<_> =
        world.to("/token").iter().filter_map(|asked| asked.parameter("refresh_token")).collect();
    assert_eq!(shown, ["renewal-1-of-the-test", "renewal-2-of-the-test"]);
    assert_eq!(count(&pages), 1);
    let kept = store.texts.lock().expect("texts").values().next().expect("a text").clone();
    assert!(kept.contains("renewal-3-of-the-test"), "{kept}");
}

#[tokio::test]
async fn programs_that_renew_at_once_by_one_store_do_not_ask_the_person() {
    let store = Store::default();
    let (kept, spent) = (store.clone(), AtomicUsize::new(0));
    let world = World::start(move |asked, world| {
        // Another program was faster: its new token stands in the store when this one is refused.
        let renews = asked.path == "/token" && asked.parameter("refresh_token").is_some();
        if !renews || spent.fetch_add(1, Ordering::SeqCst) > 0 {
            return None;
        }
        let _ = world.token();
        for text in kept.texts.lock().expect("texts").values_mut() {
            let mut grant: Value = serde_json::from_str(text).expect("JSON");
            grant["token"] = json!("token-2-of-the-test");
            grant["refresh"] = json!("renewal-2-of-the-test");
            grant["until"] = json!(u64::MAX);
            *text = grant.to_string();
        }
        Some(json_of(400, &json!({"error": "invalid_grant"})))
    });
    let (auth, pages) = person(says_yes);
    world.server(auth.credential_store(store.clone())).connect().await.expect("a server");
    store.age();
    let (auth, others) = person(says_yes);
    let it = world.server(auth.credential_store(store)).connect().await.expect("a server");
    assert_eq!(text(call(&it.tools()[0]).await), "done");
    assert_eq!((count(&pages), count(&others), world.to("/token").len()), (1, 0, 2));
}

#[tokio::test]
async fn a_store_that_lies_about_a_token_is_as_good_as_an_empty_one() {
    for (member, value) in [
        ("token", json!("token\r\nx: y")),
        ("token", json!("")),
        ("token_endpoint", json!("http://as.example.com/token")),
        ("token_endpoint", json!("file:///etc/passwd")),
        ("resource", json!("https://other.example.com/mcp")),
        ("until", json!("soon")),
        ("server", json!("https://other.example.com/mcp")),
    ] {
        let world = World::start(|_, _| None);
        let store = Store::default();
        let (auth, _) = person(says_yes);
        world.server(auth.credential_store(store.clone())).connect().await.expect("a server");
        if member == "token_endpoint" {
            store.age();
        }
        for text in store.texts.lock().expect("texts").values_mut() {
            let mut grant: Value = serde_json::from_str(text).expect("JSON");
            grant[member] = value.clone();
            *text = grant.to_string();
        }
        let (auth, pages) = person(says_yes);
        let it = world.server(auth.credential_store(store)).connect().await.expect(member);
        assert_eq!(text(call(&it.tools()[0]).await), "done");
        assert_eq!(count(&pages), 1, "{member}: {value}");
    }
}

#[tokio::test]
async fn a_browser_with_a_long_request_reads_that_it_was_heard() {
    let world = World::start(|_, _| None);
    let browser = Arc::<Mutex<Option<TcpStream>>>::default();
    let opened = Arc::clone(&browser);
    let (auth, _) = person(move |page| {
        let state = parameter(&page.url, "state").expect("a state");
        let url = back(page, &[("code", "code-of-the-test"), ("state", &state)]);
        let port = url.port().expect("a port");
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("an open port");
        let (path, query) = (url.path(), url.query().expect("a query"));
        let request = format!(
            "GET {path}?{query} HTTP/1.1\r\nhost: h\r\ncookie: {}\r\n\r\n",
            "c".repeat(12_000)
        );
        (&stream).write_all(request.as_bytes()).expect("to be heard");
        *opened.lock().expect("a browser") = Some(stream);
    });
    world.server(auth).connect().await.expect("a server");
    until(|| browser.lock().expect("a browser").is_some()).await;
    let mut stream = browser.lock().expect("a browser").take().expect("a browser");
    // A connection that is closed before all was read is reset, and some systems then drop the answer.
    assert!(stream.take_error().expect("a state").is_none());
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a whole answer");
    assert!(answer.contains("has received the answer"), "{answer}");
}

#[tokio::test]
async fn calls_at_once_whose_token_is_refused_are_each_sent_once_and_renew_once() {
    let world = World::start(|_, _| None);
    let (auth, pages) = person(says_yes);
    let one = world.server(auth.clone()).connect().await.expect("a server");
    let two = world.server(auth).connect().await.expect("a server");
    let tools = [one.tools().remove(0), two.tools().remove(0)];
    "none-of-the-test".clone_into(&mut world.good.lock().expect("a word"));
    let all = || async {
        let [one, two] = &tools;
        let (a, b, c, d) = tokio::join!(call(one), call(one), call(two), call(two));
        [a, b, c, d].map(|called| called.is_ok())
    };
    assert!(!all().await.contains(&true));
    let sent = world.calls();
    assert!(sent <= 4, "{sent}");
    assert_eq!(all().await, [true; 4]);
    assert_eq!((world.calls(), world.to("/token").len(), count(&pages)), (sent + 4, 2, 1));
}

#[tokio::test]
async fn a_refusal_is_read_whatever_its_header_holds_and_in_however_many_headers() {
    let challenge = |base: &str| {
        format!(
            "Bearer error=\"invalid_token\", scope=\"orders\", resource_metadata=\"{base}/odd\""
        )
    };
    for (before, parameter_of_bearer) in
        [("", ", realm=\"B\u{fc}cher\""), ("Basic realm=\"x\"", ""), ("B\u{fc}cher", "")]
    {
        let refusal = move |world: &World| {
            let first = match before {
                "" => String::new(),
                before => format!("www-authenticate: {before}\r\n"),
            };
            let challenge = challenge(&world.base);
            (
                401,
                format!("{first}www-authenticate: {challenge}{parameter_of_bearer}\r\n"),
                String::new(),
            )
        };
        let world = World::start(move |asked, world| {
            let is_well_known = asked.path.starts_with("/.well-known/oauth-protected-resource");
            let base = &world.base;
            match asked.path.as_str() {
                "/odd" => Some(json_of(
                    200,
                    &json!({"resource": format!("{base}/mcp"), "authorization_servers": [base]}),
                )),
                _ if is_well_known => Some((404, String::new(), String::new())),
                "/mcp" if asked.token().is_none() => Some(refusal(world)),
                "/mcp" if asked.rpc() == "tools/call" && world.calls() == 1 => Some(refusal(world)),
                _ => None,
            }
        });
        let (auth, pages) = person(says_yes);
        let it = world.server(auth).connect().await.expect("a server");
        let page = pages.lock().expect("a list")[0].url.clone();
        assert_eq!(parameter(&page, "scope").as_deref(), Some("orders"), "{page}");
        assert_eq!(world.to("/odd").len(), 1, "{before}");
        let tool = it.tools().remove(0);
        let err = call(&tool).await.expect_err("a refusal");
        assert!(!err.is_in_doubt() && err.to_string().contains("did not run"), "{err}");
        assert_eq!(text(call(&tool).await), "done");
        assert_eq!((world.calls(), world.given.load(Ordering::SeqCst)), (2, 2), "{before}");
    }
}

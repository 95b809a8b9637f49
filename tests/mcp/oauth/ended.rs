//! What ends a grant and what does not, what a server may ask for, and what is shown of what it says.

use super::*;

/// A person who says yes, and has granted something to this world that is old now.
async fn granted(world: &Arc<World>) -> Store {
    let store = Store::default();
    let (auth, _) = person(says_yes);
    world.server(auth.credential_store(store.clone())).connect().await.expect("a server");
    store.age();
    store
}

/// A world whose token endpoint answers renewals in this way, as long as it is told to.
fn refusing(
    status: u16,
    headers: &'static str,
    body: &'static str,
) -> (Arc<World>, Arc<Mutex<bool>>) {
    let refuses = Arc::new(Mutex::new(true));
    let told = Arc::clone(&refuses);
    let world = World::start(move |asked, _| {
        let renews = asked.path == "/token" && asked.parameter("refresh_token").is_some();
        let refused = renews && *told.lock().expect("a word");
        refused.then(|| (status, headers.to_owned(), body.to_owned()))
    });
    (world, refuses)
}

#[tokio::test]
async fn a_definite_refusal_of_a_renewal_ends_the_grant_and_the_person_is_asked() {
    for (status, headers, body) in [
        (400, "", r#"{"error": "invalid_grant"}"#),
        (401, "", r#"{"error": "invalid_client"}"#),
        (403, "", r#"{"error": "access_denied"}"#),
        (403, "", "<html>"),
        (404, "", ""),
        (410, "", ""),
        (422, "", "{}"),
        (200, "", r#"{"error": "invalid_grant"}"#),
        (200, "", r#"{"error": "invalid_grant", "access_token": "t", "token_type": "Bearer"}"#),
        (200, "", r#"{"ok": false}"#),
        (200, "", r#"{"access_token": "", "token_type": "Bearer"}"#),
        (301, "location: https://as.example.com/token\r\n", ""),
    ] {
        let (world, _) = refusing(status, headers, body);
        let store = granted(&world).await;
        // The program was started anew.
        let (auth, pages) = person(says_yes);
        let it = world.server(auth.credential_store(store.clone())).connect().await;
        let it = it.unwrap_or_else(|err| panic!("{status} {body}: {err}"));
        assert_eq!(text(call(&it.tools()[0]).await), "done", "{status} {body}");
        assert_eq!(count(&pages), 1, "{status} {body}");
        let renewals = world.to("/token");
        let renewals = renewals.iter().filter(|it| it.parameter("refresh_token").is_some());
        assert_eq!(renewals.count(), 1, "{status} {body}: what has ended is not presented again");
        // And what was granted then is there for the next start.
        let (auth, pages) = person(says_yes);
        world.server(auth.credential_store(store)).connect().await.expect("a server");
        assert_eq!(count(&pages), 0, "{status} {body}");
    }
}

#[tokio::test]
async fn a_failure_that_may_pass_keeps_the_grant_and_the_person_is_not_asked() {
    for (status, body) in [
        (500, ""),
        (503, r#"{"error": "invalid_grant"}"#),
        (429, r#"{"error": "slow_down"}"#),
        (408, ""),
        (400, r#"{"error": "temporarily_unavailable"}"#),
        (200, "<html>Log in to the network of this hotel.</html>"),
    ] {
        let (world, refuses) = refusing(status, "", body);
        let store = granted(&world).await;
        for text in store.texts.lock().expect("texts").values_mut() {
            let mut grant: Value = serde_json::from_str(text).expect("JSON");
            grant["ends"] = json!(1);
            *text = grant.to_string();
        }
        let (auth, pages) = person(says_yes);
        let auth = auth.credential_store(store);
        world.server(auth.clone()).connect().await.expect_err(body);
        *refuses.lock().expect("a word") = false;
        let it = world.server(auth).connect().await.expect("a server");
        assert_eq!(text(call(&it.tools()[0]).await), "done", "{status} {body}");
        assert_eq!(count(&pages), 0, "{status} {body}");
    }
}

#[tokio::test]
async fn a_token_for_more_than_the_server_is_taken_only_where_the_program_says_so() {
    fn wide(asked: &Asked, world: &World) -> Option<Reply> {
        let wide = json!({"resource": world.base, "authorization_servers": [world.base]});
        asked.path.starts_with("/.well-known/oauth-protected").then(|| json_of(200, &wide))
    }
    let world = World::start(wide);
    let (auth, pages) = person(says_yes);
    let err = world.server(auth).connect().await.expect_err("too wide").to_string();
    assert!(err.contains("McpAuth::resource") && err.contains(&world.base), "{err}");
    assert_eq!((count(&pages), world.to("/token").len()), (0, 0));

    let (auth, pages) = person(says_yes);
    let named = auth.clone().resource(&world.base);
    world.server(named).connect().await.expect("a server");
    let page = pages.lock().expect("a list")[0].url.clone();
    assert_eq!(parameter(&page, "resource").as_deref(), Some(&*world.base));
    let elsewhere = auth.resource("https://other.example.com");
    let err = world.server(elsewhere).connect().await.expect_err("another host");
    assert!(err.is_configuration() && err.to_string().contains("`resource`"), "{err}");
}

#[tokio::test]
async fn a_server_does_not_widen_what_a_program_asks_for_in_its_own_name() {
    let world = World::start(|asked, world| {
        if asked.path == "/mcp" && asked.token().is_none() {
            return Some((401, world.refusal(", scope=\"admin\""), String::new()));
        }
        let more = ", error=\"insufficient_scope\", scope=\"admin\"";
        (asked.rpc() == "tools/call").then(|| (403, world.refusal(more), String::new()))
    });
    for (scopes, sent) in [(None, None), (Some("read"), Some("read"))] {
        let auth = McpAuth::new().client("program").secret("secret-of-the-test");
        let auth = auth.issuer(&world.base).without_person();
        let auth = scopes.into_iter().fold(auth, |auth, scope| auth.scopes([scope]));
        let it = world.server(auth).connect().await.expect("a server");
        let mut said = String::new();
        for _ in 0..3 {
            said = call(&it.tools()[0]).await.expect_err("a refusal").to_string();
        }
        assert!(said.contains("`admin`") && said.contains("McpAuth::scopes"), "{said}");
        let last = world.to("/token").pop().expect("a request");
        assert_eq!(last.parameter("scope").as_deref(), sent);
    }
    assert_eq!(world.to("/token").len(), 2);
}

#[tokio::test]
async fn a_first_refusal_for_its_scope_asks_the_person() {
    let world = World::start(|asked, world| {
        let more = ", error=\"insufficient_scope\"";
        (asked.path == "/mcp" && asked.token().is_none())
            .then(|| (401, world.refusal(more), String::new()))
    });
    let (auth, pages) = person(says_yes);
    let it = world.server(auth).connect().await.expect("a server");
    assert_eq!(text(call(&it.tools()[0]).await), "done");
    assert_eq!(count(&pages), 1);
}

#[tokio::test]
async fn connections_that_say_nothing_do_not_keep_the_browser_out() {
    let world = World::start(|_, _| None);
    let (auth, _) = person(|page| {
        let port = back(page, &[]).port().expect("a port");
        let silent: Vec<_> =
            (0..200).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("a port")).collect();
        says_yes(page);
        drop(silent);
    });
    // A request may take ten seconds.
    let auth = auth.time_limit(Duration::from_secs(8));
    world.server(auth).connect().await.expect("a server");
}

#[tokio::test]
async fn a_page_does_not_say_that_all_is_well_where_the_answer_is_dropped() {
    let world = World::start(|_, _| None);
    let read = Arc::<Mutex<String>>::default();
    let page_read = Arc::clone(&read);
    let (auth, _) = person(move |page| {
        let state = parameter(&page.url, "state").expect("a state");
        let of =
            [("code", "code-of-the-test"), ("state", &state), ("iss", "https://as.example.com")];
        *page_read.lock().expect("a page") = visit(&back(page, &of));
    });
    world.server(auth).connect().await.expect_err("another issuer");
    until(|| !read.lock().expect("a page").is_empty()).await;
    let read = read.lock().expect("a page").clone();
    assert!(read.contains("was not accepted") && !read.contains("Done"), "{read}");
}

#[tokio::test]
async fn what_an_authorization_server_says_stands_on_one_line() {
    let words = "no\r\nERROR all is lost \u{202e}txet\u{200b} \u{1b}[31m";
    let described = json!({"error": "invalid_grant", "error_description": words}).to_string();
    let world = World::start(move |asked, _| {
        (asked.path == "/token").then(|| (400, String::new(), described.clone()))
    });
    let (denied, _) = person(move |page| {
        let state = parameter(&page.url, "state").expect("a state");
        let no = [("error", "access_denied"), ("error_description", words), ("state", &state)];
        visit(&back(page, &no));
    });
    for auth in [person(says_yes).0, denied] {
        let err = world.server(auth).connect().await.expect_err("a refusal").to_string();
        assert!(err.contains("all is lost"), "{err}");
        assert!(!err.contains(['\r', '\n', '\u{202e}', '\u{200b}', '\u{1b}']), "{err:?}");
    }
}

#[tokio::test]
async fn a_token_that_the_server_repeats_does_not_reach_the_model() {
    let world = World::start(|asked, _| {
        let id = serde_json::from_str::<Value>(&asked.body).unwrap_or_default()["id"].clone();
        let said = format!(
            "I got {} and {}",
            asked.token().unwrap_or_default(),
            asked.headers.get("x-desk-key").map(String::as_str).unwrap_or_default()
        );
        let result = match asked.rpc().as_str() {
            "tools/call" => json!({
                "content": [{"type": "text", "text": said}], "structuredContent": {"headers": {"all": [said]}},
            }),
            "tools/list" => json!({"tools": [{
                "name": "run", "description": said, "inputSchema": {"type": "object"},
            }]}),
            _ => return None,
        };
        (asked.token().is_some())
            .then(|| json_of(200, &json!({"jsonrpc": "2.0", "id": id, "result": result})))
    });
    let (auth, _) = person(says_yes);
    let server = world.server(auth).header("X-Desk-Key", "Key-0123-of-the-test");
    let it = server.connect().await.expect("a server");
    let tool = it.tools().remove(0);
    let output = call(&tool).await.expect("a result");
    let shown = format!("{output:?} {} {}", text(Ok(output.clone())), tool.description());
    assert!(shown.contains("[secret]") && !shown.contains("of-the-test"), "{shown}");
}

//! Proxies that the environment names. Each test runs in a process of its own, with that environment.

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    process::Command,
    sync::mpsc::{Receiver, channel},
    thread,
};

use harness::{
    ErrorKind,
    mcp::McpServer,
    testing::{LoopbackServer, anthropic as wire},
};

use super::{anthropic, ask};

const CHILD: &str = "HARNESS_BEHIND_A_PROXY";

/// Runs the test with this name in a process with these variables and no other ones of proxies.
fn in_process(test: &str, variables: &[(&str, &str)], run: impl Future<Output = ()>) {
    if env::var(CHILD).is_ok() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        return runtime.expect("a runtime").block_on(run);
    }
    let mut child = Command::new(env::current_exe().expect("this program"));
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        child.env_remove(name).env_remove(name.to_lowercase());
    }
    child.args([test, "--exact", "--nocapture"]).env(CHILD, "1").envs(variables.iter().copied());
    let output = child.output().expect("a process");
    let said = String::from_utf8_lossy(&output.stdout);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{words}");
}

/// A proxy that refuses everything, and hands over the head of each request.
fn proxy() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (heads, heard) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = String::new();
            let mut reader = BufReader::new(&stream);
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
            let refused =
                "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(refused.as_bytes());
            if heads.send(head).is_err() {
                return;
            }
        }
    });
    (address, heard)
}

#[test]
fn a_model_on_this_machine_is_asked_without_a_proxy() {
    // Nobody listens there.
    let nobody = "http://127.0.0.1:9";
    let variables = [("HTTP_PROXY", nobody), ("http_proxy", nobody), ("ALL_PROXY", nobody)];
    let test = "proxies::a_model_on_this_machine_is_asked_without_a_proxy";
    in_process(test, &variables, async {
        let answers = std::iter::repeat_with(|| wire::body().text("Cold.")).take(2);
        let server = LoopbackServer::start(answers).await.expect("a server");
        for host in ["127.0.0.1", "localhost"] {
            let url = server.url().replace("127.0.0.1", host);
            let answer = ask(&anthropic(&url)).await;
            assert!(answer.is_ok(), "{host}: {:?}", answer.err());
        }
        // A server of tools, too: what refuses is the server and not the proxy.
        let err = McpServer::url("http://localhost:9/mcp").name("it").connect().await;
        let err = err.expect_err("nobody is there").to_string();
        assert!(!err.contains("proxy"), "{err}");
    });
}

#[test]
fn a_network_error_names_the_proxy_without_its_password() {
    let variables =
        [("HTTP_PROXY", "http://zoe9:pass-word-3@127.0.0.1:9"), ("NO_PROXY", "direct.invalid:80")];
    let test = "proxies::a_network_error_names_the_proxy_without_its_password";
    in_process(test, &variables, async {
        let err = ask(&anthropic("http://model.invalid")).await.expect_err("nobody is there");
        assert_eq!(err.kind(), ErrorKind::Connect, "{err:?}");
        let said = format!("{err} {err:?}");
        assert!(said.contains("through the proxy `127.0.0.1:9`"), "{said}");
        assert_eq!(err.url(), Some("http://model.invalid/v1/messages"));
        assert!(!said.contains("pass-word") && !said.contains("zoe9"), "{said}");

        let tools = McpServer::url("http://tools.invalid/mcp").name("it").connect().await;
        let said = tools.expect_err("nobody is there").to_string();
        assert!(said.contains("through the proxy `127.0.0.1:9`"), "{said}");
        assert!(!said.contains("pass-word") && !said.contains("zoe9"), "{said}");

        // An exception with a port is one.
        let err = ask(&anthropic("http://direct.invalid")).await.expect_err("no such name");
        assert!(!err.to_string().contains("proxy"), "{err}");
        let err = ask(&anthropic("http://direct.invalid:81")).await.expect_err("nobody is there");
        assert!(err.to_string().contains("through the proxy `127.0.0.1:9`"), "{err}");
    });
}

#[test]
fn other_addresses_go_through_the_proxy_with_its_password() {
    let (address, heard) = match env::var(CHILD) {
        Ok(_) => (String::new(), channel().1),
        Err(_) => proxy(),
    };
    let url = format!("http://ann:pass%40%2541@{address}");
    let test = "proxies::other_addresses_go_through_the_proxy_with_its_password";
    in_process(test, &[("http_proxy", &url)], async {
        let err = ask(&anthropic("http://model.invalid")).await.expect_err("the proxy refuses");
        assert_eq!(err.status(), Some(502), "{err:?}");
        assert!(err.to_string().contains("through the proxy `127.0.0.1:"), "{err}");
        let tools = McpServer::url("http://tools.invalid/mcp").name("it").connect().await;
        let said = tools.expect_err("the proxy refuses").to_string();
        assert!(said.contains("through the proxy `127.0.0.1:"), "{said}");
    });
    if env::var(CHILD).is_err() {
        for target in ["POST http://model.invalid/v1/messages ", "POST http://tools.invalid/mcp "] {
            let head = heard.recv().expect("a request");
            assert!(head.starts_with(target), "{head}");
            let head = head.to_ascii_lowercase();
            // `ann:pass@%41`
            assert!(head.contains("proxy-authorization: basic yw5uonbhc3najtqx"), "{head}");
        }
    }
}

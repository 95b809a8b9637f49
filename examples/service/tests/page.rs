//! The page, and the JavaScript that is shipped with it.

use std::{fs, path::Path, process::Command};

use hmac_sha256::Hash as Sha256;
use reqwest::StatusCode;

use crate::{Chunks, Service};

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere() {
    let service = Service::start();
    let page = service.get("/").await;
    let policy = page.headers()["content-security-policy"].to_str().expect("a text").to_owned();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let page = page.text().await.expect("a page");
    assert!(!page.contains("http"), "{page}");
    for name in ["page.css", "page.js", "conversation.js", "marked.esm.js", "purify.es.mjs"] {
        let response = service.get(&format!("/page/{name}")).await;
        assert_eq!(response.status(), StatusCode::OK, "{name}");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    }
    for name in ["../main.rs", "..%2Fmain.rs", "shipped", ""] {
        let response = service.get(&format!("/page/{name}")).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{name}");
    }
}

#[test]
fn what_is_shipped_is_what_its_list_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page/shipped");
    let list = fs::read_to_string(folder.join("README.md")).expect("a list");
    let mut scripts = 0;
    for entry in fs::read_dir(&folder).expect("a folder") {
        let name = entry.expect("a file").file_name().into_string().expect("a name");
        if name == "README.md" {
            continue;
        }
        assert!(list.contains(&format!("`{name}`")), "{name}");
        if name.ends_with("js") {
            let hash = Sha256::hash(&fs::read(folder.join(&name)).expect("a file"));
            let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(list.contains(&hash), "{name} has {hash}");
            scripts += 1;
        }
    }
    assert_eq!(scripts, 2);
}

#[tokio::test]
async fn each_conversation_has_its_trace() {
    let service = Service::start();
    Chunks::of(service.say("a", "weather in Oslo").await).until("finish").await;
    Chunks::of(service.say("b", "weather in Bergen").await).until("finish").await;
    let response = loop {
        // Lines are written a little later.
        let response = service.get("/api/chat/a/trace").await;
        assert_eq!(response.status(), StatusCode::OK);
        assert!(
            response.headers()["content-security-policy"].to_str().unwrap().contains("sandbox")
        );
        let page = response.text().await.expect("a page");
        if page.contains("Oslo") {
            break page;
        }
    };
    assert!(!response.contains("Bergen"), "{response}");
}

/// Needs Chromium and, in the folder of `HARNESS_WEB_NPM`, the packages `puppeteer-core` and `axe-core`.
#[test]
fn the_page_works_in_a_browser() {
    let Some(npm) = std::env::var_os("HARNESS_WEB_NPM") else {
        eprintln!("skipped: `HARNESS_WEB_NPM` names no folder with the package `puppeteer-core`");
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser.mjs");
    let mut node = Command::new("node");
    node.arg(script).arg(npm).arg(env!("CARGO_BIN_EXE_service")).env_remove("PROVIDER");
    match node.output() {
        Err(error) => eprintln!("skipped: node does not start: {error}"),
        Ok(output) => {
            let out = String::from_utf8_lossy(&output.stdout);
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{out}{err}");
            eprintln!("{out}");
        }
    }
}

#[test]
fn the_code_of_the_service_has_fewer_than_600_lines() {
    let sources = ["main.rs", "handlers.rs", "access.rs", "limits.rs", "model.rs"].map(|name| {
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect("a file")
    });
    let lines = sources.iter().flat_map(|text| text.lines()).map(str::trim);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count();
    assert!(code < 600, "{code} lines");
}

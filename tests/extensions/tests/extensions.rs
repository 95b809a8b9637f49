//! The extensions in whole programs, beside the front door.

use std::sync::Arc;

use extensions::{
    journal::FolderJournal,
    provider::LineProvider,
    toolkit::{Notes, count_words},
};
use harness::{Agent, testing::journal_conformance, tools};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
};

#[tokio::test]
async fn a_journal_that_knows_the_core_alone_keeps_all_promises() {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = FolderJournal::open(folder.path()).expect("a journal");
    let report = journal_conformance(async || Ok(journal.clone())).await;
    report.assert_kept();
    assert!(report.kept().len() > 20, "{report}");
}

/// A model that adds a note and counts the words of the result. Returns its address and what it was asked.
async fn model() -> (String, tokio::task::JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let answers = [
        vec![
            json!({"text": "I write it down."}),
            json!({"call": {"id": "a", "name": "add_note", "arguments": {"note": "milk and bread"}}}),
        ],
        vec![
            json!({"call": {"id": "b", "name": "count_words", "arguments": {"text": "milk and bread"}}}),
        ],
        vec![json!({"text": "Three "}), json!({"text": "words."})],
        vec![json!({"call": {"id": "c", "name": "list_notes", "arguments": {}}})],
        vec![json!({"text": "Milk and bread."})],
    ];
    let served = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in answers {
            let (stream, _) = listener.accept().await.expect("a client");
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            stream.read_line(&mut line).await.expect("a request");
            asked.push(serde_json::from_str(&line).expect("JSON"));
            for piece in answer.into_iter().chain([json!({"end": {"input": 9, "output": 2}})]) {
                stream.write_all(format!("{piece}\n").as_bytes()).await.expect("sent");
            }
        }
        asked
    });
    (address, served)
}

#[tokio::test]
async fn a_provider_a_journal_and_tools_that_know_the_core_alone_make_an_agent() {
    let folder = tempfile::tempdir().expect("a folder");
    let (address, served) = model().await;
    let notes = Arc::new(Notes::default());
    let open = || Arc::new(FolderJournal::open(folder.path()).expect("a journal"));
    let agent = || {
        Agent::builder(LineProvider { address: address.clone() })
            .tools(tools![count_words])
            .tools(notes.tools())
            .build()
            .expect("an agent")
    };
    let mut chat = agent().open(&*open(), "shopping").await.expect("a conversation");
    let reply = chat.send("Note milk and bread.").await.expect("a reply");
    assert_eq!(reply.text(), "Three words.");
    drop(chat);
    // Another process would find the same in the folder.
    let mut chat = agent().open(&*open(), "shopping").await.expect("a conversation");
    let reply = chat.send("What is there?").await.expect("a reply");
    assert_eq!(reply.text(), "Milk and bread.");
    let asked = served.await.expect("a model");
    assert_eq!(asked[0]["tools"], json!(["count_words", "add_note", "list_notes"]));
    assert_eq!(asked[1]["messages"][2], json!({"results": ["There are 1 notes."]}));
    assert_eq!(asked[2]["messages"][4], json!({"results": ["3"]}));
    assert_eq!(asked[4]["messages"].as_array().map(Vec::len), Some(9));
}

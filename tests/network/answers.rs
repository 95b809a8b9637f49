//! Answers of a hostile model server, which go to their limits and beyond.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    thread,
};

use harness::{ChatCompletionsProvider, ErrorKind, OpenAIProvider, Provider, policy::RetryPolicy};

use super::{anthropic, ask, measured::needs_at_most};

/// A server that begins each answer with the first text and then writes the second one without end, with `N` in it as a
/// number that rises.
fn endless(begin: &'static str, again: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a number");
                }
                line.clear();
            }
            reader.read_exact(&mut vec![0; length]).expect("a body");
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let mut goes_on = stream.write_all(format!("{head}{begin}").as_bytes()).is_ok();
            let mut number = 1;
            while goes_on {
                let mut piece = String::new();
                while piece.len() < 1 << 16 {
                    piece.push_str(&again.replace("NUMBER", &number.to_string()));
                    number += 1;
                }
                goes_on = stream.write_all(piece.as_bytes()).is_ok();
            }
        }
    });
    url
}

async fn is_too_large(provider: &impl Provider, what: &str) {
    let err = ask(provider).await.expect_err(what);
    assert_eq!(err.kind(), ErrorKind::TooLarge, "{what}: {err:?}");
}

const BEGIN: &str = "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"m\",\"usage\":{\"input_tokens\":1}}}\n\n";
const TEXT: &str = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
const CALL: &str = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"n\",\"input\":{}}}\n\n";

#[test]
fn an_endless_answer_of_messages_needs_as_much_as_its_limit() {
    let test = "answers::an_endless_answer_of_messages_needs_as_much_as_its_limit";
    needs_at_most(300, test, async {
        let long = "la ".repeat(1 << 14);
        let word = |text: &str| {
            format!(
                "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
            )
        };
        let argument = "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"[[[[[[[[\"}}\n\n";
        let blocks = "data: {\"type\":\"content_block_start\",\"index\":NUMBER,\"content_block\":{\"type\":\"text\",\"text\":\"x\"}}\n\ndata: {\"type\":\"content_block_stop\",\"index\":NUMBER}\n\n";
        for (what, begin, again) in [
            ("long texts", format!("{BEGIN}{TEXT}"), word(&long)),
            (
                "short texts",
                format!("{BEGIN}{TEXT}"),
                word("la la la la la la la la la la la la la la la la"),
            ),
            ("arguments", format!("{BEGIN}{CALL}"), argument.to_owned()),
            ("blocks", BEGIN.to_owned(), blocks.to_owned()),
            ("one event", format!("{BEGIN}data: "), "x".repeat(1 << 16)),
            ("one event of many lines", BEGIN.to_owned(), "data: x\n".to_owned()),
        ] {
            is_too_large(&anthropic(&endless(begin.leak(), again.leak())), what).await;
        }
    });
}

#[test]
fn an_endless_answer_of_responses_needs_as_much_as_its_limit() {
    let test = "answers::an_endless_answer_of_responses_needs_as_much_as_its_limit";
    needs_at_most(300, test, async {
        let begin = "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"model\":\"m\"}}\n\n\
            data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"message\",\"id\":\"i\",\"role\":\"assistant\",\"content\":[]}}\n\n";
        let text = format!(
            "data: {{\"type\":\"response.output_text.delta\",\"item_id\":\"i\",\"output_index\":0,\"content_index\":0,\"delta\":\"{}\"}}\n\n",
            "la ".repeat(1 << 10)
        );
        let items = "data: {\"type\":\"response.output_item.added\",\"output_index\":NUMBER,\"item\":{\"type\":\"function_call\",\"id\":\"fNUMBER\",\"call_id\":\"cNUMBER\",\"name\":\"n\",\"arguments\":\"\"}}\n\n";
        for (what, again) in [("texts", text), ("items", items.to_owned())] {
            let provider =
                OpenAIProvider::builder().api_key("k").base_url(endless(begin, again.leak()));
            let provider = provider.build().expect("a provider").with_retry(RetryPolicy::none());
            is_too_large(&provider, what).await;
        }
    });
}

#[test]
fn an_endless_answer_of_chat_completions_needs_as_much_as_its_limit() {
    let test = "answers::an_endless_answer_of_chat_completions_needs_as_much_as_its_limit";
    needs_at_most(300, test, async {
        let delta = |delta: &str| {
            format!(
                "data: {{\"id\":\"c\",\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{{delta}}}}}]}}\n\n"
            )
        };
        for (what, again) in [
            ("texts", format!("\"content\":\"{}\"", "la ".repeat(1 << 10))),
            ("thoughts", format!("\"reasoning_content\":\"{}\"", "la ".repeat(1 << 10))),
            ("calls", "\"tool_calls\":[{\"index\":NUMBER,\"id\":\"cNUMBER\",\"type\":\"function\",\"function\":{\"name\":\"n\",\"arguments\":\"\"}}]".to_owned()),
            ("arguments", "\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"n\",\"arguments\":\"[[[[[[[[[[[[\"}}]".to_owned()),
        ] {
            let url = endless("", delta(&again).leak());
            let provider = ChatCompletionsProvider::builder().api_key("k").base_url(url).model("m");
            let provider = provider.build().expect("a provider").with_retry(RetryPolicy::none());
            is_too_large(&provider, what).await;
        }
    });
}

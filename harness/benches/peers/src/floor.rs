//! The floor: what the work costs without a library. Each step adds one thing.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memmem};
use serde::Deserialize;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{Failure, Task, server};

/// The question that every program asks, near enough.
const QUESTION: &str =
    r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"Speak."}]}"#;

pub fn path(wire: &str) -> &'static str {
    match wire {
        "anthropic" => "/v1/messages",
        "responses" => "/v1/responses",
        _ => "/v1/chat/completions",
    }
}

pub fn reader(subject: &str, wire: &str, address: &str) -> Result<Task, Failure> {
    let (wire, address) = (wire.to_owned(), address.to_owned());
    if subject == "tcp read" {
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n{QUESTION}",
            path(&wire),
            QUESTION.len()
        );
        let (mut socket, mut buffer) = (None, Vec::new());
        return Ok(Box::new(move |runtime| {
            runtime.block_on(async {
                if socket.is_none() {
                    socket = Some(TcpStream::connect(&address).await?);
                }
                let socket = socket.as_mut().ok_or("no socket")?;
                socket.write_all(head.as_bytes()).await?;
                server::read_answer(socket, &mut buffer).await?;
                Ok(0)
            })
        }));
    }
    let client = reqwest::Client::builder().build()?;
    let url = format!("http://{address}{}", path(&wire));
    let subject = subject.to_owned();
    Ok(Box::new(move |runtime| {
        runtime.block_on(async {
            let request = client.post(&url).header("content-type", "application/json");
            let mut response = request.body(QUESTION).send().await?;
            let mut lines = Lines::default();
            let mut text = String::new();
            while let Some(bytes) = response.chunk().await? {
                match subject.as_str() {
                    "http read" => {}
                    "floor" => lines.push(&bytes, |data| scan(&wire, data, &mut text))?,
                    _ => lines.push(&bytes, |data| flat(&wire, data, &mut text))?,
                }
            }
            Ok(text.len())
        })
    }))
}

/// Splits bytes into the data of events.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    fn push(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        while let Some(at) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(at);
            bytes = rest.get(1..).unwrap_or_default();
            if self.rest.is_empty() {
                if let Some(data) = line.strip_prefix(b"data: ") {
                    each(data)?;
                }
            } else {
                self.rest.extend_from_slice(line);
                if let Some(data) = self.rest.strip_prefix(b"data: ") {
                    each(data)?;
                }
                self.rest.clear();
            }
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }
}

/// Looks for the one field that is needed, and for nothing else.
fn scan(wire: &str, data: &[u8], text: &mut String) -> Result<(), Failure> {
    let (kind, field): (&[u8], &[u8]) = match wire {
        "anthropic" => (br#"{"type":"content_block_delta""#, br#""text":""#),
        "responses" => (br#"{"type":"response.output_text.delta""#, br#""delta":""#),
        _ => (b"{", br#""delta":{"content":""#),
    };
    if !data.starts_with(kind) {
        return Ok(());
    }
    let Some(at) = memmem::find(data, field) else { return Ok(()) };
    let mut rest = data.get(at + field.len()..).unwrap_or_default();
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        text.push_str(std::str::from_utf8(rest.get(..at).unwrap_or_default())?);
        if rest.get(at) == Some(&b'"') {
            break;
        }
        text.push(match rest.get(at + 1) {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(other) => char::from(*other),
            None => break,
        });
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    Ok(())
}

#[derive(Deserialize)]
struct Anthropic<'a> {
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, alias = "content")]
    text: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Responses<'a> {
    #[serde(borrow)]
    delta: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Chat<'a> {
    #[serde(borrow)]
    choices: Vec<Anthropic<'a>>,
}

/// Reads the event into flat structs that borrow.
fn flat(wire: &str, data: &[u8], text: &mut String) -> Result<(), Failure> {
    match wire {
        "anthropic" => {
            let event: Anthropic<'_> = serde_json::from_slice(data)?;
            text.push_str(&event.delta.and_then(|delta| delta.text).unwrap_or_default());
        }
        "responses" => {
            let event: Responses<'_> = serde_json::from_slice(data)?;
            text.push_str(&event.delta.unwrap_or_default());
        }
        _ if data == b"[DONE]" => {}
        _ => {
            let chunk: Chat<'_> = serde_json::from_slice(data)?;
            for choice in chunk.choices {
                text.push_str(&choice.delta.and_then(|delta| delta.text).unwrap_or_default());
            }
        }
    }
    Ok(())
}

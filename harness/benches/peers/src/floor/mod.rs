//! The floor: the cost of the work without a library. Each step adds one part of the work.

mod flat;
mod scan;

use std::sync::Arc;

use bytes::Bytes;
use memchr::memchr;
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::Mutex};

use crate::{
    server,
    subject::{Failure, History, Task},
};

/// A request that is similar to the request of every subject.
const QUESTION: &str = r#"{"model":"m","stream":true,"messages":[{"role":"system","content":"Be concise."},{"role":"user","content":"Go on."}],"tools":[{"type":"function","function":{"name":"weather","description":"Says how warm it is somewhere.","parameters":{"type":"object","properties":{"city":{"type":"string","description":"Such as `Oslo`"}},"required":["city"],"additionalProperties":false}}},{"type":"function","function":{"name":"send","description":"Sends a letter.","parameters":{"type":"object","properties":{"to":{"type":"string","description":"Whom to"},"text":{"type":"string","description":"What it says"}},"required":["to","text"],"additionalProperties":false}}}]}"#;

/// The second request of a turn. It contains the result of a tool, which the server looks for.
const SECOND: &str = r#"{"model":"m","stream":true,"messages":[{"role":"tool","tool_call_id":"call_Zr1","content":"It rains in Tromsø."}]}"#;

fn path(wire: &str) -> &'static str {
    match wire {
        "anthropic" => "/v1/messages",
        "responses" => "/v1/responses",
        _ => "/v1/chat/completions",
    }
}

pub fn task(subject: &str, wire: &str, history: History, base: &str) -> Result<Task, Failure> {
    if subject == "tcp read" {
        return tcp(wire, base);
    }
    // The body has as many bytes as the messages of the conversation.
    let body = match history.0 {
        0 => Bytes::from_static(QUESTION.as_bytes()),
        messages => Bytes::from(vec![b'x'; messages * history.size()]),
    };
    if subject == "memcpy" {
        return Ok(Box::new(move || {
            std::hint::black_box(std::hint::black_box(&body).to_vec());
            Box::pin(async { Ok(String::new()) })
        }));
    }
    let client = reqwest::Client::builder().build()?;
    let url = format!("{base}{}", path(wire));
    let step = Step::of(subject)?;
    let wire = crate::subject::WIRES.into_iter().find(|known| *known == wire).unwrap_or("chat");
    Ok(Box::new(move || {
        let request = client.post(&url).header("content-type", "application/json");
        let request = request.body(body.clone());
        Box::pin(async move {
            let mut response = request.send().await?;
            let mut lines = Lines::default();
            let mut text = String::new();
            while let Some(bytes) = response.chunk().await? {
                step.read(wire, &mut lines, &bytes, &mut text)?;
            }
            Ok(text)
        })
    }))
}

/// Sends the two requests of a turn with prepared bytes, and reads the text of the second answer.
pub fn turn(subject: &str, wire: &str, base: &str) -> Result<Task, Failure> {
    let step = Step::of(subject)?;
    let client = reqwest::Client::builder().build()?;
    let url = format!("{base}{}", path(wire));
    let wire = crate::subject::WIRES.into_iter().find(|known| *known == wire).unwrap_or("chat");
    // The bodies have about the same length as the bodies of the other subjects.
    let first = Bytes::from(QUESTION.to_owned() + &" ".repeat(600));
    let second = Bytes::from(SECOND.to_owned() + &" ".repeat(800));
    Ok(Box::new(move || {
        let (client, url) = (client.clone(), url.clone());
        let bodies = [first.clone(), second.clone()];
        Box::pin(async move {
            let mut text = String::new();
            for body in bodies {
                let request = client.post(&url).header("content-type", "application/json");
                let mut response = request.body(body).send().await?;
                let mut lines = Lines::default();
                text.clear();
                while let Some(bytes) = response.chunk().await? {
                    step.read(wire, &mut lines, &bytes, &mut text)?;
                }
            }
            Ok(text)
        })
    }))
}

/// Reads only the bytes of the answer. All requests use one connection.
fn tcp(wire: &str, base: &str) -> Result<Task, Failure> {
    let address = base.strip_prefix("http://").ok_or("no address")?.to_owned();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n{QUESTION}",
        path(wire),
        QUESTION.len()
    );
    let shared = Arc::new((head, Mutex::new((None, Vec::new()))));
    Ok(Box::new(move || {
        let (shared, address) = (Arc::clone(&shared), address.clone());
        Box::pin(async move {
            let (head, connection) = &*shared;
            let (socket, buffer) = &mut *connection.lock().await;
            if socket.is_none() {
                *socket = Some(TcpStream::connect(&address).await?);
            }
            let socket = socket.as_mut().ok_or("no socket")?;
            socket.write_all(head.as_bytes()).await?;
            server::read_answer(socket, buffer).await?;
            Ok(String::new())
        })
    }))
}

/// The processing of received bytes.
#[derive(Clone, Copy)]
enum Step {
    Nothing,
    Split,
    Shortcut,
    Scan,
    Flat,
}

impl Step {
    fn of(subject: &str) -> Result<Self, Failure> {
        match subject {
            "http read" | "ready bytes" => Ok(Self::Nothing),
            "split" => Ok(Self::Split),
            "shortcut" => Ok(Self::Shortcut),
            "floor" => Ok(Self::Scan),
            "flat struct" => Ok(Self::Flat),
            other => Err(format!("no subject is called `{other}`").into()),
        }
    }

    /// Processes the bytes, and appends the text of the events to `text`.
    fn read(
        self,
        wire: &str,
        lines: &mut Lines,
        bytes: &[u8],
        text: &mut String,
    ) -> Result<(), Failure> {
        match self {
            Self::Nothing => Ok(()),
            Self::Split => lines.push(bytes, |data| {
                std::hint::black_box(data);
                Ok(())
            }),
            Self::Shortcut => lines.push(bytes, |data| scan::shortcut(wire, data, text)),
            Self::Scan => lines.push(bytes, |data| scan::scan(wire, data, text)),
            Self::Flat => lines.push(bytes, |data| flat::flat(wire, data, text)),
        }
    }
}

/// The text of a whole body. Every subject must return this text.
pub fn text(wire: &str, body: &str) -> Result<String, Failure> {
    let mut text = String::new();
    Step::Flat.read(wire, &mut Lines::default(), body.as_bytes(), &mut text)?;
    Ok(text)
}

/// Splits bytes into lines, and extracts the data of the events.
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

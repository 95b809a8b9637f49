//! A provider for a model behind a line protocol: one JSON object a request, one a piece of the answer.

use futures_util::stream;
use harness_core::{
    error::{Error, ErrorKind},
    message::Role,
    provider::{EventStream, Provider, Request, StopReason, StreamEvent, Usage},
};
use serde::Deserialize;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{TcpStream, tcp::OwnedReadHalf},
};

/// Asks the model at this address.
#[derive(Debug)]
pub struct LineProvider {
    /// Such as `127.0.0.1:7000`.
    pub address: String,
}

/// A piece of an answer.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Piece {
    Text(String),
    Call { id: String, name: String, arguments: serde_json::Value },
    End { input: u64, output: u64 },
}

/// The connection, and what has been read of one answer.
struct Answer {
    lines: Lines<BufReader<OwnedReadHalf>>,
    waiting: Vec<StreamEvent>,
    blocks: u32,
    calls: bool,
}

impl Answer {
    async fn open(address: &str, body: &str) -> Result<Self, Error> {
        let failed =
            |err| Error::new(ErrorKind::Connect, "the model cannot be asked").with_source(err);
        let (read, mut write) = TcpStream::connect(address).await.map_err(failed)?.into_split();
        write.write_all(body.as_bytes()).await.map_err(failed)?;
        let lines = BufReader::new(read).lines();
        Ok(Self { lines, waiting: Vec::new(), blocks: 0, calls: false })
    }

    /// The next event. `None` behind the last one, and if the connection ends before: the loop then knows that the answer was
    /// cut off.
    async fn next(&mut self) -> Result<Option<StreamEvent>, Error> {
        if let Some(event) = self.waiting.pop() {
            return Ok(Some(event));
        }
        let unreadable = |err| {
            Error::new(ErrorKind::Protocol, "the model answers in another way").with_source(err)
        };
        let Some(line) = self.lines.next_line().await.map_err(|err| {
            Error::new(ErrorKind::CutOff, "the answer was cut off").with_source(err)
        })?
        else {
            return Ok(None);
        };
        let block = self.blocks;
        Ok(Some(match serde_json::from_str(&line).map_err(unreadable)? {
            Piece::Text(text) => StreamEvent::TextDelta { block, text },
            Piece::Call { id, name, arguments } => {
                self.blocks += 2;
                self.calls = true;
                let block = block + 1;
                let json = arguments.to_string();
                self.waiting = vec![
                    StreamEvent::ToolCallEnd { block },
                    StreamEvent::ToolCallDelta { block, json },
                ];
                StreamEvent::ToolCallStart { block, id, name }
            }
            Piece::End { input, output } => {
                let usage = Usage { input: Some(input), output: Some(output), ..Usage::default() };
                let stop = if self.calls { StopReason::ToolCalls } else { StopReason::Complete };
                StreamEvent::Completed { stop, usage: Box::new(usage) }
            }
        }))
    }
}

impl Provider for LineProvider {
    fn name(&self) -> &str {
        "lines"
    }

    fn model(&self) -> &str {
        "lines-1"
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        let said = request.messages().iter().map(|message| match message.role() {
            Role::Tool => {
                json!({"results": message.results().map(|it| it.as_text()).collect::<Vec<_>>()})
            }
            role => json!({"role": format!("{role:?}"), "text": message.text()}),
        });
        let tools: Vec<_> = request.tools().iter().map(|tool| &*tool.name).collect();
        let body = json!({"messages": said.collect::<Vec<_>>(), "tools": tools}).to_string() + "\n";
        Box::pin(stream::try_unfold(None, move |answer: Option<Answer>| {
            let body = body.clone();
            async move {
                let mut answer = match answer {
                    Some(answer) => answer,
                    None => Answer::open(&self.address, &body).await?,
                };
                Ok(answer.next().await?.map(|event| (event, Some(answer))))
            }
        }))
    }
}

//! Sends and receives messages over pipes, one message on each line.

use std::{future::Future, io, pin::Pin, sync::Arc};

use rmcp::{
    ErrorData, RoleServer,
    model::{ClientJsonRpcMessage, JsonRpcError, JsonRpcMessage, ServerJsonRpcMessage},
    transport::Transport,
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::Mutex,
};

use harness_core::message::{MAX_VALUES, count_values, is_strict};

/// The connection to a client over two pipes. A line that is no message gets an error as its answer.
pub(super) struct PipeTransport<R, W> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// The maximum length of a line, in bytes.
    most: usize,
    /// Whether the current line is longer than `most`. The rest of the line is not stored.
    is_long: bool,
    write: Arc<Mutex<Option<W>>>,
    /// The pending answer to a line that was no message. The answer is stored here, because `receive` may be cancelled
    /// at any time.
    refusal: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send>>>,
}

impl<R, W> PipeTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(read: R, write: W, most: usize) -> Self {
        let write = Arc::new(Mutex::new(Some(write)));
        let read = BufReader::new(read);
        Self { read, line: Vec::new(), most, is_long: false, write, refusal: None }
    }

    /// Reads to the end of a line. A cancelled read is continued where it stopped. `None` at the end of the pipe: a
    /// line without its end is incomplete and is dropped.
    async fn fill(&mut self) -> Option<()> {
        loop {
            // A read error ends the input.
            let read = self.read.fill_buf().await.ok().filter(|read| !read.is_empty())?;
            let end = read.iter().position(|byte| *byte == b'\n');
            let part = read.get(..end.unwrap_or(read.len())).unwrap_or_default();
            if self.line.len().saturating_add(part.len()) > self.most {
                self.is_long = true;
                self.line = Vec::new();
            }
            if !self.is_long {
                self.line.extend_from_slice(part);
            }
            let taken = part.len().saturating_add(usize::from(end.is_some()));
            self.read.consume(taken);
            if end.is_some() {
                return Some(());
            }
        }
    }

    /// The message in the line that was read, or the error to send. `None` for an empty line.
    fn message(&mut self) -> Result<Option<ClientJsonRpcMessage>, Box<JsonRpcError>> {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_long) {
            let why = format!("nothing was run: the line has more than {} bytes", self.most);
            return Err(Box::new(JsonRpcError::new(None, ErrorData::invalid_request(why, None))));
        }
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line).trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        too_many(line)?;
        if let Some(refused) = ambiguous(line) {
            return Err(refused);
        }
        match serde_json::from_slice(line) {
            Ok(message) => Ok(Some(message)),
            Err(_) => refused(line).map_or(Ok(None), Err),
        }
    }

    async fn write(write: Arc<Mutex<Option<W>>>, message: ServerJsonRpcMessage) -> io::Result<()> {
        let mut line = serde_json::to_vec(&message)?;
        line.push(b'\n');
        let mut write = write.lock().await;
        let write = write.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        write.write_all(&line).await?;
        write.flush().await
    }
}

impl<R, W> Transport<RoleServer> for PipeTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        Self::write(Arc::clone(&self.write), message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(refusal) = &mut self.refusal {
                let sent = refusal.await;
                self.refusal = None;
                sent.ok()?;
            }
            self.fill().await?;
            match self.message() {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(refused) => {
                    self.refusal = Some(Box::pin(self.send(JsonRpcMessage::Error(*refused))));
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        drop(self.write.lock().await.take());
        Ok(())
    }
}

/// The number of values in a message, or the error that answers a message with too many values.
pub(super) fn too_many(bytes: &[u8]) -> Result<usize, Box<JsonRpcError>> {
    let values = count_values(bytes);
    if values <= MAX_VALUES {
        return Ok(values);
    }
    let why = format!(
        "nothing was run: the message has more than {MAX_VALUES} values; send less at once"
    );
    Err(Box::new(JsonRpcError::new(None, ErrorData::invalid_request(why, None))))
}

/// The error response to an ambiguous request, which JSON parsers may read in different ways. Agents also refuse
/// ambiguous arguments.
pub(super) fn ambiguous(bytes: &[u8]) -> Option<Box<JsonRpcError>> {
    if std::str::from_utf8(bytes).is_ok_and(is_strict) {
        return None;
    }
    // `refused` creates the error for text that is no JSON.
    let said: Value = serde_json::from_slice(bytes).ok()?;
    said.get("method")?;
    let id = serde_json::from_value(said.get("id")?.clone()).ok()?;
    let why = "nothing was run: an object in the request names a member twice, or the request is nested deeper than 100 \
               levels";
    Some(Box::new(JsonRpcError::new(Some(id), ErrorData::invalid_request(why, None))))
}

/// The error response to bytes that are no message; `None` for a notification, which gets no response. If the id of the
/// message can be read, the error has the same id
/// (<https://modelcontextprotocol.io/specification/2025-11-25/schema#jsonrpcerrorresponse>).
pub(super) fn refused(bytes: &[u8]) -> Option<Box<JsonRpcError>> {
    let said: Value = match serde_json::from_slice(bytes) {
        Ok(said) => said,
        Err(err) => {
            let why = format!("nothing was run: this is not JSON: {err}");
            return Some(Box::new(JsonRpcError::new(None, ErrorData::parse_error(why, None))));
        }
    };
    if said.get("method").is_some_and(Value::is_string) && said.get("id").is_none() {
        return None;
    }
    let id = said.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
    let why = match said {
        Value::Array(_) => "several messages in one are not part of the protocol",
        _ => "this is not a message of JSON-RPC 2.0",
    };
    let why = ErrorData::invalid_request(format!("nothing was run: {why}"), None);
    Some(Box::new(JsonRpcError::new(id, why)))
}

//! The tool `read_result`, with which a model reads the rest of a result that was cut.

use serde_json::{Map, Value};

use super::{
    call_of, is_name,
    read::{SpillExcerpt, bytes, lines, search},
};
use crate::{
    error::Error,
    tool::{SideEffect, SideEffects, Tool, ToolContext, ToolError, ToolOutput},
};

/// The name of the tool. No other tool may have this name while large results are kept.
#[doc(hidden)]
pub const READ_RESULT: &str = "read_result";

const DESCRIPTION: &str = "Reads what was cut of a result of this conversation, or left out of the arguments of a call. \
                           The note there says by which name the whole is kept. Give one of `line`, `byte` and `search`.";

/// The number of bytes that are reserved for the line above the text.
const SAID: usize = 200;

/// A text, because the code of a large `json!` is long.
const SCHEMA: &str = r#"{
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name in the note, such as r-0123456789abcdef"},
        "line": {"type": "integer", "minimum": 1, "description": "The first line to read, from 1 on"},
        "lines": {
            "type": "integer", "minimum": 1,
            "description": "How many lines to read; as many as there is room for unless set"
        },
        "byte": {"type": "integer", "minimum": 0, "description": "The first byte to read, from 0 on"},
        "bytes": {
            "type": "integer", "minimum": 1,
            "description": "How many bytes to read; as many as there is room for unless set"
        },
        "search": {
            "type": "string", "minLength": 1, "maxLength": 1000,
            "description": "The exact text to look for; each hit is listed with its line and byte"
        }
    },
    "required": ["name"]
}"#;

/// Creates the tool `read_result`, which reads only results and arguments of the call's own conversation.
pub(crate) fn read_result() -> Tool {
    let schema = serde_json::from_str(SCHEMA).unwrap_or_default();
    let effects = SideEffects::of(&[SideEffect::Read]);
    Tool::new(READ_RESULT, DESCRIPTION, schema, effects, |context, arguments| {
        Box::pin(async move { answer(&context, &arguments).await })
    })
}

async fn answer(
    context: &ToolContext,
    arguments: &Map<String, Value>,
) -> Result<ToolOutput, ToolError> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let number = |name: &str| arguments.get(name).and_then(Value::as_u64);
    let name = text("name").unwrap_or_default();
    let Some(spills) = context.spills() else {
        return Err(ToolError::new("no results are kept whole here, so none can be read"));
    };
    let unknown = || {
        ToolError::new(
            "no result of this conversation is kept by that name. A name stands in the note where a result \
             was cut, such as r-0123456789abcdef; those of other conversations cannot be read here",
        )
    };
    if !is_name(name) && call_of(name).is_none() {
        return Err(unknown());
    }
    let room = spills.limit().saturating_sub(SAID).max(spills.limit() / 2);
    let within = |wanted: Option<u64>| {
        wanted.map_or(room, |wanted| usize::try_from(wanted).unwrap_or(room).min(room))
    };
    let read = match (number("line"), number("byte"), text("search")) {
        (Some(_), Some(_), _) | (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
            return Err(ToolError::new("give only one of `line`, `byte` and `search`"));
        }
        (_, _, Some(wanted)) => search(spills, name, wanted, room).await,
        (_, Some(from), _) => bytes(spills, name, from, within(number("bytes"))).await,
        (line, None, None) => match number("bytes") {
            Some(count) if line.is_none() => bytes(spills, name, 0, within(Some(count))).await,
            _ => {
                let most = number("lines").unwrap_or(u64::MAX);
                lines(spills, name, line.unwrap_or(1), most, room).await
            }
        },
    };
    match read.map_err(cannot)? {
        Some(SpillExcerpt { head, text }) => Ok(format!("[{head}]\n{text}").into()),
        None => Err(unknown()),
    }
}

fn cannot(err: Error) -> ToolError {
    ToolError::new(format!("the result cannot be read now: {err}"))
}

// What the fixtures in `pass/` share: each includes this file. It names everything by its full
// path, for fixtures shadow names on purpose.

#[allow(dead_code, reason = "not every fixture calls its tool")]
async fn said(
    tool: &harness::Tool,
    context: &harness::ToolContext,
    arguments: &str,
    expected: &str,
) {
    use harness::ToolContent::{Image, Json, Text};
    let arguments = serde_json::from_str(arguments).unwrap();
    let said = match tool.call(context, arguments).await {
        std::result::Result::Ok(output) => match output.content() {
            [] => std::string::String::from("nothing"),
            [Text(text)] => format!("text {text}"),
            [Json(value)] => format!("json {value}"),
            [Image(media)] => format!("image {}", media.mime().unwrap_or_default()),
            several => format!("{several:?}"),
        },
        std::result::Result::Err(harness::ToolError::BadArguments(_)) => "bad".to_owned(),
        std::result::Result::Err(err) => format!("failed {err}"),
    };
    std::assert_eq!(said, expected);
}

#[allow(dead_code, reason = "not every fixture looks at its schema")]
fn schema(tool: &harness::Tool, pointer: &str, expected: &str) {
    let found = tool.input_schema().pointer(pointer);
    let found = found.map_or_else(|| "absent".to_owned(), |found| found.to_string());
    std::assert_eq!(found, expected, "{pointer}");
}

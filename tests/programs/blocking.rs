//! Conversations of a program without a runtime.

use harness::{
    Agent,
    testing::{ScriptedProvider, reply},
};

fn agent() -> Agent {
    let model = ScriptedProvider::new([reply().text("Noted."), reply().text("It is 42.")]);
    Agent::builder(model).build().expect("an agent")
}

#[test]
fn a_conversation_goes_on_from_one_blocking_message_to_the_next() {
    let mut chat = agent().chat();
    assert_eq!(chat.send_blocking("My number is 42.").expect("an answer").text(), "Noted.");
    assert_eq!(chat.send_blocking("What is it?").expect("an answer").text(), "It is 42.");
    assert_eq!(chat.transcript().messages().len(), 4);
    // The conversation can go on by both ways.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let ended = runtime.block_on(async { chat.send("More?").await });
    assert!(ended.is_err(), "the script is over");
}

#[tokio::test]
async fn inside_of_a_runtime_it_is_an_error_that_names_the_way_out_and_nothing_is_said() {
    let mut chat = agent().chat();
    let stopped = chat.send_blocking("My number is 42.").expect_err("it would block");
    let error = stopped.error().expect("an error");
    assert!(
        error.is_configuration() && error.to_string().contains("`chat.send(..).await`"),
        "{error}"
    );
    assert!(chat.transcript().messages().is_empty());
    assert_eq!(chat.send("My number is 42.").await.expect("an answer").text(), "Noted.");
}

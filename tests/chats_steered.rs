//! Messages that wait and that steer, in any order, with stops and ends at random: each is said once, or
//! refused.

use std::{env, time::Duration};

use fastrand::Rng;
use futures_util::StreamExt as _;
use harness::{
    Agent, ErrorKind,
    agent::{ChatRun, Chats, Event, WhenBusy},
    journal::MemoryJournal,
    testing::{ScriptedProvider, reply},
};
use tokio::{task::JoinSet, time::sleep};

/// How often a run has told that it begins with this message or has heard it, and whether the message was
/// refused.
async fn told(mut run: ChatRun, words: &str) -> (usize, bool) {
    let mut told = 0;
    let mut ended = 0;
    while let Some(numbered) = run.next().await {
        let said = match numbered.event.as_event() {
            Event::RunStarted { said } => said,
            Event::Steered { message } => Some(message),
            Event::RunEnded { .. } => {
                ended += 1;
                None
            }
            _ => None,
        };
        told += usize::from(said.is_some_and(|said| said.text() == words));
    }
    assert_eq!(ended, 1, "{words}: a run that ends once");
    let error = run.finish().await.err();
    let closed = error.as_ref().and_then(|stopped| stopped.error());
    (told, closed.is_some_and(|error| error.kind() == ErrorKind::Closed))
}

#[tokio::test(start_paused = true)]
async fn each_message_is_said_once_or_refused() {
    let seed = env::var("HARNESS_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(7);
    println!("HARNESS_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let (mut steered, mut kept, mut refused) = (0, 0, 0);
    for number in 0..300 {
        let model = ScriptedProvider::answering(|_| {
            reply().text("It is ").pause(Duration::from_millis(100)).text("so.")
        });
        let agent = Agent::builder(model).build().unwrap();
        let journal = MemoryJournal::new();
        let chats = Chats::builder(&agent, &journal).idle_after(Duration::from_millis(30));
        let chats = chats.most_idle(random.usize(0..2)).build();
        let mut runs = JoinSet::new();
        let mut steers = Vec::new();
        for at in 0..random.u32(2..8) {
            sleep(Duration::from_millis(random.u64(0..120))).await;
            let words = format!("{number}/{at}");
            let busy = if random.u8(0..3) == 0 { WhenBusy::Wait } else { WhenBusy::Steer };
            let run = chats.send("a", words.as_str()).when_busy(busy).await.unwrap();
            steers.push(busy == WhenBusy::Steer);
            runs.spawn(async move {
                let (told, refused) = told(run, &words).await;
                (words, told, refused)
            });
            if random.u8(0..4) == 0 {
                sleep(Duration::from_millis(random.u64(0..50))).await;
                chats.stop("a");
            }
        }
        match random.u8(0..3) {
            0 => chats.close().await,
            1 => drop(chats),
            _ => {
                sleep(Duration::from_secs(10)).await;
                assert!(!chats.is_busy("a"));
                assert_eq!(chats.open_conversations(), 0);
                chats.close().await;
            }
        }
        let ends = runs.join_all().await;
        let chat = agent.open(&journal, "a").await.unwrap();
        let said: Vec<String> =
            chat.transcript().messages().iter().map(|message| message.text()).collect();
        for (words, told, was_refused) in ends {
            let count = said.iter().filter(|said| **said == words).count();
            assert!(count <= 1 && told <= 1, "{words}: {said:?}");
            // What a task that was cut off had not written yet was told, and is lost with it.
            assert!(count <= told, "{words} was said and not told: {said:?}");
            assert!(told == 1 || was_refused, "{words} is lost: {said:?}");
            refused += usize::from(told == 0);
        }
        steered += steers.iter().filter(|steers| **steers).count();
        kept += said.len();
    }
    println!("{steered} to steer, {refused} refused, {kept} messages kept");
    assert!(steered > 300 && refused > 30);
}

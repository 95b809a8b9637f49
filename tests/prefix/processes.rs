//! The same lives in a file and in PostgreSQL: each program is a process of its own.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::{Command, Stdio},
    sync::Arc,
};

use harness::journal::SqliteJournal;
use serde::{Deserialize, Serialize};

use crate::random::{Counts, Life, Lives, Vendors, go_on, set};

/// The variable with the [`Task`] of a process.
const TASK: &str = "HARNESS_TASK";

/// How many lives take some seconds.
const FEW: u64 = 8;

/// The journal of a life.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Place {
    Sqlite(std::path::PathBuf),
    #[cfg(feature = "postgres")]
    Postgres {
        url: String,
        schema: String,
    },
}

/// What a process does.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    life: Life,
    place: Place,
    urls: [String; 2],
    /// The address of the server that tells what was counted.
    counts: String,
}

/// Asks the process that has the vendors.
fn counts(address: &str) -> Counts {
    let address = address.trim_start_matches("http://");
    let mut server = TcpStream::connect(address).unwrap();
    write!(server, "GET / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut said = String::new();
    server.read_to_string(&mut said).unwrap();
    let (from, to) = (said.find('{').unwrap(), said.rfind('}').unwrap());
    serde_json::from_str(&said[from..=to]).unwrap()
}

/// One program of a life, if this process was started for one.
#[tokio::test]
#[ignore = "the other tests start it"]
async fn program() {
    let Ok(task) = std::env::var(TASK) else { return };
    let Task { mut life, place, urls, counts: address } = serde_json::from_str(&task).unwrap();
    let counts = || std::future::ready(counts(&address));
    match place {
        Place::Sqlite(path) => {
            let journal = SqliteJournal::open(path).await.unwrap();
            go_on(&mut life, &journal, &urls, counts).await;
        }
        #[cfg(feature = "postgres")]
        Place::Postgres { url, schema } => {
            let journal = harness::journal::PostgresJournal::builder(url).schema(schema);
            go_on(&mut life, &journal.connect().await.unwrap(), &urls, counts).await;
        }
    }
    println!("> {}", serde_json::to_string(&life).unwrap());
}

fn next_program(task: &Task) -> Life {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "processes::program", "--ignored", "--nocapture"]);
    process.env(TASK, serde_json::to_string(task).unwrap()).stdin(Stdio::null());
    let ended = process.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    let life = said.lines().find_map(|line| line.split_once("> ")).map(|(_, life)| life);
    let failed = || panic!("{}\n{said}{}", task.life.story, String::from_utf8_lossy(&ended.stderr));
    serde_json::from_str(life.unwrap_or_else(failed)).unwrap()
}

async fn lives(place: Place) {
    let vendors = Arc::new(Vendors::start().await);
    let server = vendors.serve_counts().await;
    let (urls, mut lives) = (vendors.urls(), Lives::default());
    let first = set("HARNESS_LIFE").unwrap_or(0);
    for seed in first..first + set("HARNESS_PROCESS_LIVES").unwrap_or(FEW) {
        vendors.begin(seed);
        let mut life = Life::new(seed);
        for _ in 0..life.programs() {
            let (place, urls, counts) = (place.clone(), urls.clone(), server.url());
            let task = Task { life, place, urls, counts };
            life = tokio::task::spawn_blocking(move || next_program(&task)).await.unwrap();
        }
        lives.add(&life);
    }
    lives.end();
}

#[tokio::test]
async fn in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    lives(Place::Sqlite(folder.path().join("chats.db"))).await;
}

#[cfg(all(unix, feature = "postgres"))]
#[tokio::test]
async fn in_postgres() {
    let server = crate::server::server!();
    let (url, schema) = (server.socket("harness", "postgres"), crate::server::fresh("lives"));
    lives(Place::Postgres { url, schema }).await;
}

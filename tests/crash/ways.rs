//! A way to the server that loses requests, answers and connections, or delivers a request when nobody
//! waits for it any more, as a pooler or a network may.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use harness::{
    Error, ErrorKind,
    journal::{Journal, PostgresBuilder, PostgresJournal},
    testing::Gate,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixStream},
    sync::watch,
    task::JoinSet,
};

use crate::{
    races::{World, agent, goes_on, is_true},
    server::{Server, server},
};

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// It is lost with its connection.
    Request,
    /// It is done, and its answer is lost with the connection.
    Answer,
    /// The connection breaks, and the request is done when so many more have come.
    Later(u32),
    /// It is lost, and the connection stays.
    Swallowed,
    /// The connection stays, and the request is done when so many more have come.
    SwallowedForNow(u32),
}

const FAULTS: [Fault; 8] = [
    Fault::Request,
    Fault::Answer,
    Fault::Later(1),
    Fault::Later(2),
    Fault::Later(4),
    Fault::Later(9),
    Fault::Swallowed,
    Fault::SwallowedForNow(3),
];

/// The way to one server.
struct Way {
    port: u16,
    requests: watch::Receiver<u32>,
    _tasks: JoinSet<()>,
}

impl Way {
    /// The request of this number has this fault.
    async fn to(server: &Server, fault: Option<(u32, Fault)>) -> Self {
        let socket = server.folder.join(format!(".s.PGSQL.{}", server.port));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let (count, requests) = watch::channel(0);
        let count = Arc::new(count);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(carry(client, socket.clone(), Arc::clone(&count), fault));
            }
        });
        Self { port, requests, _tasks: tasks }
    }

    fn builder(&self) -> PostgresBuilder {
        let url = format!("postgres://harness@127.0.0.1:{}/postgres", self.port);
        let builder = PostgresJournal::builder(url).schema("ways").max_connections(2);
        // A request that is swallowed is waited for.
        builder.time_out(Duration::from_millis(400))
    }
}

async fn carry(
    mut client: TcpStream,
    socket: PathBuf,
    count: Arc<watch::Sender<u32>>,
    fault: Option<(u32, Fault)>,
) {
    let Ok(mut server) = UnixStream::connect(socket).await else { return };
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(length @ 1..) = read else { return };
                let mut number = 0;
                count.send_modify(|count| {
                    number = *count;
                    *count += 1;
                });
                let come = |more: u32| {
                    let mut requests = count.subscribe();
                    async move {
                        let _ = requests.wait_for(|count| *count > number + more).await;
                    }
                };
                match fault.filter(|(at, _)| *at == number).map(|(_, fault)| fault) {
                    None => {}
                    Some(Fault::Request) => return,
                    Some(Fault::Swallowed) => continue,
                    Some(Fault::Answer) => {
                        let _ = server.write_all(&asked[..length]).await;
                        let _ = server.read(&mut answered).await;
                        return;
                    }
                    Some(Fault::Later(more)) => {
                        drop(client);
                        come(more).await;
                        let _ = server.write_all(&asked[..length]).await;
                        let _ = server.read(&mut answered).await;
                        return;
                    }
                    Some(Fault::SwallowedForNow(more)) => come(more).await,
                }
                if server.write_all(&asked[..length]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&answered[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Pays twice over this way, by one chat as long as it can be used, or by another one each time. Says
/// how often something failed.
async fn pays(journal: &PostgresJournal, world: &World, id: &str, reopens: bool) -> u32 {
    let agent = agent(world, None, &Gate::new());
    let mut chat = None;
    for failures in 0..60 {
        let mut open = match chat.take() {
            Some(chat) => chat,
            None => match agent.open(journal, id).await {
                Ok(chat) => chat,
                Err(_) => continue,
            },
        };
        let ran = match open.can_resume() {
            true => open.resume().await.map(drop),
            false if open.transcript().messages().is_empty() => open.send("Pay.").await.map(drop),
            false => Ok(()),
        };
        if let Err(stopped) = ran {
            let lost = stopped.error().is_some_and(Error::is_conflict);
            // The last answer may be in memory alone, and then it is asked for again.
            let goes_on = open.can_resume() || open.transcript().messages().is_empty();
            drop(stopped);
            chat = Some(open).filter(|_| !reopens && !lost && goes_on);
        } else {
            return failures;
        }
    }
    panic!("{id}: it never comes to its end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_way_loses_nothing_is_paid_twice_and_nothing_untrue() {
    let server = server!(Server::start(&[], ""));
    let direct = server.journal("ways").await;
    let way = Way::to(&server, None).await;
    let journal = way.builder().connect().await.expect("a journal");
    let failures = pays(&journal, &World::default(), "whole", false).await;
    assert_eq!(failures, 0);
    let requests = *way.requests.borrow();
    let plans: Vec<(u32, Fault, bool)> = (0..requests + 2)
        .flat_map(|at| FAULTS.map(|fault| (at, fault)))
        .flat_map(|(at, fault)| [(at, fault, false), (at, fault, true)])
        .collect();
    let (next, failed) = (AtomicU32::new(0), AtomicU32::new(0));
    let play = async || {
        while let Some((at, fault, reopens)) =
            plans.get(next.fetch_add(1, Ordering::SeqCst) as usize)
        {
            let id = format!("{at} {fault:?} {reopens}");
            let way = Way::to(&server, Some((*at, *fault))).await;
            let world = World::default();
            let journal = loop {
                match way.builder().connect().await {
                    Ok(journal) => break journal,
                    Err(err) => assert!(err.kind() == ErrorKind::Journal, "{id}: {err}"),
                }
            };
            failed.fetch_add(pays(&journal, &world, &id, *reopens).await, Ordering::SeqCst);
            let facts = direct.read(&id, 0).await.expect("facts").facts;
            is_true(&facts, |call| world.count(call), &id);
        }
    };
    futures_util::future::join_all((0..8).map(|_| play())).await;
    println!("{requests} requests, {} faults, {failed:?} runs that failed", plans.len());
    assert!(failed.into_inner() as usize > plans.len() / 8, "few faults were met");
}

/// Its lock is lost with its session, in the middle of a payment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_lost_its_lock_is_refused_before_its_next_payment() {
    let server = server!(Server::start(&[], ""));
    let url = format!("{}?application_name=mine", server.socket("harness", "postgres"));
    let mine = PostgresJournal::builder(url).schema("lost").connect().await.expect("a journal");
    let yours = server.journal("lost").await;
    for (round, stops_in) in
        [("pay_0", false), ("pay_0", true), ("pay_1", false), ("pay_1", true)].iter().enumerate()
    {
        let (id, gate, world) = (format!("round {round}"), Gate::new(), World::default());
        let first = agent(&world, Some(*stops_in), &gate);
        let mut chat = first.open(&mine, &*id).await.expect("nobody holds it");
        let first = tokio::spawn(async move { goes_on(&mut chat, &[]).await });
        gate.reached().await;
        let other = agent(&world, None, &Gate::new());
        assert!(other.open(&yours, &*id).await.is_err_and(|err| err.is_busy()));
        server.sql(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity a \
             where application_name = 'mine' and exists \
             (select from pg_locks l where l.pid = a.pid and locktype = 'advisory')",
        );
        let mut chat = other.open(&yours, &*id).await.expect("nobody holds it any more");
        let facts = yours.read(&id, 0).await.expect("facts").facts;
        goes_on(&mut chat, &facts).await.expect("nobody disturbs");
        let paid = world.all();
        gate.open();
        let refused = first.await.expect("no panic").unwrap_err();
        assert!(refused.is_conflict(), "{refused}");
        // But for the one that had started.
        let late = world.all().split_off(paid.len());
        assert!(late.iter().all(|call| call == stops_in.0 && !stops_in.1), "{late:?}");
        let facts = yours.read(&id, 0).await.expect("facts").facts;
        is_true(&facts, |call| world.count(call), &id);
    }
}

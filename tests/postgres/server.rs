//! PostgreSQL servers that live as long as the test, however it ends.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use harness::journal::{Envelope, Head, Journal, PostgresBuilder, PostgresJournal, WriterId};

/// The user `nobody`: PostgreSQL does not run as root.
const NOBODY: u32 = 65534;

/// The password of the user `harness` over TCP.
pub(crate) const PASSWORD: &str = "hunter2-of-the-tests";

/// Watches over a server: it ends when the test lets go of it, also by being killed, for then its
/// input ends. Only the word `keep` leaves the folder there.
const WATCH: &str = r#"
trap '' INT TERM HUP
folder=$1; limit=$2; shift 2
( [ -z "$limit" ] || ulimit -f "$limit"; exec "$@" ) </dev/null >>"$folder/log" 2>&1 &
server=$!
echo $server
read -r word
kill -CONT $server 2>/dev/null
kill -QUIT $server 2>/dev/null
wait $server
[ "$word" = keep ] || rm -rf "$folder"
"#;

/// A server with a folder of its own. It listens on a Unix socket, where everybody is trusted, and on
/// the loopback, where a password is asked for.
pub(crate) struct Server {
    binaries: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
    options: Vec<String>,
    /// So many blocks a file may have.
    limit: String,
    running: Option<(Child, u32)>,
}

/// Where PostgreSQL is installed, the newest one.
fn binaries() -> Option<PathBuf> {
    let named = std::env::var_os("HARNESS_POSTGRES").map(PathBuf::from);
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut all: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin")))
        })
        .collect();
    all.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&path).collect::<Vec<_>>();
    let known = named.into_iter().chain(all.into_iter().rev().map(|(_, path)| path)).chain(others);
    known.into_iter().find(|folder| folder.join("initdb").exists() && folder.join("psql").exists())
}

/// The server that the tests share, if PostgreSQL is installed.
pub(crate) fn shared() -> Option<&'static Server> {
    static SHARED: OnceLock<Option<Server>> = OnceLock::new();
    SHARED.get_or_init(|| Server::start(&[], "")).as_ref()
}

/// Ends a test with a word where PostgreSQL is not installed.
macro_rules! server {
    ($server:expr) => {
        match $server {
            Some(server) => server,
            None => {
                println!(
                    "skipped: PostgreSQL is not installed (Debian: `apt install postgresql`), or \
                     name the folder of `initdb` as HARNESS_POSTGRES"
                );
                return;
            }
        }
    };
    () => {
        $crate::server::server!($crate::server::shared())
    };
}
pub(crate) use server;

/// A name that no other test of this run has.
pub(crate) fn fresh(name: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{name}_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A fact with this text, of this life.
pub(crate) fn fact(life: WriterId, text: &str) -> Envelope {
    Envelope::stored(1, "0.1.0", life, 1, 2, format!("{{\"fact\":{text:?}}}"))
}

/// The head that a conversation had after this number of facts, or would have with so many.
pub(crate) async fn head_at(journal: &dyn Journal, name: &str, count: u64) -> Head {
    let read = journal.read(name, 0).await.expect("read");
    read.head_at(count).unwrap_or_else(|| {
        let mut head = read.head;
        head.facts = count;
        head
    })
}

impl Server {
    /// Makes and starts a server, with more settings of its own, and files no larger than `limit`
    /// blocks of 512 bytes if it is not empty.
    pub(crate) fn start(options: &[&str], limit: &str) -> Option<Self> {
        let binaries = binaries()?;
        let folder = tempfile::Builder::new().prefix("pg").tempdir().expect("a folder").keep();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("permissions");
        fs::write(folder.join("password"), PASSWORD).expect("a file");
        let mut server = Self {
            binaries,
            folder,
            port: free_port(),
            options: options.iter().map(|&option| option.to_owned()).collect(),
            limit: limit.to_owned(),
            running: None,
        };
        if is_root() {
            for path in [server.folder.clone(), server.folder.join("password")] {
                chown(path, Some(NOBODY), Some(NOBODY)).expect("the folder is given away");
            }
        }
        let mut make = server.command("initdb");
        make.args(["--no-sync", "-E", "UTF8", "--locale=C", "-U", "harness", "-D"]);
        make.arg(server.folder.join("data"));
        make.args(["--auth-local=trust", "--auth-host=scram-sha-256"]);
        make.arg(format!("--pwfile={}", server.folder.join("password").display()));
        let made = make.output().expect("initdb runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        server.run();
        Some(server)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.binaries.join(program));
        command.current_dir(&self.folder).env("LC_ALL", "C");
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Starts the server and waits until it answers.
    pub(crate) fn run(&mut self) {
        // Processes of the one before may still be on their way out.
        for _ in 0..100 {
            self.begin();
            if self.waits_until_ready() {
                return;
            }
            self.end("keep");
            thread::sleep(Duration::from_millis(100));
        }
        panic!("no server:\n{}", self.log());
    }

    fn begin(&mut self) {
        let mut watch = Command::new("sh");
        watch.args(["-c", WATCH, "watch"]).arg(&self.folder).arg(&self.limit);
        watch.arg(self.binaries.join("postgres")).arg("-D").arg(self.folder.join("data"));
        watch.arg("-k").arg(&self.folder).args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        // The tests kill processes, not machines: what was written is there.
        for option in ["fsync=off", "max_connections=200", "shared_buffers=32MB"] {
            watch.args(["-c", option]);
        }
        for option in &self.options {
            watch.args(["-c", option]);
        }
        watch.current_dir(&self.folder).env("LC_ALL", "C");
        watch.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Ctrl-C ends the test, and then this one ends by itself.
        watch.process_group(0);
        if is_root() {
            watch.uid(NOBODY).gid(NOBODY);
        }
        let mut child = watch.spawn().expect("a shell");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output"))
            .read_line(&mut line)
            .expect("a line");
        self.running = Some((child, line.trim().parse().expect("the server's id")));
    }

    fn waits_until_ready(&self) -> bool {
        let (_, id) = self.running.as_ref().expect("it runs");
        let pid_file = self.folder.join("data/postmaster.pid");
        loop {
            let text = fs::read_to_string(&pid_file).unwrap_or_default();
            if text.starts_with(&format!("{id}\n"))
                && text.lines().nth(7).is_some_and(|line| line.trim() == "ready")
            {
                return true;
            }
            if !is_alive(*id) {
                return false;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn end(&mut self, word: &str) {
        if let Some((mut child, _)) = self.running.take() {
            let _ = writeln!(child.stdin.take().expect("its input"), "{word}");
            let _ = child.wait();
        }
    }

    /// Speaks TLS from the next start on, with `server.pem` and `server.key` of this folder.
    pub(crate) fn secure(&mut self, folder: &Path) {
        self.options = vec!["ssl=on".to_owned()];
        for (name, option) in [("server.pem", "ssl_cert_file"), ("server.key", "ssl_key_file")] {
            let path = self.folder.join(name);
            fs::copy(folder.join(name), &path).expect("copied");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("permissions");
            if is_root() {
                chown(&path, Some(NOBODY), Some(NOBODY)).expect("the file is given away");
            }
            self.options.push(format!("{option}={}", path.display()));
        }
    }

    /// Kills all of its processes at once, as if its machine had lost its power.
    pub(crate) fn kill(&mut self) {
        signal("KILL", &self.processes());
        self.end("keep");
    }

    /// Stops the server for now: all connections are closed.
    pub(crate) fn stop(&mut self) {
        self.end("keep");
    }

    /// Freezes all of its processes, or lets them go on.
    pub(crate) fn freeze(&self, frozen: bool) {
        signal(if frozen { "STOP" } else { "CONT" }, &self.processes());
    }

    fn processes(&self) -> Vec<u32> {
        let (_, id) = self.running.as_ref().expect("it runs");
        let children = format!("/proc/{id}/task/{id}/children");
        let children = fs::read_to_string(children).unwrap_or_default();
        // First the one that would start others.
        [*id].into_iter().chain(children.split(' ').filter_map(|id| id.parse().ok())).collect()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// The address of a database behind the Unix socket.
    pub(crate) fn socket(&self, user: &str, database: &str) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://{user}@{folder}:{}/{database}", self.port)
    }

    /// The address of a database on the loopback.
    pub(crate) fn loopback(&self, database: &str) -> String {
        format!("postgres://harness:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }

    /// A journal with these tables.
    pub(crate) fn builder(&self, schema: &str) -> PostgresBuilder {
        PostgresJournal::builder(self.socket("harness", "postgres")).schema(schema)
    }

    /// A journal with these tables, opened.
    pub(crate) async fn journal(&self, schema: &str) -> PostgresJournal {
        self.builder(schema).connect().await.expect("a journal")
    }

    /// What the server itself says to these statements, line by line.
    pub(crate) fn sql(&self, statements: &str) -> String {
        let mut psql = self.psql();
        let done = psql.args(["-c", statements]).output().expect("psql runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }

    fn psql(&self) -> Command {
        let mut psql = self.command("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "harness", "-h"]);
        psql.arg(&self.folder).args(["-p", &self.port.to_string(), "-d", "postgres"]);
        psql
    }

    /// A session that has run these statements, and leaves its transaction open until it is dropped.
    pub(crate) fn open(&self, statements: &str) -> Open {
        let mut psql = self.psql();
        psql.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut psql = psql.spawn().expect("psql runs");
        let input = psql.stdin.as_mut().expect("its input");
        writeln!(input, "begin; {statements};\n\\echo done").expect("it listens");
        let output = BufReader::new(psql.stdout.take().expect("its output"));
        let done = output.lines().map_while(Result::ok).any(|line| line == "done");
        assert!(done, "the statements have failed: {statements}");
        Open(psql)
    }

    /// Looks until this question has an answer other than nothing and `0`.
    pub(crate) async fn until(&self, question: &str) -> String {
        for _ in 0..600 {
            let answer = self.sql(question);
            if !answer.is_empty() && answer != "0" {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("never: {question}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end("");
    }
}

/// A transaction that is open.
pub(crate) struct Open(Child);

impl Drop for Open {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

pub(crate) fn is_alive(id: u32) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(id.to_string()).join("stat"));
    status.is_ok_and(|status| !status.contains(") Z "))
}

pub(crate) fn signal(name: &str, processes: &[u32]) {
    let ids = processes.iter().map(u32::to_string);
    // Some may have ended by themselves.
    let _ = Command::new("kill").arg(format!("-{name}")).args(ids).stderr(Stdio::null()).status();
}

/// Another process of this binary that runs one of its ignored tests, with these variables.
pub(crate) fn process(test: &str, variables: &[(&str, &str)]) -> Child {
    let mut other = Command::new(std::env::current_exe().expect("this binary"));
    other.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    other.envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
    other.spawn().expect("another process")
}

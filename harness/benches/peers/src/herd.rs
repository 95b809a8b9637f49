//! A herd: many concurrent streams in one process.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::{
    process::{cpu, install_tls, memory},
    server,
    subject::{self, Failure, History},
};

/// The number of streams that begin together. The next wave begins a hundredth of a second later,
/// because a server refuses more connections at once.
const WAVE: usize = 100;

/// Reads this number of concurrent streams, and prints their total cost: the CPU time in
/// milliseconds, the peak memory in KiB, the memory before the streams in KiB, the elapsed time in
/// milliseconds, and the number of complete answers.
pub fn run(subject: &str, wire: &str, streams: usize, base: &str) -> Result<(), Failure> {
    install_tls();
    let files = raise_file_limit();
    if files.is_some_and(|files| files < streams as u64 + 64) {
        return Err(format!("{streams} sockets are more than `ulimit -Hn` lets be open").into());
    }
    let expected =
        if subject::reads(subject) { server::expected(wire, base)? } else { String::new() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // The first answer is not measured, because it includes one-time work.
    let (address, _) = base.rsplit_once('/').ok_or("no address")?;
    let address = address.rsplit_once('/').ok_or("no address")?.0;
    runtime.block_on(subject::task(subject, wire, History(0), &format!("{address}/short"))?())?;
    let task = subject::task(subject, wire, History(0), base)?;
    let before = memory("VmRSS")?;
    let (begun, clock) = (cpu(), Instant::now());
    let whole = runtime.block_on(async {
        let task = Arc::new(task);
        let mut herd = JoinSet::new();
        for at in 0..streams {
            herd.spawn(task());
            if at % WAVE == WAVE - 1 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        let mut whole = 0;
        let mut first = None;
        while let Some(answer) = herd.join_next().await {
            match answer? {
                Ok(text) if text == expected => whole += 1,
                Ok(text) => first = first.or(Some(format!("another text: {text:?}"))),
                Err(err) => first = first.or(Some(err.to_string())),
            }
        }
        if let Some(first) = first {
            eprintln!("{subject} on {wire}: the first that failed: {first}");
        }
        Ok::<_, Failure>(whole)
    })?;
    let spent = cpu().saturating_sub(begun).as_secs_f64() * 1e3;
    let (most, time) = (memory("VmHWM")?, clock.elapsed().as_secs_f64() * 1e3);
    println!("{spent} {most} {before} {time} {whole}");
    Ok(())
}

/// Raises the number of open files to the maximum for this process, and returns the maximum.
pub fn raise_file_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    limit.maximum
}

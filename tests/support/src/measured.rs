//! The most memory that a process has had.

use std::{env, fs, process::Command};

const CHILD: &str = "HARNESS_MEASURED";

/// Runs the test with this name in a process of its own, and asserts the most memory in MiB that the process has had.
pub fn needs_at_most(mib: usize, test: &str, run: impl Future<Output = ()>) {
    if env::var(CHILD).is_ok() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.expect("a runtime").block_on(run);
        let status = fs::read_to_string("/proc/self/status").expect("the status");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        println!("peak: {} KiB", peak.expect("a peak").trim().trim_end_matches(" kB"));
        return;
    }
    let mut child = Command::new(env::current_exe().expect("this program"));
    child.args([test, "--exact", "--nocapture"]).env(CHILD, "1");
    let output = child.output().expect("a process");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let peak = said.lines().find_map(|line| line.split_once("peak: ")?.1.strip_suffix(" KiB"));
    let peak: usize = peak.and_then(|peak| peak.parse().ok()).expect(&said);
    assert!(peak / 1024 <= mib, "{} MiB", peak / 1024);
    eprintln!("{test}: {} MiB", peak / 1024);
}

//! Concurrent calls through both handles.

use tokio::task::JoinSet;

use super::checks::{
    CheckResult, CheckedStore, JournalCheck, OrSeen as _, batch, checks, ensure, same,
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Envelope, Head, Journal},
};

pub(super) const CHECKS: &[JournalCheck] = checks! {
    "of several appends after the same facts exactly one is done" => appends,
    "appends that are tried again all come, each as a whole" => persistent,
    "of several that fork to one name exactly one does" => forks,
    "of several holds exactly one is given" => one_hold_of_several,
};

/// The number of concurrent callers for each of the two handles.
const RACERS: usize = 6;

/// The number of batches that each caller appends when it retries after conflicts.
const TURNS: usize = 4;

/// Both handles in turn, each `RACERS` times.
fn journals(store: &CheckedStore) -> impl Iterator<Item = std::sync::Arc<dyn Journal>> {
    let both = [store.one.clone(), store.two.clone()];
    std::iter::repeat_n(both, RACERS).flatten()
}

/// The callers that succeeded. Fails if another caller failed with a different kind of error.
fn winners<T>(
    results: &[(usize, Result<T, Error>)],
    kind: ErrorKind,
) -> Result<Vec<usize>, String> {
    let mut winners = Vec::new();
    for (racer, result) in results {
        match result {
            Ok(_) => winners.push(*racer),
            Err(error) if error.kind() == kind => {}
            Err(error) => return Err(format!("one lost with {:?}: {error}", error.kind())),
        }
    }
    ensure(winners.len() == 1, || format!("{} of {} won", winners.len(), results.len()))?;
    Ok(winners)
}

async fn appends(store: &CheckedStore) -> CheckResult {
    let name = store.name("raced appends");
    let mut wanted: Vec<Envelope> = Vec::new();
    for round in 0..12 {
        let after = store.head_at(&name, wanted.len() as u64).await?;
        let facts = |racer| batch(&format!("round {round} racer {racer}"), racer % 3 + 1);
        let mut race = JoinSet::new();
        let mut written = Vec::new();
        for (racer, journal) in journals(store).enumerate() {
            let (name, facts) = (name.clone(), facts(racer));
            written.push(facts.clone());
            race.spawn(async move { (racer, journal.append(&name, after, &facts).await) });
        }
        let results = race.join_all().await;
        for winner in winners(&results, ErrorKind::Conflict)? {
            wanted.extend(written.get(winner).cloned().unwrap_or_default());
        }
        store.has(&name, &wanted).await?;
    }
    Ok(())
}

async fn persistent(store: &CheckedStore) -> CheckResult {
    let name = store.name("persistent");
    let mut race = JoinSet::new();
    for (racer, journal) in journals(store).enumerate() {
        let name = name.clone();
        race.spawn(async move {
            let mut there = Head::default();
            for turn in 0..TURNS {
                let facts = batch(&format!("racer {racer} turn {turn}"), 3);
                // Each conflict means that another batch was appended meanwhile.
                for tries in (0..TURNS * 2 * RACERS).rev() {
                    match journal.append(&name, there, &facts).await {
                        Ok(head) => {
                            there = head;
                            break;
                        }
                        Err(error) if error.is_conflict() && tries > 0 => {
                            there = journal.read(&name, 0).await?.head;
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(())
        });
    }
    for result in race.join_all().await {
        result.seen("a racing append")?;
    }
    let read = store.one.read(&name, 0).await.seen("read")?.facts;
    let mut groups: Vec<&[Envelope]> = read.chunks(3).collect();
    let texts = |facts: &[Envelope]| facts.iter().map(|f| f.fact.clone()).collect::<Vec<_>>();
    for racer in 0..2 * RACERS {
        for turn in 0..TURNS {
            let wanted = texts(&batch(&format!("racer {racer} turn {turn}"), 3));
            let at = groups.iter().position(|group| texts(group) == wanted);
            let Some(at) = at else { return Err("a batch is not there as a whole".to_owned()) };
            groups.remove(at);
        }
    }
    ensure(groups.is_empty(), || format!("there are {} batches too many", groups.len()))
}

async fn forks(store: &CheckedStore) -> CheckResult {
    let base = store.filled("base of a race", 20).await?;
    let facts = store.one.read(&base, 0).await.seen("read")?.facts;
    let to = store.name("raced fork");
    let mut race = JoinSet::new();
    for (racer, journal) in journals(store).enumerate() {
        let (base, to) = (base.clone(), to.clone());
        let at = store.head_at(&base, racer as u64 + 1).await?;
        race.spawn(async move { (racer, journal.fork(&base, at, &to).await) });
    }
    let results = race.join_all().await;
    for winner in winners(&results, ErrorKind::Conflict)? {
        let read = store.two.read(&to, 0).await.seen("read")?.facts;
        same(&read, facts.get(..=winner).unwrap_or_default())?;
    }
    Ok(())
}

async fn one_hold_of_several(store: &CheckedStore) -> CheckResult {
    for round in 0..8 {
        let name = store.name(&format!("raced hold {round}"));
        let mut race = JoinSet::new();
        for (racer, journal) in journals(store).enumerate() {
            let name = name.clone();
            race.spawn(async move { (racer, journal.hold(&name).await) });
        }
        // All leases are kept until the last caller has its result.
        let results = race.join_all().await;
        winners(&results, ErrorKind::Busy)?;
    }
    Ok(())
}

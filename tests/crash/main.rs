//! Agents whose processes are killed again and again, and drivers that race. `HARNESS_KILLS` says how
//! often they are killed, and `HARNESS_RACES` how often they race.

mod broken;
#[cfg(unix)]
mod chats;
mod children;
mod compacting;
mod file;
mod races;
mod repeats;
mod rivals;
mod spilling;
mod sweep;
#[cfg(all(unix, feature = "postgres"))]
mod ways;
#[cfg(target_os = "linux")]
mod woken;
mod world;

#[cfg(all(unix, feature = "postgres"))]
#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "../postgres/server.rs"]
mod server;

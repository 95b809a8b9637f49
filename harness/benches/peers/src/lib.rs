//! Compares the library with the floor and with all peers. All measurements alternate in one run
//! against one server on this machine: see README.md.
//!
//! Each subject is a separate process, so that its CPU time, its memory and its allocations are
//! measured separately. The server is a separate process, too. The subjects take turns, so that
//! other load on the machine affects all of them.

mod building;
mod felt;
mod figures;
mod floor;
mod folder;
mod herd;
mod idle;
mod macros;
mod ours;
mod peer;
mod pictures;
mod process;
#[path = "../../rendered/mod.rs"]
mod rendered;
mod sections;
mod served;
mod server;
mod subject;
mod summary;
mod tables;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

pub use subject::Failure;

/// Counts the allocations of a program that uses this value as its allocator.
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Executes the command in the arguments of the program.
pub fn run() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => {
            sections::streams()?;
            served::measure::served()?;
            served::measure::recorded()?;
            sections::turns()?;
            sections::requests()?;
            sections::herds()?;
            sections::held()?;
            sections::idle()?;
            felt::first_word()?;
            felt::slow_link()?;
            sections::early()
        }
        ["streams"] => sections::streams(),
        ["served"] => served::measure::served(),
        ["recorded"] => served::measure::recorded(),
        ["turns"] => sections::turns(),
        ["requests"] => sections::requests(),
        ["herds"] => sections::herds(),
        ["held"] => sections::held(),
        ["idle"] => sections::idle(),
        ["first_word"] => felt::first_word(),
        ["slow_link"] => felt::slow_link(),
        ["early"] => sections::early(),
        ["build"] => sections::build(true),
        ["build", "debug"] => sections::build(false),
        ["macros"] => sections::macros(),
        ["draw"] => tables::draw(&figures::Figures::read()?),
        // The commands of separate processes.
        ["serve"] => server::serve(),
        ["work", subject, wire, history, base] => {
            process::work(subject, wire, history.parse()?, base)
        }
        ["chosen", subject, wire, base] => process::work_chosen(subject, wire, base),
        ["herd", subject, wire, streams, base] => herd::run(subject, wire, streams.parse()?, base),
        ["say", wire, base] => ours::say(wire, base),
        ["wait", base] => idle::wait(base),
        ["keep", subject, wire] => idle::keep(subject, wire),
        _ => Err(
            "say `streams`, `served`, `recorded`, `turns`, `requests`, `herds`, `held`, `idle`, \
             `first_word`, `slow_link` or `early`, or nothing for all of these; `build`; `macros`; or `draw`"
                .into(),
        ),
    }
}

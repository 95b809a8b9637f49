//! Measures beside the floor and beside every peer, in one interleaved run against one server on
//! this machine: see README.md.
//!
//! Each subject is a process of its own, so that its processor time, its memory and its allocations
//! are its own too; the server is another one. They take turns: a noisy moment hits all of them.

mod building;
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

/// What counts allocations, in a program that has it for its allocator.
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Does what the words on the command line say.
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
        ["early"] => sections::early(),
        ["build"] => sections::build(true),
        ["build", "debug"] => sections::build(false),
        ["macros"] => sections::macros(),
        ["draw"] => tables::draw(&figures::Figures::read()?),
        // What a process of its own does.
        ["serve"] => server::serve(),
        ["work", subject, wire, history, base] => {
            process::work(subject, wire, history.parse()?, base)
        }
        ["chosen", subject, wire, base] => process::work_chosen(subject, wire, base),
        ["herd", subject, wire, streams, base] => herd::run(subject, wire, streams.parse()?, base),
        ["wait", base] => idle::wait(base),
        ["keep", subject, wire] => idle::keep(subject, wire),
        _ => Err(
            "say `streams`, `served`, `recorded`, `turns`, `requests`, `herds`, `held`, `idle` or \
                  `early`, or nothing for all of these; `build`; `macros`; or `draw`"
                .into(),
        ),
    }
}

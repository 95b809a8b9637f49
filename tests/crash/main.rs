//! Agents whose processes are killed again and again. `HARNESS_KILLS` says how often.

mod broken;
mod file;
mod sweep;
mod world;

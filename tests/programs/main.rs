//! What a program sees of its runs and sets for them.

mod blocking;
mod call_pieces;
mod listed_tools;
mod listeners;
mod local_servers;
mod powers;
mod provenance;
mod repeated_calls;
mod repetitions;
mod rest;
mod retry_functions;

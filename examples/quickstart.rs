//! The main job.

fn main() {}

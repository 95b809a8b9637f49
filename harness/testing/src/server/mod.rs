//! A server on the loopback interface for tests. It answers real HTTP/1.1 requests by a script, and
//! simulates network failures.

mod answer;
mod connection;
mod damage;
mod head;
mod loopback;
mod received;
mod state;

pub use self::{
    answer::{Answer, Point},
    loopback::LoopbackServer,
    received::ReceivedRequest,
    state::ClosedBy,
};

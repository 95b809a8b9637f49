//! A server on the loopback that answers a script over real HTTP/1.1, and fails on demand as a
//! network fails.

mod answer;
mod connection;
mod head;
mod loopback;
mod received;
mod shared;
mod spoil;

pub use self::{
    answer::{Answer, Point},
    loopback::LoopbackServer,
    received::ReceivedRequest,
    shared::ClosedBy,
};

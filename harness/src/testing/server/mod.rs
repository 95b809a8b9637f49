//! A server on the loopback interface that answers by a script over real HTTP/1.1, and fails as a
//! network fails if the script says so.

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

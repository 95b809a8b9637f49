//! A server on the loopback interface that answers by a script over real HTTP/1.1, and fails as a
//! network fails if the script says so.

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

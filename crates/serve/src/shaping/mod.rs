//! What clients may take: the rates at which bodies leave, the numbers of connections, and who has to go when there is no
//! room.
//!
//! * [`bucket`]: a rate and what was taken of it, on one loop and on several.
//! * [`fair`]: whose turn it is among the clients that share a rate.
//! * [`client`]: who the clients are, how many connections they have and what they have taken.
//! * [`pacer`]: all of a connection's rates together.
//! * [`room`]: whom to close when the table is full, and how long idle connections may stay when it fills.
//!
//! Sockets, responses and the clock are the caller's: times and sizes come in, decisions go out.

pub(crate) mod bucket;
pub(crate) mod client;
pub(crate) mod eviction;
pub(crate) mod fair;
pub(crate) mod shaper;

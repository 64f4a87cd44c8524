//! Shaping and admission: the rates at which bodies leave, the numbers of connections, and which
//! connections have a slot.
//!
//! * [`bucket`]: a rate and the bytes taken of it, on one loop and on several.
//! * [`fair`]: the order of clients that share a rate.
//! * [`requests`]: how many requests each client may make.
//! * [`client`]: the clients, their connections and the bytes that they have taken.
//! * [`shaper`]: all rates of a connection together.
//! * [`admission`]: connections without a slot, and when the others are checked.
//! * [`eviction`]: the connection that is closed when all slots are taken, and how long idle ones
//!   may stay when they run short.
//!
//! Sockets, responses and the clock are the caller's: times and sizes come in, decisions go out. A
//! new limit on rates or on connections by client is enforced here; its setting is in `config`.

pub(crate) mod admission;
pub(crate) mod bucket;
pub(crate) mod client;
pub(crate) mod eviction;
pub(crate) mod fair;
pub(crate) mod requests;
pub(crate) mod shaper;

//! The client against Pebble, the authority that Let's Encrypt has for tests, and against a
//! scripted one for what Pebble never does.

#![forbid(unsafe_code)]

mod failing;
mod killing;
mod obtaining;
mod own_account;
mod pebble;
mod refusing;
mod responder;
mod scene;
mod scripted;

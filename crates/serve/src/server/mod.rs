//! The server: its listening sockets, the threads of its loops, and control over them while they
//! run.
//!
//! * [`start`]: starting a server; [`running`]: a server that runs, and its end; [`reconfigure`]:
//!   another configuration for it.
//! * [`loop_thread`]: the thread of one loop; [`layout`]: how many loops there are, and on which
//!   CPUs; [`service`]: the application that a loop runs.
//! * [`commands`]: commands to a loop; [`control`] and [`shutdown`]: stopping, draining and handing
//!   over; [`liveness`]: a check that all loops go round.
//! * [`listeners`]: the listening sockets, apart from the loops that accept from them; [`tls`]: the
//!   certificates, keys and settings of TLS; [`loop_tls`]: the part of it that a loop has.
//!
//! A loop command is a variant of [`LoopCommand`](commands::LoopCommand), left in a loop's queue
//! from any thread and run by `service`.

mod announcements;
pub(crate) mod commands;
pub(crate) mod connection;
mod control;
mod failure;
mod layout;
pub(crate) mod listeners;
mod liveness;
mod loop_thread;
pub(crate) mod loop_tls;
mod reconfigure;
mod running;
pub(crate) mod service;
pub(crate) mod shutdown;
mod start;
pub(crate) mod tls;
pub(crate) mod tls_error;

pub use self::control::Control;
pub use self::failure::{RunError, StartError};
pub use self::liveness::LivenessCheck;
pub use self::running::Running;
pub use self::start::{Server, loop_count};

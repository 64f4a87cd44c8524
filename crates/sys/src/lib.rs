//! Every system call of Thalweg, and every `unsafe` block.
//!
//! The centre is [`Driver`]: sockets and files behind one interface that is shaped by completions.
//! Two drivers live here, [`Uring`] and [`Epoll`]; a third, simulated one is in `reactor`. Around
//! it stand small wrappers for the other services of Linux that a load generator and a file server
//! use: the clock, CPU affinity, resource limits, path resolution beneath a root, changes of
//! folders, and figures of `/proc`.
//!
//! Deliberately not here: protocols, policies, retries. A call does what its name says, once, and
//! reports the kernel's result.

pub mod address;
pub mod affinity;
mod any_driver;
pub mod clock;
#[cfg(feature = "count-allocations")]
pub mod counting;
pub mod diag;
pub mod driver;
mod epoll;
pub mod fault;
pub mod file;
pub mod folder;
pub mod handover;
pub mod handshake;
pub mod host;
pub mod inotify;
pub mod interface;
mod operation;
pub mod page_cache;
pub mod proc;
pub mod process;
pub mod process_group;
pub mod resource_limits;
pub mod sandbox;
pub mod service_manager;
pub mod socket;
pub mod table;
pub mod tasks;
pub mod tracepoint;
mod uring;
pub mod wake;

pub use address::{PeerAddr, PortRange, UnixAddr};
pub use any_driver::{AnyDriver, DriverChoice};
pub use clock::Instant;
pub use driver::{Completion, Driver, DriverConfig, DriverKind};
pub use epoll::Epoll;
pub use fault::Fault;
pub use file::{File, FileChanged, Links, Root, Wait};
pub use inotify::Inotify;
pub use operation::{Connect, FileSpan, ReceiveMode, SendBuf, SpanEnd};
pub use table::SocketId;
pub use uring::Uring;
pub use wake::Waker;

//! A small HTTP/1 server over the event loop, for uses beside the download server: a status page, a
//! calibration sink, tests.
//!
//! A [`Server`] is an [`App`](thalweg_reactor::App) of the loop, generic over the driver. It
//! accepts connections, reads request heads within bounds, lets a [`Handler`] make each
//! [`Response`], at once or later, and sends the responses of pipelined requests in order.
//! Connections, their requests and their times are bounded by [`Settings`]; request bodies are read
//! and discarded, unless the handler wants them.
//!
//! ```no_run
//! # fn serve(driver: &mut thalweg_sys::Epoll) -> std::io::Result<()> {
//! use thalweg_httpd::{Response, Server, Settings};
//! use thalweg_sys::driver::Listen;
//! use thalweg_wire::RequestHead;
//!
//! let hello = |_: &RequestHead<'_>| Response::new(200).field("Content-Type", "text/plain").body("hello\n");
//! let mut server = Server::new(Settings::default(), hello);
//! server.listen(driver, Listen::Address("127.0.0.1:0".parse().unwrap()))?;
//! thalweg_reactor::run(driver, &mut server)
//! # }
//! ```
//!
//! Deliberately not here: files, caches, logs, virtual hosts, and a thread of its own. A caller
//! that has to stop the loop or has work of its own wraps the server in an application that passes
//! completions and iterations to it.

#![forbid(unsafe_code)]

mod connection;
mod handler;
mod response;
mod server;
mod settings;

pub use handler::{Handler, Ticket};
pub use response::Response;
pub use server::Server;
pub use settings::{Settings, Times, WhenFull};

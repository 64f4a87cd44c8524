//! The yardstick as a server under test.

use std::net::TcpListener;

use crate::process::{PATIENCE, Process, thalweg, until};

/// A port that was free just now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the kernel has a port");
    listener.local_addr().expect("a listener has an address").port()
}

/// A yardstick whose requests take `service` each, with so many servers.
pub struct Yardstick {
    port: u16,
    _process: Process,
}

impl Yardstick {
    /// Starts one.
    pub fn start(service: &str) -> Self {
        let port = free_port();
        let listen = format!("127.0.0.1:{port}");
        let process = Process::start(&mut thalweg(&["yardstick", "fixed", "--service", service, "--listen", &listen]));
        let is_reachable = || std::net::TcpStream::connect(&listen).is_ok().then_some(());
        until("the yardstick to listen", PATIENCE, is_reachable);
        Self { port, _process: process }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
}

/// The command line of a yardstick, for `--restart-…`.
pub fn yardstick_command(port: u16, options: &str) -> String {
    format!("{} yardstick fixed --listen 127.0.0.1:{port} {options}", env!("CARGO_BIN_EXE_thalweg"))
}

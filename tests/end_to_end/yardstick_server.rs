//! The yardstick as a server under test.

use crate::process::{PATIENCE, Process, free_port, thalweg, until};

/// A yardstick whose requests take `service` each, with so many servers.
pub(crate) struct Yardstick {
    port: u16,
    _process: Process,
}

impl Yardstick {
    /// Starts one.
    pub(crate) fn start(service: &str) -> Self {
        let port = free_port();
        let listen = format!("127.0.0.1:{port}");
        let process = Process::start(&mut thalweg(&["yardstick", "fixed", "--service", service, "--listen", &listen]));
        let is_reachable = || std::net::TcpStream::connect(&listen).is_ok().then_some(());
        until("the yardstick to listen", PATIENCE, is_reachable);
        Self { port, _process: process }
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
}

/// The command line of a yardstick, for `--restart-…`.
pub(crate) fn yardstick_command(port: u16, options: &str) -> String {
    format!("{} yardstick fixed --listen 127.0.0.1:{port} {options}", env!("CARGO_BIN_EXE_thalweg"))
}

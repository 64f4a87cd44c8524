//! The server, as the client sees it.

use std::io;

use crate::challenge::Challenge;
use crate::report::Report;

/// The server that a certificate is for. Each call returns after all parts of the server have
/// applied it, since the authority looks at once. An error ends the attempt, which is repeated
/// later.
pub trait Host {
    /// Answers `/.well-known/acme-challenge/TOKEN` on port 80 with the key authorization as the
    /// body (RFC 8555, 8.3), for every host name and before any redirection.
    ///
    /// # Errors
    /// The server does not do it.
    fn http_challenge(&mut self, token: &str, key_authorization: &str) -> io::Result<()>;

    /// Presents this certificate to TLS clients on port 443 that ask for `name` and for the
    /// protocol `acme-tls/1` alone (RFC 8737, 3). Chain and key are in PEM.
    ///
    /// # Errors
    /// The server does not do it.
    fn alpn_challenge(&mut self, name: &str, chain_pem: &[u8], key_pem: &[u8]) -> io::Result<()>;

    /// Answers a challenge no more. One that is not being answered is none the worse for it.
    ///
    /// # Errors
    /// The server does not do it. The attempt goes on.
    fn withdraw(&mut self, challenge: &Challenge) -> io::Result<()>;

    /// Serves with this certificate from the next handshake on. It is already in the state
    /// directory. Chain and key are in PEM.
    ///
    /// # Errors
    /// The server does not do it. The next [step](crate::Client::step) repeats the call.
    fn install(&mut self, names: &[String], chain_pem: &[u8], key_pem: &[u8]) -> io::Result<()>;

    /// Takes note of an event; its `Display` is a line for the error log.
    fn report(&mut self, report: &Report);
}

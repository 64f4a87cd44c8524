//! One TLS connection, in either role.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};

use crate::client::ClientSettings;
use crate::client_certificates::{ClientCertificateMode, ClientCertificates};
use crate::facts::Facts;
use crate::failure::{Failure, FailureKind};
use crate::fault::CertificateFault;
use crate::observed;
use crate::server::ServerSettings;
use crate::settings_error::SettingsError;
use crate::unbuffered::{Connection, OVERHEAD_BYTES, Processed, RECORD_BYTES};

/// The most that is kept of input that is not whole: the largest handshake message that rustls
/// takes, in records, and a record behind it.
const KEPT_BYTES_MAX: usize = 128 << 10;

/// A TLS connection without I/O.
///
/// ```text
/// receive(bytes of the peer)  ->  plain bytes, bytes to send
/// seal(plain bytes)           ->  bytes to send
/// close()                     ->  bytes to send
/// ```
///
/// All methods append to the buffers that they are given. The bytes to send of all calls leave in
/// the order of the calls.
pub struct Engine {
    connection: Connection,
    /// Input of a record, or of a handshake message, that is not whole.
    kept: Vec<u8>,
    stage: Stage,
    /// The name that the client has asked for, or that of the server that was asked for.
    server_name: Option<Box<str>>,
    /// The fault of the peer's certificate, which was accepted nevertheless.
    fault: Option<CertificateFault>,
    /// On a server, there if any client is asked for a certificate.
    clients: Option<Arc<ClientCertificates>>,
}

/// The progress of a connection after it has received bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// The handshake is complete, by these bytes or before.
    pub is_established: bool,
    /// The peer has ended its direction by close_notify: an end without it may be a truncation
    /// (RFC 8446, 6.1).
    pub is_peer_closed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Handshake,
    Established,
    /// The peer will send no more.
    PeerClosed,
    Failed,
}

impl Engine {
    /// A connection that a client has opened.
    ///
    /// # Errors
    /// rustls refuses the settings, which is a bug.
    pub fn accept(settings: &ServerSettings) -> Result<Self, Failure> {
        let connection = Connection::server(Arc::clone(&settings.config));
        Self::new(connection, None, settings.clients.clone())
    }

    /// A connection to a server of this name, which is a host name or an IP address. The settings'
    /// name, if they have one, is asked for instead. [`receive`](Self::receive) without bytes
    /// returns the first bytes to send.
    ///
    /// # Errors
    /// The name is neither.
    pub fn connect(settings: &ClientSettings, name: &str) -> Result<Self, Failure> {
        let name = settings.server_name.as_deref().unwrap_or(name);
        let server = rustls_pki_types::ServerName::try_from(name.to_owned())
            .map_err(|_| Failure::new(FailureKind::Local, &SettingsError::Name(name.to_owned()).to_string()))?;
        let connection = Connection::client(Arc::clone(&settings.config), server);
        Self::new(connection, Some(name.into()), None)
    }

    fn new(
        connection: Result<Connection, rustls::Error>,
        server_name: Option<Box<str>>,
        clients: Option<Arc<ClientCertificates>>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            connection: connection.map_err(|error| Failure::of(&error, None, None))?,
            kept: Vec::new(),
            stage: Stage::Handshake,
            server_name,
            fault: None,
            clients,
        })
    }

    /// Takes bytes of the peer, in any fragments. `scratch` is working memory, whose content is
    /// lost; connections of a thread share it.
    ///
    /// # Errors
    /// The connection has failed, and is to be closed when the bytes to send, among them an alert,
    /// have left. A connection that has failed receives no more.
    pub fn receive(
        &mut self,
        input: &[u8],
        scratch: &mut Vec<u8>,
        plain: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<Received, Failure> {
        match self.stage {
            Stage::Handshake | Stage::Established => {}
            // Bytes behind the end mean nothing.
            Stage::PeerClosed => return Ok(self.progress()),
            Stage::Failed => return Err(Failure::new(FailureKind::Protocol, "the TLS connection has failed before")),
        }
        let wire_start = wire.len();
        let result = if self.stage == Stage::Handshake {
            observed::begin(self.server_name.take());
            let result = self.process(input, scratch, plain, wire);
            let observations = observed::take();
            self.server_name = observations.server_name;
            self.fault = observations.fault.or(self.fault);
            result
        } else {
            self.process(input, scratch, plain, wire)
        };
        match result {
            Ok(processed) => {
                if processed.may_send && self.stage == Stage::Handshake {
                    self.stage = Stage::Established;
                }
                if processed.is_peer_closed {
                    self.stage = Stage::PeerClosed;
                }
                Ok(self.progress())
            }
            Err(failure) => {
                self.stage = Stage::Failed;
                self.kept = Vec::new();
                Err(failure.unwrap_or_else(|error| Failure::of(&error, self.fault, plain_alert(&wire[wire_start..]))))
            }
        }
    }

    /// Processes input, behind what was kept. An error is a failure, or one of rustls that is to
    /// become one.
    fn process(
        &mut self,
        input: &[u8],
        scratch: &mut Vec<u8>,
        plain: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<Processed, Result<Failure, rustls::Error>> {
        if self.kept.is_empty() {
            scratch.clear();
            scratch.extend_from_slice(input);
            let processed = self.connection.process(scratch, plain, wire).map_err(Err)?;
            self.kept.extend_from_slice(&scratch[processed.used..]);
            return Ok(processed);
        }
        if self.kept.len() + input.len() > KEPT_BYTES_MAX {
            let text = "the peer sent more of a handshake message than is taken";
            return Err(Ok(Failure::new(FailureKind::OversizedRecord, text)));
        }
        self.kept.extend_from_slice(input);
        let processed = self.connection.process(&mut self.kept, plain, wire).map_err(Err)?;
        self.drop_kept(processed.used);
        Ok(processed)
    }

    /// The most that so many bytes become when they are sealed at once, in records of 16 KiB and a
    /// close_notify behind them.
    pub fn sealed_bytes_max(plain_bytes: usize) -> usize {
        plain_bytes + (plain_bytes.div_ceil(RECORD_BYTES) + 2) * OVERHEAD_BYTES
    }

    /// Encrypts bytes into records of at most 16 KiB.
    ///
    /// # Errors
    /// The handshake is not complete, the connection has failed, or its keys are used up.
    pub fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Failure> {
        if plain.is_empty() {
            return Ok(());
        }
        if !self.is_established() {
            return Err(Failure::new(FailureKind::Local, "nothing can be sent before the TLS handshake is complete"));
        }
        let used =
            self.connection.seal(&mut self.kept, plain, wire).map_err(|error| Failure::of(&error, None, None))?;
        self.drop_kept(used);
        Ok(())
    }

    /// Ends this direction by close_notify. In a handshake there is none to send.
    pub fn close(&mut self, wire: &mut Vec<u8>) {
        if matches!(self.stage, Stage::Established | Stage::PeerClosed) {
            // A connection that cannot end in the way of TLS ends without it.
            let used = self.connection.close(&mut self.kept, wire).unwrap_or(0);
            self.drop_kept(used);
        }
    }

    fn drop_kept(&mut self, used: usize) {
        if used == self.kept.len() {
            self.kept = Vec::new();
        } else {
            self.kept.drain(..used);
        }
    }

    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.progress().is_established
    }

    /// The parameters of the connection; `None` in the handshake.
    pub fn facts(&self) -> Option<Facts> {
        let verifies_peer = self.clients.is_some() || matches!(self.connection, Connection::Client(_));
        let is_peer_verified = verifies_peer && self.fault.is_none();
        Facts::of(self.connection.state(), self.server_name.as_deref(), is_peer_verified)
            .filter(|_| self.is_established())
    }

    /// Whether the client was asked for a certificate, by the name that it has asked for.
    pub fn client_certificate_mode(&self) -> ClientCertificateMode {
        self.clients.as_ref().map_or(ClientCertificateMode::None, |clients| clients.mode(self.server_name.as_deref()))
    }

    /// The SHA-256 digest of the peer's certificate in DER; `None` if it has none.
    pub fn peer_fingerprint(&self) -> Option<[u8; 32]> {
        let certificate = self.connection.state().peer_certificates()?.first()?;
        digest(&SHA256, certificate).as_ref().try_into().ok()
    }

    /// The application protocol that was negotiated.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.connection.state().alpn_protocol()
    }

    /// Bytes of input that are kept because they are not whole.
    pub fn kept_bytes(&self) -> usize {
        self.kept.len()
    }

    fn progress(&self) -> Received {
        Received {
            is_established: matches!(self.stage, Stage::Established | Stage::PeerClosed),
            is_peer_closed: self.stage == Stage::PeerClosed,
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("stage", &self.stage).field("kept_bytes", &self.kept.len()).finish()
    }
}

/// The number of an alert that stands, not encrypted, at the end of bytes to send.
fn plain_alert(wire: &[u8]) -> Option<u8> {
    match wire {
        [.., 21, 3, _, 0, 2, 2, number] => Some(*number),
        _ => None,
    }
}

//! Transports: how a connection's bytes travel between the protocol and the driver.
//!
//! A plain one, over TCP or a Unix socket, passes bytes through. TLS has a handshake first, sends
//! records, and opens those that it receives. The driver has one send at a time on a socket; bytes
//! of TLS's own leave together with the protocol's where they can, and a completion is the
//! protocol's only if it was of bytes of the protocol.

use std::io;
use std::rc::Rc;

use thalweg_measure::trial::{Negotiated, TlsFigures};
use thalweg_sys::{Connect, Driver, Instant, SendBuf, SocketId};
use thalweg_tls::{Engine, Facts, Failure, FailureKind, Handshake};

use crate::plan::TlsPlan;
use crate::tunnel::Tunnel;

/// A connection's transport.
pub(crate) enum Transport {
    /// Bytes as they are.
    Plain,
    /// Records of TLS.
    Tls(Box<Tls>),
    /// A tunnel through a proxy that is not there yet.
    Tunnel(Box<Tunnel>),
}

/// The state of TLS on a connection.
pub(crate) struct Tls {
    engine: Engine,
    /// Records that wait until the driver has sent those before, and whether some of them are the
    /// protocol's.
    waiting: Vec<u8>,
    waiting_carries: bool,
    /// The records that the driver is sending, if it is.
    in_flight: Rc<Vec<u8>>,
    is_sending: bool,
    carries: bool,
    /// When the handshake began, and the delay with which the thread had learned of the
    /// connection.
    began: Instant,
    notice_delay_ns: u64,
    is_peer_closed: bool,
}

/// Working memory for TLS, shared by the connections of a load thread.
#[derive(Default)]
pub(crate) struct TlsMemory {
    /// Records that are decrypted.
    records: Vec<u8>,
    /// The bytes of the protocol in them.
    pub(crate) plain: Vec<u8>,
}

impl Transport {
    /// Starts to connect.
    ///
    /// # Errors
    /// Only what prevents the attempt.
    pub(crate) fn connect<D: Driver>(driver: &mut D, to: &Connect) -> io::Result<SocketId> {
        driver.connect(to)
    }

    /// Sends bytes of the protocol.
    #[inline]
    pub(crate) fn send<D: Driver>(&mut self, driver: &mut D, id: SocketId, bytes: SendBuf) {
        match self {
            Self::Plain | Self::Tunnel(_) => driver.send(id, bytes),
            Self::Tls(tls) => tls.send(driver, id, bytes.as_slice()),
        }
    }

    /// The driver has sent what it was given. Returns whether those were the bytes of the protocol.
    #[inline]
    pub(crate) fn on_sent<D: Driver>(&mut self, driver: &mut D, id: SocketId) -> bool {
        match self {
            Self::Plain => true,
            Self::Tls(tls) => tls.on_sent(driver, id),
            Self::Tunnel(tunnel) => {
                tunnel.on_sent();
                false
            }
        }
    }

    /// Lets a socket that receives on demand receive.
    #[inline]
    pub(crate) fn receive<D: Driver>(&mut self, driver: &mut D, id: SocketId, bytes_max: u32) {
        driver.receive(id, bytes_max);
    }

    /// Ends our direction in the way of TLS (RFC 8446, 6.1), before the connection is closed. Not
    /// if the driver is still sending: what the connection was to carry is lost then. Returns
    /// whether there is something to send.
    pub(crate) fn close_notify<D: Driver>(&mut self, driver: &mut D, id: SocketId) -> bool {
        match self {
            Self::Plain | Self::Tunnel(_) => false,
            Self::Tls(tls) => tls.close_notify(driver, id),
        }
    }

    /// Whether the end of the server's direction, if it comes now, may be an attacker's: TLS has
    /// not ended it (RFC 8446, 6.1).
    pub(crate) fn is_cut_by_end(&self) -> bool {
        match self {
            Self::Plain | Self::Tunnel(_) => false,
            Self::Tls(tls) => !tls.is_peer_closed,
        }
    }
}

impl Tls {
    /// Begins the handshake on a connection that was just established. The thread has learned of
    /// it with that delay.
    ///
    /// # Errors
    /// The name is not one that TLS can ask for.
    pub(crate) fn begin<D: Driver>(
        driver: &mut D,
        id: SocketId,
        plan: &TlsPlan,
        memory: &mut TlsMemory,
        notice_delay_ns: u64,
    ) -> Result<Self, Failure> {
        let mut tls = Self {
            engine: Engine::connect(&plan.settings, &plan.server_name)?,
            waiting: Vec::new(),
            waiting_carries: false,
            in_flight: Rc::default(),
            is_sending: false,
            carries: false,
            began: driver.now(),
            notice_delay_ns,
            is_peer_closed: false,
        };
        tls.open(&[], memory)?;
        tls.flush(driver, id);
        Ok(tls)
    }

    /// Opens received records into the memory's plain bytes.
    ///
    /// # Errors
    /// TLS has failed. An alert may wait to be sent.
    pub(crate) fn open(&mut self, received: &[u8], memory: &mut TlsMemory) -> Result<(), Failure> {
        memory.plain.clear();
        let TlsMemory { records, plain } = memory;
        let progress = self.engine.receive(received, records, plain, &mut self.waiting)?;
        self.is_peer_closed = progress.is_peer_closed;
        Ok(())
    }

    fn send<D: Driver>(&mut self, driver: &mut D, id: SocketId, bytes: &[u8]) {
        self.waiting_carries = true;
        if self.engine.seal(bytes, &mut self.waiting).is_err() {
            // The keys are used up: the server gets the end of this direction, and ends its own.
            driver.finish(id);
        }
        self.flush(driver, id);
    }

    /// Sends the records that wait, unless a send is under way.
    pub(crate) fn flush<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        if self.is_sending || self.waiting.is_empty() {
            return;
        }
        let in_flight = Rc::get_mut(&mut self.in_flight).expect("the send before has ended, and the driver's share");
        in_flight.clear();
        std::mem::swap(in_flight, &mut self.waiting);
        self.is_sending = true;
        self.carries = std::mem::take(&mut self.waiting_carries);
        driver.send(id, SendBuf::Shared(self.in_flight.clone()));
    }

    fn close_notify<D: Driver>(&mut self, driver: &mut D, id: SocketId) -> bool {
        if self.is_sending {
            return false;
        }
        self.engine.close(&mut self.waiting);
        self.flush(driver, id);
        self.is_sending
    }

    fn on_sent<D: Driver>(&mut self, driver: &mut D, id: SocketId) -> bool {
        self.is_sending = false;
        let carried = std::mem::take(&mut self.carries);
        self.flush(driver, id);
        carried
    }

    /// Whether the handshake is complete.
    pub(crate) fn is_established(&self) -> bool {
        self.engine.is_established()
    }

    /// Whether the server has ended its direction by close_notify.
    pub(crate) fn is_peer_closed(&self) -> bool {
        self.is_peer_closed
    }

    /// The delay with which the thread had learned that the connection was there.
    pub(crate) fn notice_delay_ns(&self) -> u64 {
        self.notice_delay_ns
    }

    /// Counts the handshake, which is complete now, and returns what came of it.
    pub(crate) fn record(&self, figures: &mut TlsFigures, now: Instant) -> Option<Facts> {
        let facts = self.engine.facts()?;
        figures.handshake.record(now.ns_since(self.began));
        match facts.handshake {
            Handshake::Full => figures.full += 1,
            Handshake::FullAfterRetry => (figures.full, figures.retried) = (figures.full + 1, figures.retried + 1),
            Handshake::Resumed => figures.resumed += 1,
        }
        figures.chain_bytes = figures.chain_bytes.max(facts.peer_chain_bytes as u64);
        *figures.negotiated.entry(negotiated(&facts)).or_default() += 1;
        Some(facts)
    }
}

fn negotiated(facts: &Facts) -> Negotiated {
    Negotiated {
        version: facts.version.name().to_owned(),
        suite: facts.suite.to_owned(),
        group: facts.group.map(str::to_owned),
        alpn: facts.alpn.as_deref().map(|name| String::from_utf8_lossy(name).into_owned()),
    }
}

/// The name of a failure's cause in the figures.
pub(crate) fn cause_of(failure: &Failure) -> String {
    match (failure.kind, failure.alert) {
        (FailureKind::Certificate(fault), _) => format!("certificate_{}", fault.name()),
        (FailureKind::AlertReceived, Some(alert)) => format!("alert_{}", alert.name()),
        (FailureKind::AlertReceived, None) => "alert_unknown".to_owned(),
        (FailureKind::NothingInCommon, _) => "nothing_in_common".to_owned(),
        (FailureKind::NoApplicationProtocol, _) => "no_application_protocol".to_owned(),
        (FailureKind::Protocol, _) => "protocol".to_owned(),
        (FailureKind::OversizedRecord, _) => "oversized_record".to_owned(),
        (FailureKind::Decryption, _) => "decryption".to_owned(),
        (FailureKind::Ended, _) => "ended".to_owned(),
        _ => "local".to_owned(),
    }
}

//! TLS connections in both roles: bytes that nobody has sealed, and bytes of a connection that are
//! altered on their way.
//!
//! The keys of each connection are random, so that an input alters the same places of a handshake
//! and not the same bytes. What is checked holds for any keys.

use std::sync::{Arc, LazyLock};

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd};
use thalweg_tls::{
    Alert, Certificate, CertificateStore, ClientCertificateMode, ClientCertificates, ClientOptions, ClientSettings,
    Engine, Failure, FailureKind, Handshake, Resume, Roots, Selection, ServerOptions, ServerSettings, TicketKeys,
    Version,
};

/// Most bytes that a side sends because it has received some: the largest flight of a handshake.
const FLIGHT_BYTES_MAX: usize = 8 << 10;

/// Most bytes of input that a side keeps.
const KEPT_BYTES_MAX: usize = 128 << 10;

/// A side that has sealed so many bytes seals no more.
const SEALED_BYTES_MAX: usize = 40 << 10;

/// Most steps of an input.
const STEPS_MAX: usize = 100;

const NAME: &str = "a.test";

/// A byte with the subject and the connection's kind, one with the length of pieces, and the bytes
/// for one side or the steps of two.
pub fn tls(data: &[u8]) {
    let [how, piece, rest @ ..] = data else { return };
    let kind = Kind::of(how >> 2);
    let piece = usize::from(*piece) + 1;
    match how & 3 {
        0 => check_cuts(|| Side::server(kind), rest, piece),
        1 => check_cuts(|| Side::client(&client_settings(kind)), rest, piece),
        2 => {
            let established = || {
                let [client, server] = Pair::settled(kind, &client_settings(kind)).sides;
                if how & 0x80 == 0 { server } else { client }
            };
            check_cuts(established, rest, piece);
        }
        _ => check_steps(kind, rest, piece),
    }
}

/// The kind of a connection.
#[derive(Clone, Copy)]
struct Kind {
    version: Version,
    /// It resumes a session.
    resumes: bool,
    /// The server requires a certificate of the client, which has one.
    asks_client: bool,
    /// The client guesses a group that the server does not take (RFC 8446, 4.1.4).
    guesses_wrong: bool,
}

impl Kind {
    fn of(bits: u8) -> Self {
        Self {
            version: if bits & 1 == 0 { Version::Tls13 } else { Version::Tls12 },
            resumes: bits & 2 != 0,
            asks_client: bits & 4 != 0,
            guesses_wrong: bits & 8 != 0,
        }
    }
}

/// Certificates in PEM with their keys, and the authority that has issued them.
struct Issued {
    authority: Vec<u8>,
    server: [String; 2],
    client: [String; 2],
}

static ISSUED: LazyLock<Issued> = LazyLock::new(|| {
    let mut params = params(&[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key can be made");
    let authority = params.self_signed(&key).expect("it can be signed").pem().into_bytes();
    let issuer = Issuer::new(params, key);
    let issue = |purpose| {
        let mut params = self::params(&[NAME.to_owned()]);
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().expect("a key can be made");
        [params.signed_by(&key, &issuer).expect("it can be signed").pem(), key.serialize_pem()]
    };
    let [server, client] = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth].map(issue);
    Issued { authority, server, client }
});

fn params(names: &[String]) -> CertificateParams {
    let mut params = CertificateParams::new(names).expect("the names can be in a certificate");
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2090, 1, 1));
    params
}

fn certificate([chain, key]: &[String; 2]) -> Certificate {
    Certificate::of_pem(chain.as_bytes(), key.as_bytes()).expect("they were just made")
}

fn server_settings(kind: Kind) -> &'static ServerSettings {
    static ALL: LazyLock<[[ServerSettings; 2]; 2]> = LazyLock::new(|| {
        [ClientCertificateMode::None, ClientCertificateMode::Required].map(|mode| {
            [&["X25519", "secp256r1"][..], &["secp256r1"]].map(|groups| {
                let store = Arc::new(CertificateStore::default());
                store.set(&[(Vec::new(), certificate(&ISSUED.server))]);
                let options = ServerOptions {
                    selection: selection(Version::Tls13, groups),
                    alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
                    tickets: Some(TicketKeys::new().expect("the system has randomness")),
                    clients: ClientCertificates::of_all(mode, ISSUED.authority.clone()),
                };
                ServerSettings::new(options, &store).expect("the options are in order")
            })
        })
    });
    &ALL[usize::from(kind.asks_client)][usize::from(kind.guesses_wrong)]
}

/// A client's settings, with a session if one is to be resumed.
fn client_settings(kind: Kind) -> ClientSettings {
    let options = ClientOptions {
        selection: selection(kind.version, &["X25519", "secp256r1"]),
        alpn: vec![b"http/1.1".to_vec()],
        roots: Roots::Pem(ISSUED.authority.clone()),
        certificate: kind.asks_client.then(|| certificate(&ISSUED.client)),
        resume: Resume::Tickets,
        ..ClientOptions::default()
    };
    let settings = ClientSettings::new(options).expect("the options are in order");
    if kind.resumes {
        Pair::settled(kind, &settings);
    }
    settings
}

fn selection(version_max: Version, groups: &[&str]) -> Selection {
    let groups = groups.iter().map(|&group| group.to_owned()).collect();
    Selection { version_max, groups, ..Selection::default() }
}

/// One side of a connection.
struct Side {
    engine: Engine,
    received_bytes: usize,
    plain: Vec<u8>,
    /// The bytes that wait to be delivered.
    wire: Vec<u8>,
    /// The plain bytes that it has sealed.
    sealed: Vec<u8>,
    has_closed: bool,
    is_peer_closed: bool,
    failure: Option<Failure>,
}

impl Side {
    fn new(engine: Engine) -> Self {
        let (has_closed, is_peer_closed) = (false, false);
        let (plain, wire, sealed) = (Vec::new(), Vec::new(), Vec::new());
        Self { engine, received_bytes: 0, plain, wire, sealed, has_closed, is_peer_closed, failure: None }
    }

    fn server(kind: Kind) -> Self {
        Self::new(Engine::accept(server_settings(kind)).expect("the settings are in order"))
    }

    /// A client whose first bytes wait.
    fn client(settings: &ClientSettings) -> Self {
        let mut client = Self::new(Engine::connect(settings, NAME).expect("the name is in order"));
        client.receive(b"");
        client
    }

    fn receive(&mut self, bytes: &[u8]) {
        let sent = self.wire.len();
        self.received_bytes += bytes.len();
        match self.engine.receive(bytes, &mut Vec::new(), &mut self.plain, &mut self.wire) {
            Ok(received) => {
                assert!(self.failure.is_none(), "a connection that has failed goes on");
                assert_eq!(received.is_established, self.engine.facts().is_some());
                assert!(received.is_peer_closed || !self.is_peer_closed, "an end is for good");
                self.is_peer_closed = received.is_peer_closed;
            }
            Err(failure) => {
                assert_eq!(self.engine.kept_bytes(), 0, "nothing is kept after {failure}");
                assert!(!self.engine.is_established());
                self.failure.get_or_insert(failure);
            }
        }
        let flight = self.wire.len() - sent;
        assert!(flight <= FLIGHT_BYTES_MAX, "{flight} bytes are sent for {}", bytes.len());
        assert!(self.engine.kept_bytes() <= self.received_bytes.min(KEPT_BYTES_MAX));
    }

    /// Whether it can send.
    fn is_open(&self) -> bool {
        self.engine.is_established() && !self.has_closed
    }

    /// Seals so many bytes, unless it has sealed many already.
    fn seal(&mut self, bytes: usize) {
        if self.is_open() && self.sealed.len() < SEALED_BYTES_MAX {
            let text: Vec<u8> = (0..bytes).map(|at| (at * 7 + self.sealed.len()) as u8).collect();
            self.engine.seal(&text, &mut self.wire).expect("an established connection can send");
            self.sealed.extend_from_slice(&text);
        }
    }

    fn close(&mut self) {
        if self.is_open() {
            self.engine.close(&mut self.wire);
            self.has_closed = true;
        }
    }

    /// The end to which it has come.
    fn end(&self) -> (Option<(FailureKind, Option<Alert>)>, bool, bool) {
        let failure = self.failure.as_ref().map(|failure| (failure.kind, failure.alert));
        (failure, self.engine.is_established(), self.is_peer_closed)
    }
}

/// A side comes to the same end however its input is cut, and takes nothing of it for plain bytes
/// of its peer, which has sealed none.
fn check_cuts(start: impl Fn() -> Side, input: &[u8], piece: usize) {
    let ends = [input.len().max(1), piece].map(|piece| {
        let mut side = start();
        input.chunks(piece).for_each(|part| side.receive(part));
        assert!(side.plain.is_empty() && !side.is_peer_closed, "input is taken for the peer's");
        side.end()
    });
    assert_eq!(ends[0], ends[1]);
}

/// A client and a server, in this order.
struct Pair {
    sides: [Side; 2],
}

impl Pair {
    fn new(kind: Kind, client: &ClientSettings) -> Self {
        Self { sides: [Side::client(client), Side::server(kind)] }
    }

    fn settled(kind: Kind, client: &ClientSettings) -> Self {
        let mut pair = Self::new(kind, client);
        pair.settle(usize::MAX);
        pair
    }

    /// Delivers the first of the bytes that a side has sent, in pieces.
    fn deliver(&mut self, from: usize, bytes_max: usize, piece: usize) {
        let wire = &mut self.sides[from].wire;
        let first: Vec<u8> = wire.drain(..wire.len().min(bytes_max)).collect();
        first.chunks(piece).for_each(|part| self.sides[1 - from].receive(part));
        let [of, to] = [from, 1 - from].map(|side| &self.sides[side]);
        assert!(of.sealed.starts_with(&to.plain), "{} plain bytes of {}", to.plain.len(), of.sealed.len());
        if to.is_peer_closed {
            assert!(of.has_closed && of.sealed == to.plain, "a truncation passes for an end");
        }
    }

    /// Delivers all that is sent until neither side sends any more.
    fn settle(&mut self, piece: usize) {
        while let Some(from) = self.sides.iter().position(|side| !side.wire.is_empty()) {
            self.deliver(from, usize::MAX, piece);
        }
    }
}

/// A connection whose bytes are altered between its sides: no side takes anything for its peer's
/// that the peer has not sealed. If nothing is altered, all of it arrives.
fn check_steps(kind: Kind, steps: &[u8], piece: usize) {
    let mut pair = Pair::new(kind, &client_settings(kind));
    let (mut rest, mut is_altered) = (steps, false);
    for _ in 0..STEPS_MAX {
        let [step, high, low, amount, behind @ ..] = rest else { break };
        rest = behind;
        let (from, amount) = (usize::from(step & 1), usize::from(*amount));
        let place = usize::from(u16::from_be_bytes([*high, *low]));
        match step >> 1 & 7 {
            0 => pair.deliver(from, usize::MAX, piece),
            1 => pair.deliver(from, place, piece),
            2 => pair.sides[from].seal(place),
            3 => pair.sides[from].close(),
            change => {
                let (text, behind) = rest.split_at(if change == 7 { rest.len().min(amount) } else { 0 });
                rest = behind;
                is_altered |= alter(&mut pair.sides[from].wire, change, place, amount, text);
            }
        }
    }
    pair.settle(piece);
    if !is_altered {
        check_unaltered(&pair, kind);
    }
}

/// Changes bytes on their way. Returns whether anything is different.
fn alter(wire: &mut Vec<u8>, change: u8, place: usize, amount: usize, text: &[u8]) -> bool {
    if wire.is_empty() {
        return false;
    }
    let start = place % wire.len();
    let end = (start + amount).min(wire.len());
    let before = wire.clone();
    match change {
        4 => wire[start] ^= amount as u8,
        5 => drop(wire.drain(start..end)),
        6 => {
            let again = wire[start..end].to_vec();
            wire.splice(end..end, again);
        }
        _ => drop(wire.splice(start..start, text.iter().copied())),
    }
    *wire != before
}

fn check_unaltered(pair: &Pair, kind: Kind) {
    let [client, server] = &pair.sides;
    for (side, peer, verifies) in [(client, server, true), (server, client, kind.asks_client)] {
        assert_eq!(side.failure, None);
        assert!(side.plain == peer.sealed && side.is_peer_closed == peer.has_closed && side.engine.kept_bytes() == 0);
        let facts = side.engine.facts().expect("it is established");
        assert_eq!((facts.version, facts.alpn.as_deref()), (kind.version, Some(&b"http/1.1"[..])));
        assert_eq!(facts.handshake == Handshake::Resumed, kind.resumes);
        assert_eq!(facts.is_peer_verified, verifies);
    }
}

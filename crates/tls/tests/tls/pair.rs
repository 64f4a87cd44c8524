//! A client and a server, and the bytes between them.

use std::sync::{Arc, LazyLock};

use thalweg_tls::{
    Certificate, CertificateStore, ClientOptions, ClientSettings, Engine, Failure, Roots, ServerOptions, ServerSettings,
};

use crate::authority::{Authority, Issued};

/// The authority of all tests that need no other.
pub(crate) static ROOT: LazyLock<Authority> = LazyLock::new(|| Authority::root("root of the tests"));

/// A server that presents one certificate.
pub(crate) fn server(issued: &Issued, options: ServerOptions) -> ServerSettings {
    server_of(&[issued], options)
}

/// A server that presents several certificates.
pub(crate) fn server_of(issued: &[&Issued], options: ServerOptions) -> ServerSettings {
    let store = Arc::new(CertificateStore::default());
    let certificates: Vec<_> = issued.iter().map(|issued| (Vec::new(), certificate(issued))).collect();
    store.set(&certificates);
    ServerSettings::new(options, &store).unwrap()
}

pub(crate) fn certificate(issued: &Issued) -> Certificate {
    Certificate::of_pem(issued.pem.as_bytes(), issued.key.as_bytes()).unwrap()
}

/// A client that trusts the tests' authority.
pub(crate) fn client(options: ClientOptions) -> ClientSettings {
    let roots = if options.roots == Roots::System { Roots::Pem(ROOT.pem.clone().into()) } else { options.roots };
    ClientSettings::new(ClientOptions { roots, ..options }).unwrap()
}

/// One side, with what it has received and what it wants to send.
pub(crate) struct Side {
    pub(crate) engine: Engine,
    pub(crate) plain: Vec<u8>,
    pub(crate) wire: Vec<u8>,
    pub(crate) failure: Option<Failure>,
    pub(crate) is_peer_closed: bool,
}

impl Side {
    fn new(engine: Engine) -> Self {
        Self { engine, plain: Vec::new(), wire: Vec::new(), failure: None, is_peer_closed: false }
    }

    /// Receives bytes.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        if self.failure.is_some() {
            return;
        }
        match self.engine.receive(bytes, &mut Vec::new(), &mut self.plain, &mut self.wire) {
            Ok(received) => self.is_peer_closed = received.is_peer_closed,
            Err(failure) => self.failure = Some(failure),
        }
    }
}

/// A client and a server.
pub(crate) struct Pair {
    pub(crate) client: Side,
    pub(crate) server: Side,
}

impl Pair {
    /// A pair that has not exchanged anything yet.
    pub(crate) fn new(client: &ClientSettings, server: &ServerSettings, name: &str) -> Self {
        let mut client = Side::new(Engine::connect(client, name).unwrap());
        client.receive(b"");
        Self { client, server: Side::new(Engine::accept(server).unwrap()) }
    }

    /// A pair that has exchanged all that it wants to.
    pub(crate) fn settled(client: &ClientSettings, server: &ServerSettings, name: &str) -> Self {
        let mut pair = Self::new(client, server, name);
        pair.exchange(|_| usize::MAX);
        pair
    }

    /// Exchanges bytes until neither side has any, in fragments of so many of those left.
    pub(crate) fn exchange(&mut self, mut fragment: impl FnMut(usize) -> usize) {
        while !(self.client.wire.is_empty() && self.server.wire.is_empty()) {
            deliver(&mut self.client, &mut self.server, &mut fragment);
            deliver(&mut self.server, &mut self.client, &mut fragment);
        }
    }
}

/// Delivers the bytes of one side to the other.
fn deliver(from: &mut Side, to: &mut Side, fragment: &mut impl FnMut(usize) -> usize) {
    let bytes = std::mem::take(&mut from.wire);
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (first, others) = rest.split_at(fragment(rest.len()).clamp(1, rest.len()));
        to.receive(first);
        rest = others;
    }
}

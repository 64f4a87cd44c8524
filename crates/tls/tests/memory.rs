//! The memory of idle connections, as the kernel accounts for it: the provider's memory is not
//! Rust's.

#![forbid(unsafe_code)]

use std::fs;
use std::sync::Arc;

use thalweg_tls::{
    CertificateStore, ClientOptions, ClientSettings, Engine, Selection, ServerOptions, ServerSettings, TicketKeys,
    Version, self_signed,
};

/// The most that an idle connection of a server may take.
const IDLE_BYTES_MAX: u64 = 8 << 10;

const CONNECTIONS: usize = 2000;

fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// A server's side of a connection that has exchanged a request and a response.
fn established(client: &ClientSettings, server: &ServerSettings) -> Engine {
    let mut ours = Engine::accept(server).unwrap();
    let mut theirs = Engine::connect(client, "localhost").unwrap();
    let (mut scratch, mut plain) = (Vec::new(), Vec::new());
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    theirs.receive(b"", &mut scratch, &mut plain, &mut to_server).unwrap();
    while !to_server.is_empty() {
        ours.receive(&std::mem::take(&mut to_server), &mut scratch, &mut plain, &mut to_client).unwrap();
        theirs.receive(&std::mem::take(&mut to_client), &mut scratch, &mut plain, &mut to_server).unwrap();
    }
    theirs.seal(&[1; 500], &mut to_server).unwrap();
    ours.receive(&to_server, &mut scratch, &mut plain, &mut to_client).unwrap();
    ours.seal(&[2; 30_000], &mut to_client).unwrap();
    ours
}

#[test]
fn an_idle_connection_holds_no_buffer() {
    let store = Arc::new(CertificateStore::default());
    store.set(&[(Vec::new(), self_signed(&["localhost".into()]).unwrap())]);
    let tickets = Some(TicketKeys::new().unwrap());
    let server = ServerSettings::new(ServerOptions { tickets, ..ServerOptions::default() }, &store).unwrap();
    for version in [Version::Tls13, Version::Tls12] {
        let selection = Selection { version_max: version, ..Selection::default() };
        let options = ClientOptions { selection, insecure: true, ..ClientOptions::default() };
        let client = ClientSettings::new(options).unwrap();
        let connect = |count: usize| (0..count).map(|_| established(&client, &server)).collect::<Vec<_>>();
        let first = connect(CONNECTIONS / 4);
        let before = resident_bytes();
        let others = connect(CONNECTIONS);
        let each = resident_bytes().saturating_sub(before) / CONNECTIONS as u64;
        assert!(each <= IDLE_BYTES_MAX, "{each} bytes with TLS {version}");
        drop((first, others));
    }
}

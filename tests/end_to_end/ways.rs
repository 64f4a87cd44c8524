//! Ways to the target other than a plain connection to the first address of its name: a proxy of
//! HTTP or SOCKS5, and a server that wants PROXY headers.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::document::{self, outcome};
use crate::nginx::Nginx;
use crate::process::run_thalweg;

/// A proxy that makes tunnels, and how many it has made.
fn proxy(
    make: impl Fn(&mut TcpStream) -> io::Result<Option<TcpStream>> + Copy + Send + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let tunnels = Arc::new(AtomicUsize::new(0));
    let counted = tunnels.clone();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let counted = counted.clone();
            thread::spawn(move || {
                let mut client = client;
                let Ok(Some(server)) = make(&mut client) else { return };
                counted.fetch_add(1, Ordering::Relaxed);
                let (mut to, mut from) = (server.try_clone().expect("a socket"), server);
                let mut answers = client.try_clone().expect("a socket");
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut answers);
                    let _ = answers.shutdown(std::net::Shutdown::Write);
                });
                let _ = io::copy(&mut client, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    (address, tunnels)
}

/// CONNECT, as a naive proxy has it.
fn by_connect(client: &mut TcpStream) -> io::Result<Option<TcpStream>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let authority = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next());
    match authority {
        Some(authority) if !authority.contains("forbidden") => {
            let server = TcpStream::connect(authority)?;
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
            Ok(Some(server))
        }
        _ => client.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").map(|()| None),
    }
}

/// SOCKS5 to an IPv4 address, without credentials.
fn by_socks(client: &mut TcpStream) -> io::Result<Option<TcpStream>> {
    let mut greeting = [0; 3];
    client.read_exact(&mut greeting)?;
    assert_eq!(greeting, [5, 1, 0]);
    client.write_all(&[5, 0])?;
    let mut request = [0; 10];
    client.read_exact(&mut request)?;
    let [5, 1, 0, 1, a, b, c, d, high, low] = request else { panic!("{request:?}") };
    let server = TcpStream::connect(SocketAddr::from(([a, b, c, d], u16::from_be_bytes([high, low]))))?;
    client.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 0])?;
    Ok(Some(server))
}

#[test]
fn a_load_through_a_proxy_was_not_to_be_had() {
    let nginx = Nginx::with_listener("ssl http2", "");
    let (connect, tunnels) = proxy(by_connect);
    let (socks, socks_tunnels) = proxy(by_socks);
    let authority = nginx.authority();
    let (plain, secure) = (nginx.url("/000.txt"), nginx.other_url("https", "/000.txt"));
    let tls = ["--http", "2", "--cacert", authority.as_str()];
    for (url, more) in [(&plain, &[][..]), (&secure, &tls[..])] {
        for (scheme, address, made) in [("http", connect, &tunnels), ("socks5", socks, &socks_tunnels)] {
            let before = made.load(Ordering::Relaxed);
            let through = format!("{scheme}://{address}");
            let usual = ["run", url.as_str(), "--proxy", &through, "--workers", "2", "--requests", "40", "--json"];
            let trial = document::trial(&run_thalweg(&[&usual[..], more].concat()));
            assert_eq!(outcome(&trial, "good"), 40, "{scheme}, {url}: {trial:#}");
            assert_eq!(made.load(Ordering::Relaxed) - before, 2, "{scheme}, {url}");
        }
    }
    let through = format!("http://{connect}");
    let refused =
        ["run", "http://forbidden.invalid/", "--proxy", &through, "--workers", "1", "--requests", "2", "--json"];
    let trial = document::trial(&run_thalweg(&refused));
    assert_eq!(outcome(&trial, "unreachable"), 2, "{trial:#}");
    assert!(trial["reasons"].to_string().contains("it answered HTTP/1.1 403 Forbidden"), "{trial:#}");
}

/// nginx closes a connection that does not begin with a header.
#[test]
fn a_server_that_wants_proxy_headers_is_measured() {
    let nginx = Nginx::with_listener("proxy_protocol", "");
    let url = nginx.other_url("http", "/000.txt");
    for version in ["1", "2"] {
        let usual = ["run", &url, "--proxy-protocol", version, "--workers", "2", "--requests", "20", "--json"];
        let trial = document::trial(&run_thalweg(&usual));
        assert_eq!(outcome(&trial, "good"), 20, "{trial:#}");
    }
}

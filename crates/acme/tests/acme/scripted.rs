//! An authority that follows a script, for what Pebble never does.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::PrivateKeyDer;

/// A status line's end, fields, and a body.
pub(crate) type Answer = (&'static str, Vec<(&'static str, String)>, String);

/// Starts an authority that answers each request by its path, and writes its root to a file in PEM.
/// `script` knows the address too.
pub(crate) fn start(roots: &Path, script: impl Fn(SocketAddr, &str) -> Answer + Send + 'static) -> SocketAddr {
    let key = rcgen::KeyPair::generate().expect("a key can be made");
    let params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address is a name");
    let certificate = params.self_signed(&key).expect("a certificate can be made");
    fs::write(roots, certificate.pem()).expect("a file can be written");
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider knows the versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .expect("the key is that of the certificate");
    let config = Arc::new(config);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let address = listener.local_addr().expect("a listener has an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that hangs up has its reasons; the tests look at its reports.
            let _ = answer(stream, &config, |path| script(address, path));
        }
    });
    address
}

/// Answers the one request of a connection.
fn answer(stream: TcpStream, config: &Arc<ServerConfig>, script: impl Fn(&str) -> Answer) -> io::Result<()> {
    let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(session, stream));
    let mut first = String::new();
    stream.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        length = line.strip_prefix("content-length: ").and_then(|length| length.parse().ok()).unwrap_or(length);
    }
    stream.read_exact(&mut vec![0; length])?;
    let (status, fields, body) = script(first.split(' ').nth(1).unwrap_or_default());
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let body = if first.starts_with("HEAD ") { "" } else { &body };
    let stream = stream.get_mut();
    write!(stream, "HTTP/1.1 {status}\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")?;
    stream.flush()?;
    stream.conn.send_close_notify();
    stream.flush()
}

/// An authority with accounts whose answer to an order is this one.
pub(crate) fn ordering(order: Answer) -> impl Fn(SocketAddr, &str) -> Answer + Send + 'static {
    move |address, path| {
        let nonce = ("Replay-Nonce", "nonce".to_owned());
        let url = |path: &str| format!("https://{address}{path}");
        match path {
            "/directory" => {
                let [nonce, account, order] = ["/nonce", "/accounts", "/orders"].map(url);
                let directory = serde_json::json!({"newNonce": nonce, "newAccount": account, "newOrder": order});
                ("200 OK", Vec::new(), directory.to_string())
            }
            "/nonce" => ("200 OK", vec![nonce], String::new()),
            "/accounts" => ("201 Created", vec![nonce, ("Location", url("/accounts/1"))], "{}".into()),
            "/orders" => {
                let (status, fields, body) = order.clone();
                (status, [vec![nonce], fields].concat(), body)
            }
            _ => ("404 Not Found", Vec::new(), String::new()),
        }
    }
}

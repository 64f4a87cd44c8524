//! A small server that answers challenges, as the client's host. Its parsing is its own.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ServerConfig, ServerConnection};
use thalweg_acme::{Challenge, Host, Report};
use thalweg_tls::{Certificate, CertificateStore, TLS_ALPN_CHALLENGE};

/// A client that is silent for so long is left alone.
const PATIENCE: Duration = Duration::from_secs(60);

/// Listeners for challenges by HTTP and by TLS, and what the client has had it do.
pub(crate) struct Responder {
    pub(crate) http_port: u16,
    pub(crate) tls_port: u16,
    tokens: Arc<Mutex<HashMap<String, String>>>,
    store: Arc<CertificateStore>,
    /// Key authorizations are answered with something else.
    pub(crate) lies: bool,
    /// Certificates are refused.
    pub(crate) refuses_certificates: bool,
    /// The certificates that were installed: names, chain, key.
    pub(crate) installed: Vec<(Vec<String>, Vec<u8>, Vec<u8>)>,
    pub(crate) reports: Vec<Report>,
    /// Challenges that were answered, in order, and those that still are.
    pub(crate) answered: Vec<Challenge>,
    pub(crate) answering: Vec<Challenge>,
}

impl Responder {
    pub(crate) fn start() -> Self {
        let http = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let tls = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = |listener: &TcpListener| listener.local_addr().expect("a listener has an address").port();
        let (http_port, tls_port) = (port(&http), port(&tls));
        let tokens: Arc<Mutex<HashMap<String, String>>> = Arc::default();
        let store: Arc<CertificateStore> = Arc::default();
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider knows the versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&store) as Arc<_>);
        config.alpn_protocols = vec![TLS_ALPN_CHALLENGE.to_vec()];
        let (config, known) = (Arc::new(config), Arc::clone(&tokens));
        // An authority that hangs up early has its own reasons; the tests look at its verdict.
        serve(http, move |stream| answer_http(stream, &known));
        serve(tls, move |mut stream| {
            let mut session = ServerConnection::new(Arc::clone(&config)).map_err(io::Error::other)?;
            session.complete_io(&mut stream).map(drop)
        });
        Self {
            http_port,
            tls_port,
            tokens,
            store,
            lies: false,
            refuses_certificates: false,
            installed: Vec::new(),
            reports: Vec::new(),
            answered: Vec::new(),
            answering: Vec::new(),
        }
    }

    /// The reports since the last call, as lines.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        self.reports.drain(..).map(|report| report.to_string()).collect()
    }

    fn note(&mut self, challenge: Challenge) {
        self.answered.push(challenge.clone());
        self.answering.push(challenge);
    }
}

impl Host for Responder {
    fn http_challenge(&mut self, token: &str, key_authorization: &str) -> io::Result<()> {
        let answer = if self.lies { "something else" } else { key_authorization };
        self.tokens.lock().expect("no thread has panicked").insert(token.into(), answer.into());
        self.note(Challenge::Http { token: token.into() });
        Ok(())
    }

    fn alpn_challenge(&mut self, name: &str, chain_pem: &[u8], key_pem: &[u8]) -> io::Result<()> {
        let certificate = Certificate::of_challenge(chain_pem, key_pem).map_err(io::Error::other)?;
        self.store.set_challenge(name, Some(&certificate).filter(|_| !self.lies));
        self.note(Challenge::Alpn { name: name.into() });
        Ok(())
    }

    fn withdraw(&mut self, challenge: &Challenge) -> io::Result<()> {
        match challenge {
            Challenge::Http { token } => drop(self.tokens.lock().expect("no thread has panicked").remove(token)),
            Challenge::Alpn { name } => self.store.set_challenge(name, None),
        }
        self.answering.retain(|other| other != challenge);
        Ok(())
    }

    fn install(&mut self, names: &[String], chain_pem: &[u8], key_pem: &[u8]) -> io::Result<()> {
        if self.refuses_certificates {
            return Err(io::Error::other("a server that is out of order"));
        }
        Certificate::of_pem(chain_pem, key_pem).map_err(io::Error::other)?;
        self.installed.push((names.to_vec(), chain_pem.to_vec(), key_pem.to_vec()));
        Ok(())
    }

    fn report(&mut self, report: &Report) {
        self.reports.push(report.clone());
    }
}

/// Answers each connection in turn, for as long as the test runs.
fn serve(listener: TcpListener, answer: impl Fn(TcpStream) -> io::Result<()> + Send + 'static) {
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| answer(stream));
        }
    });
}

fn answer_http(mut stream: TcpStream, tokens: &Mutex<HashMap<String, String>>) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap_or_default();
    let token = path.strip_prefix("/.well-known/acme-challenge/").unwrap_or_default();
    let answer = tokens.lock().expect("no thread has panicked").get(token).cloned();
    let (status, body) = answer.map_or(("404 Not Found", String::new()), |body| ("200 OK", body));
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

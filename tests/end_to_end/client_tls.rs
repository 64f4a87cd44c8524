//! The load generator over TLS, against OpenSSL's server and nginx: handshakes, resumption, and
//! certificates with faults, which are named.

use std::fs;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::authority::{Authority, Issued, Validity};
use crate::document::{self, outcome};
use crate::drivers::{BOTH_DRIVERS, drivers};
use crate::operation::listening;
use crate::process::{ExitedProcess, PATIENCE, Process, free_port, program, run_thalweg, thalweg, until};
use crate::server::Tree;

const REQUESTS: u64 = 20;

/// OpenSSL's server, which responds with a page and closes.
struct OpenSsl {
    process: Process,
    folder: TempDir,
    port: u16,
}

impl OpenSsl {
    fn start(issued: &Issued, authority: &Authority, options: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let path = |name: &str| folder.path().join(name);
        // The first certificate of the file is the server's, the others its chain.
        fs::write(path("chain.pem"), &issued.pem).unwrap();
        fs::write(path("key.pem"), &issued.key).unwrap();
        fs::write(path("ca.pem"), &authority.pem).unwrap();
        let port = free_port();
        let mut command = Command::new(program(&["openssl"], "openssl"));
        command.arg("s_server").arg("-cert").arg(path("chain.pem")).arg("-cert_chain").arg(path("chain.pem"));
        command.arg("-key").arg(path("key.pem")).args(["-www", "-quiet", "-accept", &format!("127.0.0.1:{port}")]);
        let process = Process::start(command.args(options).stdin(Stdio::null()));
        until("OpenSSL to listen", PATIENCE, || TcpStream::connect(("127.0.0.1", port)).ok());
        Self { process, folder, port }
    }

    fn ca(&self) -> String {
        self.folder.path().join("ca.pem").to_str().unwrap().to_owned()
    }

    fn run(&self, options: &[&str]) -> ExitedProcess {
        let url = format!("https://127.0.0.1:{}/", self.port);
        let load = ["--rate", "100/s", "--requests", "20", "--connections", "2", "--calls", "1", "--http", "1.0"];
        run_thalweg(&[&["run", &url, "--json", "--store", "none"], &load[..], options].concat())
    }
}

fn check_fault(fault: &str, sentence: &str, issued: &Issued, authority: &Authority) {
    let server = OpenSsl::start(issued, authority, &[]);
    for driver in drivers() {
        let ended = server.run(&["--cacert", &server.ca(), "--driver", driver]);
        let trial = document::trial(&ended);
        assert_eq!(outcome(&trial, "tls_failure"), REQUESTS, "{fault} over {driver}: {trial:#}");
        let failures = trial["tls"]["failures"].as_object().unwrap();
        assert!(failures[&format!("certificate_{fault}")].as_u64() >= Some(1), "{failures:?}");
        assert_eq!(failures.len(), 1, "{failures:?}");
        let first = trial["tls"]["first_failure"].as_str().unwrap();
        assert!(first.contains(sentence), "{first}");
        let insecure = document::trial(&server.run(&["--insecure", "--driver", driver]));
        assert_eq!(outcome(&insecure, "good"), REQUESTS, "{fault}, accepted: {insecure:#}");
    }
    drop(server.process);
}

#[test]
fn faults_of_certificates_are_named() {
    let root = Authority::root("root");
    let names = ["127.0.0.1"];
    check_fault("expired", "has expired", &root.server_valid(&names, Validity::Past), &root);
    check_fault("not_yet_valid", "not valid yet", &root.server_valid(&names, Validity::Future), &root);
    check_fault("wrong_name", "for other names", &root.server(&["other.example"]), &root);
    check_fault("truncated_chain", "was neither sent", &root.intermediate("between").server(&names), &root);
    let other = Authority::root("other");
    let mut untrusted = other.server(&names);
    untrusted.pem.push_str(&other.pem);
    check_fault("unknown_issuer", "is not trusted", &untrusted, &root);
    let server = Tree::new();
    let folder = server.root();
    let arguments = ["serve", folder.to_str().unwrap(), "--listen", "127.0.0.1:0", "--tls", "self-signed"];
    let mut process = Process::start(&mut thalweg(&arguments));
    let url = listening(&mut process, 0);
    let ca = folder.join("ca.pem");
    fs::write(&ca, &root.pem).unwrap();
    let load = ["--workers", "1", "--requests", "5", "--cacert", ca.to_str().unwrap()];
    let trial = document::trial(&run_thalweg(&[&["run", &url, "--json"], &load[..]].concat()));
    assert_eq!(outcome(&trial, "tls_failure"), 5, "{trial:#}");
    assert!(trial["tls"]["failures"]["certificate_self_signed"].as_u64() >= Some(1), "{:#}", trial["tls"]);
    let text = run_thalweg(&[&["run", &url], &load[..]].concat());
    let named = ["connections that failed in TLS: ", " certificate self signed; the first one: ", "tls failure"];
    assert!(named.iter().all(|part| text.stdout.contains(part)), "{text:?}");
}

/// Client and server agree on nothing, or the server wants a certificate.
#[test]
fn alerts_of_the_server_are_named() {
    let root = Authority::root("root");
    let issued = root.server(&["127.0.0.1"]);
    let folder = TempDir::new().unwrap();
    let ca = folder.path().join("clients.pem");
    fs::write(&ca, &root.pem).unwrap();
    let ca = ca.to_str().unwrap();
    let tls12 = ["--tls-max", "1.2"];
    let check = |server: &[&str], client: &[&str], cause: &str, sentence: &str| {
        let started = OpenSsl::start(&issued, &root, server);
        let trial = document::trial(&started.run(&[&["--cacert", &started.ca()], client].concat()));
        let context = || format!("{server:?} {client:?}: {:#}", trial["tls"]);
        assert_eq!(outcome(&trial, "tls_failure"), REQUESTS, "{}", context());
        assert!(trial["tls"]["failures"][cause].as_u64() >= Some(1), "{}", context());
        let first = trial["tls"]["first_failure"].as_str().unwrap();
        assert!(first.contains(sentence), "{}", context());
        let reasons = trial["reasons"].to_string();
        assert!(reasons.contains(&cause.replace('_', " ")) && reasons.contains(sentence), "{reasons}");
    };
    let nothing = "it supports no version, suite or group";
    check(&["-tls1_2"], &["--tls-min", "1.3"], "alert_protocol_version", nothing);
    check(&["-tls1_3"], &tls12, "alert_protocol_version", nothing);
    let chacha = ["--suites", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"];
    let gcm = ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"];
    check(&gcm, &chacha, "alert_handshake_failure", nothing);
    check(&["-groups", "P-384"], &["--groups", "X25519"], "alert_handshake_failure", nothing);
    check(&["-alpn", "h2"], &[], "alert_no_application_protocol", "it supports no application protocol");
    let required = ["-Verify", "1", "-verify_return_error", "-CAfile", ca];
    check(&required, &[], "alert_certificate_required", "see --cert and --key");
    check(&required, &tls12, "alert_handshake_failure", "");
}

#[test]
fn options_choose_what_is_negotiated() {
    let root = Authority::root("root");
    let issued = root.server(&["name.example"]);
    let client = root.client("client", Validity::Present);
    let folder = TempDir::new().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (ca, cert, key) = (file("ca.pem", &root.pem), file("cert.pem", &client.pem), file("key.pem", &client.key));
    let required = ["-Verify", "1", "-verify_return_error", "-CAfile", &ca];
    let server = OpenSsl::start(&issued, &root, &required);
    let usual = ["--cacert", &ca, "--sni", "name.example", "--cert", &cert, "--key", &key];
    for (options, negotiated) in [
        (&["--tls-min", "1.3"][..], ["TLSv1.3", "", "X25519MLKEM768|X25519"]),
        (&["--tls-max", "1.2"], ["TLSv1.2", "", ""]),
        (&["--groups", "secp384r1,secp256r1"], ["TLSv1.3", "", "secp384r1"]),
        (&["--suites", "TLS_CHACHA20_POLY1305_SHA256"], ["TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256", ""]),
        (
            &["--suites", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"],
            ["TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", ""],
        ),
    ] {
        let trial = document::trial(&server.run(&[&usual[..], options].concat()));
        assert_eq!(outcome(&trial, "good"), REQUESTS, "{options:?}: {trial:#}");
        let first = &trial["tls"]["negotiated"][0];
        for (name, expected) in ["version", "suite", "group"].into_iter().zip(negotiated) {
            let is_one = expected.is_empty() || expected.split('|').any(|one| first[name] == one);
            assert!(is_one, "{options:?}: {first:#}");
        }
    }
    let without_name = document::trial(&server.run(&["--cacert", &ca, "--cert", &cert, "--key", &key]));
    assert!(without_name["tls"]["failures"]["certificate_wrong_name"].as_u64() >= Some(1), "{without_name:#}");
}

#[test]
fn handshakes_are_counted_with_their_parameters() {
    let root = Authority::root("root");
    let between = root.intermediate("between");
    let mut issued = between.server(&["127.0.0.1"]);
    issued.pem.push_str(&between.pem);
    for (version, option) in [("TLSv1.3", "1.3"), ("TLSv1.2", "1.2")] {
        let server = OpenSsl::start(&issued, &root, &[]);
        let ca = server.ca();
        // In TLS 1.2 the groups have to allow the curve of the certificate, too (RFC 8422, 5.1).
        let run = |resume: &str| -> Value {
            let options = ["--cacert", &ca, "--tls-max", option, "--resume", resume, "--groups", "X25519,secp256r1"];
            document::trial(&server.run(&options))
        };
        let never = run("never");
        assert_eq!(outcome(&never, "good"), REQUESTS, "{never:#}");
        assert_eq!(never["tls"]["resumed"], 0, "{:#}", never["tls"]);
        assert_eq!(never["tls"]["negotiated"][0]["version"], version);
        assert_eq!(never["tls"]["negotiated"][0]["group"], "X25519");
        assert!(never["tls"]["chain_bytes"].as_u64() > Some(500), "{:#}", never["tls"]);
        let tickets = run("tickets");
        assert_eq!(outcome(&tickets, "good"), REQUESTS, "{tickets:#}");
        assert!(tickets["tls"]["resumed"].as_u64() >= Some(REQUESTS / 2), "{:#}", tickets["tls"]);
        let always = run("always");
        assert_eq!(outcome(&always, "good"), REQUESTS, "{always:#}");
        assert!(always["tls"]["full"].as_u64() <= Some(2), "one for each thread: {:#}", always["tls"]);
    }
}

#[test]
fn a_server_without_tickets_fails_where_sessions_have_to_be_resumed() {
    let root = Authority::root("root");
    let server = OpenSsl::start(&root.server(&["127.0.0.1"]), &root, &["-no_ticket", "-num_tickets", "0", "-no_cache"]);
    let trial = document::trial(&server.run(&["--cacert", &server.ca(), "--resume", "always", "--tls-max", "1.2"]));
    assert!(trial["tls"]["failures"]["not_resumed"].as_u64() >= Some(1), "{trial:#}");
}

#[test]
fn options_that_fit_nothing_are_refused() {
    let refused = |arguments: &[&str], text: &str| {
        let ended = run_thalweg(&[&["run"], arguments].concat());
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(text), "{ended:?}");
    };
    refused(&["http://127.0.0.1:1/", "--insecure"], "--insecure has no effect");
    refused(&["https://127.0.0.1:1/", "--groups", "x448"], "known are X25519MLKEM768");
    refused(&["https://127.0.0.1:1/", "--cacert", "/nowhere"], "--cacert: cannot read /nowhere");
    refused(&["https://127.0.0.1:1/", "--tls-min", "1.3", "--tls-max", "1.2"], "is above the highest");
}

/// A server that keeps connections open, and says of each how the client has ended it.
const WITNESS: &str = "
import os, socket, ssl, sys, threading
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server = socket.create_server(('127.0.0.1', 0))
print('port', server.getsockname()[1], flush=True)
def serve(plain):
    try:
        client = context.wrap_socket(plain, server_side=True, suppress_ragged_eofs=False)
    except OSError:
        return  # The client only looks whether the server can be reached.
    try:
        while client.recv(4096):
            client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')
        end = 'close_notify'
    except OSError as error:
        end = error
    os.write(1, f'end: {end}\\n'.encode())  # One call: two threads never write into one line.
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
";

/// Connections that are closed after each request, and those that are open when the run ends.
#[test]
fn connections_end_by_close_notify() {
    let issued = Authority::root("root").server(&["127.0.0.1"]);
    let folder = TempDir::new().unwrap();
    let [chain, key] = [("chain.pem", &issued.pem), ("key.pem", &issued.key)].map(|(name, content)| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    });
    let witness = Process::start(Command::new("python3").args(["-c", WITNESS]).arg(chain).arg(key));
    let port = until("the port", PATIENCE, || Some(witness.stdout().split_once('\n')?.0.replace("port ", "")));
    let url = format!("https://127.0.0.1:{port}/");
    let ends = || witness.stdout().matches("end: ").count();
    // Both drivers: each sends the last record and closes in its own way.
    for driver in BOTH_DRIVERS {
        for (more, connections) in [(&["--calls", "1"][..], 6), (&["--connections", "2"], 2)] {
            let before = ends();
            let load = ["--workers", "2", "--requests", "6", "--insecure", "--json", "--driver", driver];
            let trial = document::trial(&run_thalweg(&[&["run", &url], &load[..], more].concat()));
            assert_eq!(outcome(&trial, "good"), 6, "{driver}: {trial:#}");
            until("all connections to end", PATIENCE, || (ends() >= before + connections).then_some(()));
        }
    }
    let log = witness.stdout();
    assert!(log.lines().skip(1).all(|line| line == "end: close_notify"), "{log}");
}

#[test]
fn http_2_has_to_be_chosen_by_the_server() {
    let root = Authority::root("root");
    let server = OpenSsl::start(&root.server(&["127.0.0.1"]), &root, &[]);
    let url = format!("https://127.0.0.1:{}/", server.port);
    let load = ["--http", "2", "--rate", "100/s", "--requests", "20", "--cacert", &server.ca()];
    let trial = document::trial(&run_thalweg(&[&["run", &url, "--json"], &load[..]].concat()));
    assert_eq!(outcome(&trial, "tls_failure"), REQUESTS, "{trial:#}");
    assert!(trial["tls"]["failures"]["no_http2"].as_u64() >= Some(1), "{:#}", trial["tls"]);
    drop(server.process);

    let tree = Tree::new();
    let root = tree.root();
    let arguments = ["serve", root.to_str().unwrap(), "--listen", "127.0.0.1:0", "--tls", "self-signed"];
    let mut process = Process::start(&mut thalweg(&arguments));
    let url = listening(&mut process, 0);
    let load = ["--http", "2", "--streams", "8", "--workers", "16", "--requests", "2000", "--insecure"];
    let check = ["--check", "status=200,length=10", "--json"];
    let trial = document::trial(&run_thalweg(&[&["run", &format!("{url}/text.txt")], &load[..], &check].concat()));
    assert_eq!(outcome(&trial, "good"), 2000, "{trial:#}");
    assert_eq!(trial["tls"]["negotiated"][0]["alpn"], "h2", "{:#}", trial["tls"]);
    assert_eq!(trial["connections"]["opened"], 2, "{:#}", trial["connections"]);
}

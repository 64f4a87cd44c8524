//! `thalweg serve` over TLS: with curl and OpenSSL as clients.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use thalweg_sys::resource_limits::raise_descriptors;

use crate::attackers;
use crate::authority::{Authority, Issued, Validity};
use crate::curl;
use crate::http2;
use crate::machine;
use crate::operation::{Successor, ended_well};
use crate::process::{DRIVERS, PATIENCE, Process, program, run_thalweg, thalweg, until};

/// Bytes of the large file.
const LARGE_BYTES: usize = 5 << 20;

/// Folders with files to serve, certificates and a configuration.
struct Place {
    folder: tempfile::TempDir,
    authority: Authority,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::TempDir::new().unwrap(), authority: Authority::root("tests") };
        fs::create_dir(place.path("root")).unwrap();
        fs::write(place.path("root/small"), "small\n").unwrap();
        fs::write(place.path("root/large"), large()).unwrap();
        fs::write(place.path("ca.pem"), &place.authority.pem).unwrap();
        place
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes a certificate and its key; the option's value that names them.
    fn write(&self, name: &str, issued: &Issued) -> String {
        let (chain, key) = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        fs::write(&chain, &issued.pem).unwrap();
        fs::write(&key, &issued.key).unwrap();
        format!("{chain}:{key}")
    }

    /// Writes a certificate for names.
    fn certificate(&self, name: &str, names: &[&str]) -> String {
        self.write(name, &self.authority.server(names))
    }
}

fn large() -> Vec<u8> {
    (0..LARGE_BYTES as u32 / 4).flat_map(|number| number.wrapping_mul(0x9e37_79b9).to_be_bytes()).collect()
}

/// A configuration with one certificate, and more before and within `[tls]`.
fn configuration(head: &str, tls: &str) -> String {
    format!(
        "{head}\n[tls]\n{tls}\n[[tls.certificate]]\nchain = \"a.pem\"\nkey = \"a.key\"\n[[site]]\nroot = \"root\"\n"
    )
}

/// A server that speaks TLS.
struct Server {
    process: Process,
    port: u16,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        Self::of(Process::start(&mut thalweg(&[&["serve"], arguments].concat())))
    }

    fn of(mut process: Process) -> Self {
        let port = until("the server to listen", PATIENCE, || {
            assert!(process.ended().is_none(), "{} {}", process.stdout(), process.stderr());
            let said = process.stdout();
            let url = said.lines().find_map(|line| line.strip_prefix("listening on https://"))?;
            url.trim_end_matches('/').rsplit(':').next()?.parse().ok()
        });
        Self { process, port }
    }

    /// Fetches a path of a host, whose name leads here, with more options of curl.
    fn fetch(&self, place: &Place, host: &str, path: &str, options: &[&str]) -> curl::Reply {
        let resolve = format!("{host}:{}:127.0.0.1", self.port);
        let ca = place.path("ca.pem");
        let fixed = ["--cacert", &ca, "--resolve", &resolve, "--http1.1"];
        curl::fetch(&[&fixed, options].concat(), &format!("https://{host}:{}{path}", self.port))
    }

    /// The report of `openssl s_client` on a connection, with some input.
    fn s_client(&self, options: &[&str], input: &str) -> String {
        let mut child = Command::new(program(&["openssl"], "openssl"))
            .args(["s_client", "-connect", &format!("127.0.0.1:{}", self.port), "-ign_eof"])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    fn stop(self) {
        self.process.signal("TERM");
        ended_well(&self.process.wait(PATIENCE));
    }
}

const LAST_REQUEST: &str = "GET /small HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";

#[test]
fn files_arrive_whole_over_both_versions_and_drivers() {
    let place = Place::new();
    let certificate = place.certificate("a", &["a.test"]);
    let log = place.path("access.log");
    for driver in DRIVERS {
        let root = place.path("root");
        let options = ["--listen", "127.0.0.1:0", "--tls", &certificate, "--driver", driver];
        let logged = ["--access-log", &log, "--log-format", "json"];
        let server = Server::start(&[&[root.as_str()], &options[..], &logged].concat());
        for (version, http) in [("--tlsv1.3", "--http1.1"), ("--tlsv1.3", "--http2"), ("--tls-max", "--http2")] {
            let mut options = if version == "--tls-max" { vec![version, "1.2"] } else { vec![version] };
            options.push(http);
            assert_eq!(server.fetch(&place, "a.test", "/small", &options).body, b"small\n", "{driver}");
            assert!(server.fetch(&place, "a.test", "/large", &options).body == large(), "{driver} {version}");
            let part =
                server.fetch(&place, "a.test", "/large", &[&options[..], &["--range", "70000-3000000"]].concat());
            assert!(part.status == 206 && part.body == large()[70_000..=3_000_000], "{driver} {version}");
        }
        // One connection, several requests.
        let twice = format!("https://a.test:{}/small", server.port);
        assert_eq!(server.fetch(&place, "a.test", "/small", &[&twice]).status, 200);
        server.stop();
        let lines = fs::read_to_string(&log).unwrap();
        assert!(lines.contains("\"version\":\"HTTP/2.0\""), "{lines}");
        assert!(lines.contains("\"tls\":\"TLSv1.3\"") && lines.contains("\"tls\":\"TLSv1.2\""), "{lines}");
    }
}

#[test]
fn downloads_that_share_connections_survive_reloads_and_upgrades_over_tls() {
    let _machine = machine::shared();
    let place = Place::new();
    let certificate = place.certificate("a", &["a.test"]);
    let root = place.path("root");
    let server = Server::start(&[&root, "--listen", "127.0.0.1:0", "--tls", &certificate]);
    let content = &large()[..200_000];
    fs::write(place.path("root/file"), content).unwrap();
    let client = http2::download(&server.port.to_string(), "/file", content, &[&place.path("ca.pem"), "a.test"]);
    server.process.signal("HUP");
    let successor = Successor::of(&server.process);
    http2::finish(client);
    ended_well(&server.process.wait(PATIENCE));
    successor.end();
}

#[test]
fn downloads_of_http_1_survive_reloads_and_upgrades_over_tls() {
    const DOWNLOADS: usize = 2000;
    /// The half of it is more than the buffers between server and client hold.
    const FILE_BYTES: usize = 1_500_000;
    let _machine = machine::shared();
    // Many hosts give a shell fewer than these downloads and other tests need.
    raise_descriptors(2 * DOWNLOADS as u64).unwrap();
    let content = &large()[..FILE_BYTES];
    for driver in DRIVERS {
        let place = Place::new();
        let certificate = place.certificate("a", &["a.test"]);
        let root = place.path("root");
        fs::write(place.path("root/file"), content).unwrap();
        let server = Server::start(&[&root, "--listen", "127.0.0.1:0", "--tls", &certificate, "--driver", driver]);
        let (port, count, ca) = (server.port.to_string(), DOWNLOADS.to_string(), place.path("ca.pem"));
        let digest = http2::sha256(content);
        let client = http2::begun("tls_downloads.py", &[&port, &count, "/file", &digest, &ca, "a.test"]);
        server.process.signal("HUP");
        let successor = Successor::of(&server.process);
        http2::finish_all(client, DOWNLOADS);
        ended_well(&server.process.wait(PATIENCE));
        successor.end();
    }
}

#[test]
fn a_laptop_needs_no_certificate() {
    let place = Place::new();
    let root = place.path("root");
    let server = Server::start(&[&root, "--listen", "127.0.0.1:0", "--tls", "self-signed"]);
    let url = format!("https://localhost:{}/small", server.port);
    assert_eq!(curl::fetch(&["--insecure", "--http1.1", "--ipv4"], &url).body, b"small\n");
    let plain = curl::command().arg(url.replace("https", "http")).output().unwrap();
    assert!(!plain.status.success());
    server.stop();
}

#[test]
fn a_name_gets_its_certificate() {
    let place = Place::new();
    let (first, second) = (place.certificate("a", &["a.test"]), place.certificate("b", &["*.b.test"]));
    let root = place.path("root");
    let server = Server::start(&[&root, "--listen", "127.0.0.1:0", "--tls", &first, "--tls", &second]);
    for host in ["a.test", "x.b.test"] {
        assert_eq!(server.fetch(&place, host, "/small", &[]).body, b"small\n", "{host}");
    }
    server.stop();
}

#[test]
fn sessions_are_resumed_by_tickets_over_an_upgrade_too() {
    let place = Place::new();
    let certificate = place.certificate("a", &["a.test"]);
    let (root, session) = (place.path("root"), place.path("session"));
    let server = Server::start(&[&root, "--listen", "127.0.0.1:0", "--tls", &certificate]);
    for version in ["-tls1_2", "-tls1_3"] {
        let first = server.s_client(&[version, "-sess_out", &session], LAST_REQUEST);
        assert!(first.contains("New, ") && first.contains("200 OK"), "{first}");
        let again = server.s_client(&[version, "-sess_in", &session], LAST_REQUEST);
        assert!(again.contains("Reused, ") && again.contains("200 OK"), "{again}");
    }
    server.s_client(&["-sess_out", &session], LAST_REQUEST);
    let successor = Successor::of(&server.process);
    let again = server.s_client(&["-sess_in", &session], LAST_REQUEST);
    assert!(again.contains("Reused, "), "{again}");
    successor.end();
}

#[test]
fn a_renegotiation_is_refused() {
    let place = Place::new();
    let certificate = place.certificate("a", &["a.test"]);
    let root = place.path("root");
    let server = Server::start(&[&root, "--listen", "127.0.0.1:0", "--tls", &certificate]);
    // Without -ign_eof, s_client takes the letter for a command.
    let mut child = Command::new(program(&["openssl"], "openssl"))
        .args(["s_client", "-connect", &format!("127.0.0.1:{}", server.port), "-tls1_2", "-legacy_renegotiation"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"R\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("RENEGOTIATING") && said.contains("no renegotiation"), "{said}");
    assert_eq!(server.fetch(&place, "a.test", "/small", &[]).status, 200);
    server.stop();
}

#[test]
fn clients_that_do_not_know_the_kind_of_key_have_nothing_in_common_with_the_server() {
    let place = Place::new();
    let certificate = place.certificate("a", &["a.test"]);
    let root = place.path("root");
    let server = Server::start(&[&root, "--listen", "127.0.0.1:0", "--tls", &certificate]);
    for version in ["-tls1_2", "-tls1_3"] {
        let said = server.s_client(&[version, "-sigalgs", "RSA-PSS+SHA256:RSA+SHA256"], "");
        assert!(said.contains("alert handshake failure"), "{version}: {said}");
    }
    server.stop();
}

/// A client that leaves its handshake half done costs the server its part of it, and a place.
#[test]
fn handshakes_that_are_not_completed_do_not_keep_others_out() {
    const SECONDS: &str = "60";
    const FETCHES: usize = 30;
    let _machine = machine::exclusive();
    let place = Place::new();
    let certificate = place.certificate("a", &["a.test"]);
    let root = place.path("root");
    for driver in DRIVERS {
        let server = Server::start(&[&root, "--listen", "127.0.0.1:0", "--tls", &certificate, "--driver", driver]);
        let port = server.port.to_string();
        let roles = ["attack", &port, SECONDS, "hello=300", "half_hello=300"];
        let attackers = Process::start(&mut attackers::client_script(&roles));
        until("the attackers", PATIENCE, || attackers.stdout().contains("begun").then_some(()));
        for _ in 0..FETCHES {
            let reply = server.fetch(&place, "a.test", "/small", &["--max-time", "5"]);
            assert_eq!((reply.status, &*reply.body), (200, &b"small\n"[..]), "over {driver}");
        }
        drop(attackers);
        server.stop();
    }
}

#[test]
fn clients_need_a_valid_certificate_where_that_is_required() {
    let place = Place::new();
    place.certificate("a", &["a.test"]);
    let theirs = Authority::root("clients");
    fs::write(place.path("clients.pem"), &theirs.pem).unwrap();
    place.write("valid", &theirs.client("someone", Validity::Present));
    place.write("expired", &theirs.client("someone", Validity::Past));
    let file = place.path("thalweg.toml");
    let tls = "client_certificates = \"required\"\nclient_authorities = \"clients.pem\"";
    fs::write(&file, configuration("listen = [\"127.0.0.1:0\"]", tls)).unwrap();
    let server = Server::start(&["--config", &file]);
    let (chain, key) = (place.path("valid.pem"), place.path("valid.key"));
    assert_eq!(server.fetch(&place, "a.test", "/small", &["--cert", &chain, "--key", &key]).status, 200);
    let refused = |options: &[&str]| {
        let resolve = format!("a.test:{}:127.0.0.1", server.port);
        let mut command = curl::command();
        command.args(["--cacert", &place.path("ca.pem"), "--resolve", &resolve, "--http1.1"]).args(options);
        let output = command.arg(format!("https://a.test:{}/small", server.port)).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let without = refused(&[]);
    assert!(without.contains("certificate required"), "{without}");
    let (chain, key) = (place.path("expired.pem"), place.path("expired.key"));
    let expired = refused(&["--cert", &chain, "--key", &key]);
    assert!(expired.contains("expired"), "{expired}");
    server.stop();
}

#[test]
fn plain_http_is_redirected_and_browsers_are_told_to_stay() {
    let place = Place::new();
    place.certificate("a", &["a.test"]);
    let file = place.path("thalweg.toml");
    let tls = "listen = [\"127.0.0.1:0\"]\nredirect = true\nhsts_days = 10";
    fs::write(&file, configuration("listen = [\"127.0.0.2:0\"]", tls)).unwrap();
    let server = Server::start(&["--config", &file]);
    let said = server.process.stdout();
    let plain = said.lines().find_map(|line| line.strip_prefix("listening on http://")).expect(&said).to_owned();
    let reply = curl::fetch(&["--header", "Host: a.test:8080"], &format!("http://{plain}small?x=1"));
    assert_eq!(reply.status, 301);
    assert_eq!(reply.field("location"), format!("https://a.test:{}/small?x=1", server.port));
    assert_eq!(reply.field("strict-transport-security"), "");
    let posted = curl::fetch(&["--data", "x", "--header", "Host: a.test"], &format!("http://{plain}small"));
    assert_eq!(posted.status, 308);
    let secure = server.fetch(&place, "a.test", "/small", &[]);
    assert_eq!(secure.field("strict-transport-security"), "max-age=864000");
    server.stop();
}

#[test]
fn certificates_are_exchanged_by_a_reload_without_a_failed_request() {
    let place = Place::new();
    place.certificate("a", &["a.test"]);
    let (file, log) = (place.path("thalweg.toml"), place.path("error.log"));
    let head = format!("listen = [\"127.0.0.1:0\"]\n[log]\nerror = \"{log}\"");
    fs::write(&file, configuration(&head, "")).unwrap();
    let server = Server::start(&["--config", &file]);
    let serial = || {
        let said = server.s_client(&["-servername", "a.test", "-showcerts"], LAST_REQUEST);
        let start = said.find("-----BEGIN CERTIFICATE").expect("it shows the certificate");
        said[start..start + 400].to_owned()
    };
    // A download that is under way all the time, at about three seconds.
    let (ca, out) = (place.path("ca.pem"), place.path("downloaded"));
    let resolve = format!("a.test:{}:127.0.0.1", server.port);
    let mut slow = curl::command();
    slow.args(["--cacert", &ca, "--resolve", &resolve, "--http1.1", "--limit-rate", "1700k", "--output", &out]);
    let slow = Process::start(slow.arg(format!("https://a.test:{}/large", server.port)));
    let mut serials = vec![serial()];
    for round in 1..=4 {
        place.certificate("a", &["a.test"]);
        server.process.signal("HUP");
        for _ in 0..5 {
            assert_eq!(server.fetch(&place, "a.test", "/small", &[]).status, 200);
        }
        let errors = || fs::read_to_string(&log).unwrap_or_default();
        until("the reload", PATIENCE, || {
            (errors().matches("the configuration was reloaded").count() == round).then_some(())
        });
        serials.push(serial());
    }
    serials.dedup();
    assert_eq!(serials.len(), 5, "each reload brings a certificate");
    // A key that does not fit is refused, and the server goes on.
    fs::write(place.path("a.key"), "nothing").unwrap();
    server.process.signal("HUP");
    until("the refusal", PATIENCE, || {
        fs::read_to_string(&log).unwrap().contains("there is no private key in it").then_some(())
    });
    assert_eq!(server.fetch(&place, "a.test", "/small", &[]).status, 200);
    ended_well(&slow.wait(PATIENCE));
    assert!(fs::read(out).unwrap() == large());
    server.stop();
}

#[test]
fn what_cannot_be_served_is_explained() {
    let place = Place::new();
    let root = place.path("root");
    let (one, other) = (place.certificate("a", &["a.test"]), place.certificate("b", &["b.test"]));
    let mixed = format!("{}:{}", one.split(':').next().unwrap(), other.split(':').nth(1).unwrap());
    let check = |options: &[&str], text: &str| {
        let ended = run_thalweg(&[&["serve", &root, "--listen", "127.0.0.1:0"], options].concat());
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(text), "{}", ended.stderr);
    };
    check(&["--tls", "auto"], "not built in yet");
    check(&["--tls", "cert.pem"], "expected self-signed, or CERT:KEY");
    check(&["--tls", &mixed], "is not that of the certificate");
    check(&["--tls", "/nowhere.pem:/nowhere.key"], "cannot read /nowhere.pem");
    check(&["--tls", "self-signed", "--tls-redirect"], "there is nothing to redirect");
    check(&["--check", "--tls", &mixed], "is not that of the certificate");
    check(&["--tls-listen", "127.0.0.1:0"], "there is no certificate");
}

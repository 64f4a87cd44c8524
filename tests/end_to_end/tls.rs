//! `thalweg serve` over TLS: with curl and OpenSSL as clients.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use thalweg_sys::resource_limits::raise_descriptors;

use crate::attackers;
use crate::authority::{Authority, Issued, Validity};
use crate::content::numbered;
use crate::curl;
use crate::drivers::{BOTH_DRIVERS, drivers};
use crate::http2;
use crate::operation::{Successor, ended_well};
use crate::process::{PATIENCE, Process, is_full, program, run_thalweg, thalweg, until};

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
        fs::create_dir(place.path("root/folder")).unwrap();
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
    numbered(LARGE_BYTES)
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
    // Both drivers: each sends encrypted files in its own way.
    for driver in BOTH_DRIVERS {
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
    // The half of a file is more than the buffers between server and client hold; of many
    // connections, each gets less of the kernel's memory.
    let (downloads, bytes) = if is_full() { (2000, 1_500_000) } else { (100, 9_000_000) };
    // Many hosts give a shell fewer than these downloads and other tests need.
    raise_descriptors(2 * downloads as u64).unwrap();
    let content = &numbered(bytes);
    // Both drivers: each sends encrypted files in its own way.
    for driver in BOTH_DRIVERS {
        let place = Place::new();
        let certificate = place.certificate("a", &["a.test"]);
        let root = place.path("root");
        fs::write(place.path("root/file"), content).unwrap();
        let server = Server::start(&[&root, "--listen", "127.0.0.1:0", "--tls", &certificate, "--driver", driver]);
        let (port, count, ca) = (server.port.to_string(), downloads.to_string(), place.path("ca.pem"));
        let digest = http2::sha256(content);
        let client = http2::begun("tls_downloads.py", &[&port, &count, "/file", &digest, &ca, "a.test"]);
        server.process.signal("HUP");
        let successor = Successor::of(&server.process);
        http2::finish_all(client, downloads);
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

/// Three sites: one open, one with a mount for members, one for members alone.
const MEMBERS: &str = r#"
listen = ["127.0.0.1:0", "127.0.0.2:0"]

[tls]
listen = ["127.0.0.1:0"]
client_authorities = "clients.pem"

[[tls.certificate]]
chain = "a.pem"
key = "a.key"

[log]
access = "access.log"
format = "json"

[[site]]
names = ["open.test"]
root = "root"

[[site]]
names = ["partly.test"]
root = "root"

[[site.mount]]
path = "/members/"
root = "root"
client_certificates = "required"

[[site]]
names = ["members.test"]
root = "root"
client_certificates = "required"
"#;

#[test]
fn sites_and_mounts_have_their_own_demands_on_clients() {
    let place = Place::new();
    place.certificate("a", &["open.test", "partly.test", "members.test"]);
    let theirs = Authority::root("clients");
    fs::write(place.path("clients.pem"), &theirs.pem).unwrap();
    place.write("valid", &theirs.client("someone", Validity::Present));
    let (file, log) = (place.path("thalweg.toml"), place.path("access.log"));
    fs::write(&file, MEMBERS).unwrap();
    let server = Server::start(&["--config", &file]);
    let (chain, key) = (place.path("valid.pem"), place.path("valid.key"));
    let known = ["--cert", &chain, "--key", &key];
    for version in ["--http1.1", "--http2"] {
        let check = |host: &str, path: &str, options: &[&str], expected: u16| {
            let status = server.fetch(&place, host, path, &[&[version], options].concat()).status;
            assert_eq!(status, expected, "{version} {host} {path} {options:?}");
        };
        check("open.test", "/small", &[], 200);
        check("partly.test", "/small", &[], 200);
        check("partly.test", "/members/small", &[], 403);
        // Neither its slash, nor a folder without an index, nor another spelling is a way in.
        check("partly.test", "/members", &[], 403);
        check("partly.test", "/members/", &[], 403);
        check("partly.test", "/x/%2e%2e/members/small", &["--path-as-is"], 403);
        check("partly.test", "/members/small", &known, 200);
        check("members.test", "/small", &known, 200);
        // A connection whose handshake was for another site.
        for (host, other) in [("open.test", "members.test"), ("open.test", "partly.test"), ("partly.test", "open.test")]
        {
            check(host, "/small", &["--header", &format!("Host: {other}")], 421);
        }
        check("members.test", "/small", &[&known[..], &["--header", "Host: partly.test"]].concat(), 421);
        check("open.test", "/small", &["--header", "Host: nowhere.test"], 200);
        let refused = curl::command()
            .args(["--cacert", &place.path("ca.pem"), version])
            .args(["--resolve", &format!("members.test:{}:127.0.0.1", server.port)])
            .arg(format!("https://members.test:{}/small", server.port))
            .output()
            .unwrap();
        assert!(String::from_utf8_lossy(&refused.stderr).contains("certificate required"), "{refused:?}");
    }
    let said = server.process.stdout();
    let plain = said.lines().find_map(|line| line.strip_prefix("listening on http://")).expect(&said).to_owned();
    for (host, expected) in [("open.test", 200), ("members.test", 403)] {
        let header = format!("Host: {host}");
        assert_eq!(curl::fetch(&["--header", &header], &format!("http://{plain}small")).status, expected);
    }
    server.stop();
    let output = Command::new(program(&["openssl"], "openssl"))
        .args(["x509", "-noout", "-fingerprint", "-sha256", "-in", &chain])
        .output()
        .unwrap();
    let digest = String::from_utf8_lossy(&output.stdout).trim().rsplit('=').next().unwrap().replace(':', "");
    let field = format!("\"certificate\":\"{}\"", digest.to_lowercase());
    let lines = fs::read_to_string(&log).unwrap();
    assert_eq!(lines.lines().filter(|line| line.contains(&field)).count(), 6, "{lines}");
    assert_eq!(lines.matches("\"certificate\"").count(), 6, "{lines}");
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
    for version in ["--http1.1", "--http2"] {
        let check = |path: &str, options: &[&str], status: u16| {
            let reply = server.fetch(&place, "a.test", path, &[&[version], options].concat());
            assert_eq!(reply.status, status, "{version} {path} {options:?}");
            let hsts = reply.fields.iter().filter(|(name, _)| name == "strict-transport-security");
            let hsts: Vec<_> = hsts.map(|(_, value)| value.as_str()).collect();
            assert_eq!(hsts, ["max-age=864000"], "{version} {path} {options:?}");
        };
        let tag = secure.field("etag");
        check("/small", &["--header", &format!("If-None-Match: {tag}")], 304);
        check("/small", &["--range", "1-2"], 206);
        check("/small", &["--range", "100-"], 416);
        check("/folder", &[], 301);
        check("/missing", &[], 404);
        check("/small", &["--request", "DELETE"], 405);
        check("/small", &["--request", "OPTIONS"], 204);
    }
    // Neither a browser's address nor anything else over plain HTTP has it.
    let malformed = curl::fetch(&["--header", "Host:"], &format!("http://{plain}small"));
    assert_eq!((malformed.status, malformed.field("strict-transport-security")), (400, ""));
    server.stop();
}

#[test]
fn an_idle_connection_that_gives_way_ends_in_order() {
    let place = Place::new();
    place.certificate("a", &["a.test"]);
    let file = place.path("thalweg.toml");
    for driver in drivers() {
        let head = format!("listen = [\"127.0.0.1:0\"]\ndriver = \"{driver}\"\ncores = \"0\"");
        let log = place.path(&format!("{driver}.log"));
        let text = configuration(&format!("{head}\n[limits]\nconnections_max = 1\n[log]\naccess = \"{log}\""), "");
        fs::write(&file, text).unwrap();
        let server = Server::start(&["--config", &file]);
        // Over HTTP/1 OpenSSL has nothing more to send, and waits for the end.
        let idle = std::thread::scope(|scope| {
            let idle = scope.spawn(|| server.s_client(&[], "GET /small HTTP/1.1\r\nHost: a.test\r\n\r\n"));
            until("its response", PATIENCE, || {
                fs::read_to_string(&log).is_ok_and(|lines| lines.contains("GET /small")).then_some(())
            });
            until("the idle connection to give way", PATIENCE, || {
                assert_eq!(server.fetch(&place, "a.test", "/small", &[]).status, 200);
                idle.is_finished().then_some(())
            });
            idle.join().unwrap()
        });
        assert!(idle.contains("200 OK") && !idle.contains("unexpected eof"), "{driver}: {idle}");
        server.stop();
    }
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
    check(&["--tls", "cert.pem"], "expected auto, self-signed, or CERT:KEY");
    check(&["--tls", &mixed], "is not that of the certificate");
    check(&["--tls", "/nowhere.pem:/nowhere.key"], "cannot read /nowhere.pem");
    check(&["--tls", "self-signed", "--tls-redirect"], "there is nothing to redirect");
    check(&["--check", "--tls", &mixed], "is not that of the certificate");
    check(&["--tls-listen", "127.0.0.1:0"], "there is no certificate");
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    /// A client that leaves its handshake half done costs the server its part of it, and a place.
    #[test]
    fn handshakes_that_are_not_completed_do_not_keep_others_out() {
        const SECONDS: &str = "60";
        const FETCHES: usize = 30;
        let place = Place::new();
        let certificate = place.certificate("a", &["a.test"]);
        let root = place.path("root");
        for driver in drivers() {
            let server = Server::start(&[&root, "--listen", "127.0.0.1:0", "--tls", &certificate, "--driver", driver]);
            let port = server.port.to_string();
            let roles = ["attack", &port, SECONDS, "hello=300", "half_hello=300"];
            let attackers = Process::start(&mut attackers::client_script(&roles));
            until("the attackers", PATIENCE, || attackers.stdout().contains("begun").then_some(()));
            for _ in 0..FETCHES {
                let reply = server.fetch(&place, "a.test", "/small", &[]);
                assert_eq!((reply.status, &*reply.body), (200, &b"small\n"[..]), "over {driver}");
            }
            drop(attackers);
            server.stop();
        }
    }
}

//! `thalweg serve --tls auto`: certificates by ACME from Pebble, the authority that Let's Encrypt
//! has for tests. It refuses every fifth nonce.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::curl;
use crate::operation::{Successor, ended_well};
use crate::pebble::Pebble;
use crate::process::{PATIENCE, Process, free_port, run_thalweg, thalweg, until};

/// The lifetime of certificates that no test outlives.
const LONG: Duration = Duration::from_secs(90 * 24 * 3600);

/// The host that the certificate is for, and another one.
const HOST: &str = "mirror.example.org";
const OTHER: &str = "other.example.org";

/// Bytes of the large file.
const LARGE_BYTES: usize = 32 << 20;

/// A folder with files to serve and a configuration, an authority, and the ports at which it
/// verifies hosts.
struct Place {
    folder: TempDir,
    pebble: Pebble,
    http: u16,
    https: u16,
    status: u16,
}

impl Place {
    /// With an authority that verifies hosts at the server's ports.
    fn new(lifetime: Duration) -> Self {
        let (http, https) = (free_port(), free_port());
        Self::verified_at((http, https), (http, https), lifetime)
    }

    fn verified_at((http, https): (u16, u16), verified: (u16, u16), lifetime: Duration) -> Self {
        let pebble = Pebble::start(verified.0, verified.1, lifetime);
        let place = Self { folder: TempDir::new().unwrap(), pebble, http, https, status: free_port() };
        fs::create_dir(place.path("root")).unwrap();
        fs::write(place.path("root/small"), "small\n").unwrap();
        fs::write(place.path("root/large"), vec![7; LARGE_BYTES]).unwrap();
        place
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes a configuration for hosts and kinds of challenges, and starts it.
    fn start(&self, hosts: &[&str], challenges: &[&str]) -> Process {
        self.configure(hosts, challenges);
        let mut process = Process::start(&mut thalweg(&["serve", "--config", &self.path("thalweg.toml")]));
        until("the server to listen", PATIENCE, || {
            assert!(process.ended().is_none(), "{} {}", process.stdout(), process.stderr());
            process.stdout().contains("listening on https://").then_some(())
        });
        process
    }

    fn configure(&self, hosts: &[&str], challenges: &[&str]) {
        let Self { http, https, status, .. } = self;
        let (directory, roots) = (self.pebble.directory(), self.pebble.roots.display());
        let text = format!(
            "listen = [\"127.0.0.1:{http}\"]\n[limits]\nstall_time = \"5m\"\n[log]\nerror = \"error.log\"\n\
             [tls]\nlisten = [\"127.0.0.1:{https}\"]\nauto = true\nhosts = {hosts:?}\nredirect = true\n\
             [tls.acme]\ndirectory = \"{directory}\"\nroots = \"{roots}\"\n\
             contact = \"admin@example.org\"\nchallenges = {challenges:?}\nstate = \"state\"\n\
             [status]\nlisten = \"127.0.0.1:{status}\"\n[[site]]\nroot = \"root\"\n"
        );
        fs::write(self.path("thalweg.toml"), text).unwrap();
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.path("error.log")).unwrap_or_default()
    }

    /// Waits until a text stands in the error log so often.
    fn wait_for(&self, text: &str, times: usize) {
        until(text, PATIENCE, || {
            let errors = self.errors();
            assert!(errors.lines().count() < 1000, "{errors}");
            (errors.matches(text).count() >= times).then_some(())
        });
    }

    /// Waits for the certificate of that number since the log began, and writes down the root that
    /// clients trust.
    fn wait_for_certificate(&self, number: usize) {
        self.wait_for("obtained a certificate for", number);
        let roots = self.pebble.roots.to_str().unwrap();
        let root = curl::fetch(&["--cacert", roots], &format!("https://{}/roots/0", self.pebble.management));
        fs::write(self.path("root.pem"), root.body).unwrap();
    }

    /// Fetches a path from a client that trusts the authority.
    fn fetch(&self, host: &str, path: &str) -> curl::Reply {
        let resolve = format!("{host}:{}:127.0.0.1", self.https);
        let trust = ["--cacert", &self.path("root.pem"), "--resolve", &resolve];
        curl::fetch(&trust, &format!("https://{host}:{}{path}", self.https))
    }

    /// The figures of the certificate, once this holds.
    fn wait_for_status(&self, holds: fn(&Value) -> bool) -> String {
        let url = |path: &str| format!("http://127.0.0.1:{}{path}", self.status);
        until("the figures of the certificate", PATIENCE, || {
            let status: Value = serde_json::from_slice(&curl::fetch(&[], &url("/status.json")).body).unwrap();
            holds(&status["certificate"]).then_some(())
        });
        String::from_utf8(curl::fetch(&[], &url("/metrics")).body).unwrap()
    }

    fn certificate(&self) -> String {
        fs::read_to_string(self.path("state/certificate.pem")).unwrap()
    }

    /// Whether no process uses the state directory.
    fn is_unused(&self) -> bool {
        let lock = fs::OpenOptions::new().append(true).open(self.path("state/lock")).unwrap();
        lock.try_lock().is_ok()
    }

    fn stop(&self, server: Process) {
        server.signal("TERM");
        ended_well(&server.wait(PATIENCE));
        until("the end of the process for ACME", PATIENCE, || self.is_unused().then_some(()));
    }
}

fn check_obtained_by(challenge: &str) {
    let place = Place::new(LONG);
    let server = place.start(&[HOST, OTHER], &[challenge]);
    assert!(server.stdout().contains("self-signed, until one is obtained from"), "{}", server.stdout());
    place.wait_for_certificate(1);
    for host in [HOST, OTHER] {
        let reply = place.fetch(host, "/small");
        assert_eq!((reply.status, &*reply.body), (200, &b"small\n"[..]));
    }
    let redirect = curl::fetch(&["--header", &format!("Host: {HOST}")], &format!("http://127.0.0.1:{}/a", place.http));
    assert_eq!((redirect.status, redirect.field("location")), (301, &*format!("https://{HOST}:{}/a", place.https)));
    let metrics = place.wait_for_status(|figures| figures["expires"].is_string() && figures["failure"].is_null());
    let expected = ["thalweg_certificate_expiry_timestamp_seconds ", "thalweg_certificate_failing 0"];
    assert!(expected.iter().all(|metric| metrics.contains(metric)), "{metrics}");
    let errors = place.errors();
    assert!(errors.contains("ordering a certificate for") && !errors.contains("error: "), "{errors}");
    place.stop(server);
}

#[test]
fn a_certificate_is_obtained_by_http() {
    check_obtained_by("http-01");
}

#[test]
fn a_certificate_is_obtained_by_tls() {
    check_obtained_by("tls-alpn-01");
}

#[test]
fn a_certificate_is_kept_over_restarts_and_upgrades() {
    let place = Place::new(LONG);
    let server = place.start(&[HOST], &["http-01"]);
    place.wait_for_certificate(1);
    let certificate = place.certificate();
    // A kill leaves nothing behind that hinders the next.
    server.signal("KILL");
    assert_eq!(server.wait(PATIENCE).code, None);
    let server = place.start(&[HOST], &["http-01"]);
    assert!(server.stdout().contains(&format!("certificate for {HOST} by ACME, valid until")), "{}", server.stdout());
    assert_eq!(place.fetch(HOST, "/small").status, 200);
    let successor = {
        server.signal("USR2");
        until("the upgrade", PATIENCE, || place.errors().contains("the upgrade succeeded").then_some(()));
        let errors = place.errors();
        let number = errors
            .lines()
            .rev()
            .find_map(|line| line.split_once("process ")?.1.strip_suffix(" is starting to take over")?.parse().ok());
        Successor(number.expect("the log says which process is to follow"))
    };
    assert_eq!(place.fetch(HOST, "/small").status, 200);
    ended_well(&server.wait(PATIENCE));
    let orders = place.errors().matches("ordering a certificate").count();
    assert_eq!((orders, place.certificate()), (1, certificate), "{}", place.errors());
    // The successor's own process goes on: other names need another certificate.
    place.configure(&[HOST, OTHER], &["http-01"]);
    crate::process::signal("HUP", successor.0);
    place.wait_for_certificate(2);
    assert_eq!(place.fetch(OTHER, "/small").status, 200);
    assert!(!place.errors().contains("error: "), "{}", place.errors());
    successor.end();
    until("the end of the process for ACME", PATIENCE, || place.is_unused().then_some(()));
}

#[test]
fn a_renewal_breaks_no_download() {
    // The client renews after a third of the lifetime at the earliest, and before its end.
    let place = Place::new(Duration::from_secs(30));
    let server = place.start(&[HOST], &["tls-alpn-01"]);
    place.wait_for_certificate(1);
    let first = place.certificate();
    let (out, resolve) = (place.path("out"), format!("{HOST}:{}:127.0.0.1", place.https));
    let mut slow = curl::command();
    slow.args(["--cacert", &place.path("root.pem"), "--resolve", &resolve, "--limit-rate", "8M", "--output", &out]);
    // The certificate's lifetime is short, and a busy machine is slow.
    slow.args(["--max-time", "300", &format!("https://{HOST}:{}/large", place.https)]);
    let slow = Process::start(&mut slow);
    until("the download to begin", PATIENCE, || fs::metadata(&out).is_ok_and(|out| out.len() > 0).then_some(()));
    slow.signal("STOP");
    place.wait_for_certificate(2);
    assert!(place.errors().contains("it is time to renew"), "{}", place.errors());
    assert_ne!(place.certificate(), first);
    assert_eq!(place.fetch(HOST, "/small").status, 200);
    assert!(fs::metadata(&out).unwrap().len() < LARGE_BYTES as u64, "the download was over before the renewal");
    slow.signal("CONT");
    ended_well(&slow.wait(PATIENCE));
    assert!(fs::read(out).unwrap() == vec![7; LARGE_BYTES]);
    place.stop(server);
}

#[test]
fn a_failure_is_logged_and_the_server_goes_on() {
    // Nothing listens where the authority verifies hosts.
    let place = Place::verified_at((free_port(), free_port()), (free_port(), free_port()), LONG);
    let server = place.start(&[HOST], &["http-01"]);
    place.wait_for("error: ACME: ", 1);
    let errors = place.errors();
    let expected = [HOST, "http-01", "there is no certificate yet", "next attempt at"];
    assert!(expected.iter().all(|part| errors.contains(part)), "{errors}");
    let metrics = place.wait_for_status(|figures| figures["expires"].is_null() && figures["failure"].is_string());
    assert!(metrics.contains("thalweg_certificate_failing 1"), "{metrics}");
    let reply = curl::fetch(&["--insecure"], &format!("https://127.0.0.1:{}/small", place.https));
    assert_eq!(reply.body, b"small\n");
    place.stop(server);
}

#[test]
fn wrong_settings_are_explained() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().to_str().unwrap();
    let check = |options: &[&str], expected: &str| {
        let ended = run_thalweg(&[&["serve", root], options].concat());
        assert_eq!(ended.code, Some(2), "{options:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{options:?}: {}", ended.stderr);
    };
    check(&["--tls", "auto"], "such as --host mirror.example.org");
    check(&["--host", HOST], "add --tls auto");
    check(&["--tls", "self-signed", "--acme-contact", "a@example.org"], "add --tls auto");
    check(&["--tls", "auto", "--host", HOST, "--acme-contact", "mailto:a@example.org"], "is not a mail address");
    check(&["--tls", "auto", "--host", "*.example.org"], "\"*.example.org\" is a wildcard");
    check(&["--tls", "auto", "--host", "127.0.0.1"], "is not a name that a certification authority can verify");
    check(&["--tls", "auto", "--host", HOST, "--acme-directory", "http://a/"], "begins with https://");
    check(&["--tls", "auto", "--host", HOST, "--acme-roots", "/nowhere"], "cannot read /nowhere");
}

#[test]
fn a_check_says_what_would_be_obtained() {
    let folder = TempDir::new().unwrap();
    let state = |name: &str| -> (Option<i32>, String, String) {
        let options = ["serve", "/tmp", "--check", "--listen", "127.0.0.1:0", "--tls", "auto", "--host", HOST];
        let mut command = thalweg(&options);
        let ended = Process::start(command.env("STATE_DIRECTORY", Path::new(name))).wait(PATIENCE);
        (ended.code, ended.stdout, ended.stderr)
    };
    let (code, stdout, stderr) = state(folder.path().to_str().unwrap());
    assert_eq!(code, Some(0), "{stderr}");
    let folder = folder.path().display();
    let line = format!("would obtain a certificate for {HOST} from https://acme-v02.api.letsencrypt.org/directory by ");
    assert!(stdout.contains(&line) && stdout.contains(&format!("keep it in {folder}/acme\n")), "{stdout}");
    let (code, _, stderr) = state("/proc/self");
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("set tls.acme.state to a folder"), "{stderr}");
}

//! HTTP/2 over TLS with programs of others: browsers and clients against `thalweg serve`, servers
//! against `thalweg run`.

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::authority::Authority;
use crate::document::{self, number, outcome};
use crate::drivers::drivers;
use crate::operation::ended_well;
use crate::process::{ExitedProcess, PATIENCE, Process, free_port, program, run_thalweg, signal, thalweg, until};
use crate::server::{Server, large};

/// A page with files of all sizes.
const PAGE: &str = "<!doctype html><link rel=stylesheet href=page.css><script src=page.js></script>\
                    <img src=one.svg><img src=two.svg><img src=three.svg><p>text</p>";

/// A server over TLS with a page, and its log.
struct PageServer {
    server: Server,
    folder: TempDir,
}

impl PageServer {
    fn start(driver: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        let picture = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><rect width='9' height='9'/></svg>";
        let script = "onload = () => document.querySelector('p').textContent =
            [...document.images].filter(image => image.naturalWidth).length + ' pictures'; /* "
            .to_owned()
            + &"x".repeat(300_000)
            + " */";
        let files = [("index.html", PAGE), ("page.css", "p { color: red }"), ("page.js", &script)];
        for (name, text) in files.into_iter().chain(["one.svg", "two.svg", "three.svg"].map(|name| (name, picture))) {
            fs::write(root.join(name), text).unwrap();
        }
        let log = folder.path().join("access.log");
        let options = ["--driver", driver, "--tls", "self-signed", "--access-log", log.to_str().unwrap()];
        let server = Server::start(&root, &[&options[..], &["--log-format", "json"]].concat(), thalweg).unwrap();
        Self { server, folder }
    }

    /// Ends the server. Returns the paths of good responses, all of which were by HTTP/2.
    fn paths(self) -> BTreeSet<String> {
        self.server.process.signal("TERM");
        ended_well(&self.server.process.wait(PATIENCE));
        let log = fs::read_to_string(self.folder.path().join("access.log")).unwrap();
        let mut paths = BTreeSet::new();
        for line in log.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!((&line["version"], &line["tls"]), (&"HTTP/2.0".into(), &"TLSv1.3".into()), "{log}");
            if line["status"] == 200 {
                paths.insert(line["target"].as_str().expect("a target").to_owned());
            }
        }
        paths
    }
}

fn all_paths() -> BTreeSet<String> {
    ["/", "/page.css", "/page.js", "/one.svg", "/two.svg", "/three.svg"].map(str::to_owned).into()
}

#[test]
fn chromium_shows_a_page() {
    for driver in drivers() {
        let page = PageServer::start(driver);
        let profile = TempDir::new().unwrap();
        let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
        let mut command = Command::new(program(&names, "chromium"));
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        command.args(["--ignore-certificate-errors", "--virtual-time-budget=10000", "--dump-dom"]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).env("TMPDIR", profile.path());
        let ended = Process::start(command.arg(format!("{}/", page.server.url))).wait(PATIENCE);
        assert!(ended.code == Some(0) && ended.stdout.contains("<p>3 pictures</p>"), "{driver}: {ended:?}");
        assert!(page.paths().is_superset(&all_paths()), "{driver}");
    }
}

#[test]
fn nghttp_gets_a_page_and_its_files() {
    for driver in drivers() {
        let page = PageServer::start(driver);
        let mut command = Command::new(program(&["nghttp"], "nghttp2-client"));
        // Null output, assets, statistics.
        command.args(["--null-out", "--get-assets", "--stat"]).arg(format!("{}/", page.server.url));
        let ended = Process::start(&mut command).wait(PATIENCE);
        assert!(ended.code == Some(0) && ended.stdout.matches(" 200 ").count() >= 6, "{driver}: {ended:?}");
        assert_eq!(page.paths(), all_paths(), "{driver}");
    }
}

/// A server of others with two files, over TLS.
struct Other {
    process: Process,
    folder: TempDir,
    address: SocketAddr,
}

impl Other {
    /// Starts a server by its command, which gets the folder and the address.
    fn start(command: impl FnOnce(&Path, SocketAddr) -> Command) -> Self {
        let folder = TempDir::new().unwrap();
        let authority = Authority::root("tests");
        let issued = authority.server(&["127.0.0.1"]);
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        let files = [("ca.pem", &authority.pem), ("chain.pem", &issued.pem), ("key.pem", &issued.key)];
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        fs::write(root.join("small"), [b'x'; 512]).unwrap();
        fs::write(root.join("large"), &large()[..300_000]).unwrap();
        // None of these servers can be told to choose a port.
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut process = Process::start(&mut command(folder.path(), address));
        until("the other server to listen", PATIENCE, || {
            assert!(process.ended().is_none(), "it has ended: {}{}", process.stdout(), process.stderr());
            TcpStream::connect(address).ok()
        });
        Self { process, folder, address }
    }

    fn run(&self, path: &str, options: &[&str]) -> ExitedProcess {
        let (url, ca) = (format!("https://{}{path}", self.address), self.folder.path().join("ca.pem"));
        let usual = ["run", &url, "--http", "2", "--cacert", ca.to_str().unwrap(), "--json"];
        let load = ["--connections", "4", "--workers", "64", "--streams", "16"];
        run_thalweg(&[&usual[..], &load, options].concat())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // A master that is killed would leave its workers behind.
        signal("TERM", self.process.id());
        until("the other server to end", PATIENCE, || self.process.ended());
    }
}

/// Loads a server.
fn check(server: &Other) {
    for driver in drivers() {
        let load = |path: &str, count: &str, check: &str| {
            document::trial(&server.run(path, &["--driver", driver, "--requests", count, "--check", check]))
        };
        let small = load("/small", "3000", "status=200,length=512");
        assert_eq!(
            (outcome(&small, "good"), number(&small, "/connections/opened")),
            (3000, 4.0),
            "{driver}: {small:#}"
        );
        let large = load("/large", "100", "status=200,length=300000");
        assert_eq!(outcome(&large, "good"), 100, "{driver}: {large:#}");
        let missing = load("/missing", "100", "status=200");
        assert_eq!(missing["status_codes"]["404"], 100, "{driver}: {missing:#}");
    }
}

fn text(path: PathBuf) -> String {
    path.to_str().expect("temporary folders have plain names").to_owned()
}

#[test]
fn nginx_answers_on_many_streams_over_tls() {
    check(&Other::start(|folder, address| {
        let file = folder.join("nginx.conf");
        let folder = folder.display();
        let configuration = format!(
            "daemon off; worker_processes 1; user root root; pid {folder}/nginx.pid; error_log {folder}/error.log;
             events {{ worker_connections 1024; }}
             http {{
                 access_log off;
                 client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
                 uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
                 server {{
                     listen {address} ssl http2;
                     ssl_certificate {folder}/chain.pem; ssl_certificate_key {folder}/key.pem;
                     root {folder}/root;
                 }}
             }}"
        );
        fs::write(&file, configuration).unwrap();
        let mut command = Command::new(program(&["nginx"], "nginx"));
        command.args(["-e", "stderr", "-c"]).arg(file);
        command
    }));
}

#[test]
fn nghttpd_answers_on_many_streams_over_tls() {
    check(&Other::start(|folder, address| {
        let mut command = Command::new(program(&["nghttpd"], "nghttp2-server"));
        command.args(["-a", "127.0.0.1", "-d"]).arg(folder.join("root")).arg(address.port().to_string());
        command.args([folder.join("key.pem"), folder.join("chain.pem")]);
        command
    }));
}

#[test]
fn h2o_answers_on_many_streams_over_tls() {
    check(&Other::start(|folder, address| {
        let file = folder.join("h2o.conf");
        let [chain, key, root] = ["chain.pem", "key.pem", "root"].map(|name| text(folder.join(name)));
        let configuration = format!(
            "listen: {{ host: 127.0.0.1, port: {}, ssl: {{ certificate-file: {chain}, key-file: {key} }} }}\n\
             hosts: {{ default: {{ paths: {{ \"/\": {{ file.dir: {root} }} }} }} }}\nnum-threads: 1\n",
            address.port()
        );
        fs::write(&file, configuration).unwrap();
        let mut command = Command::new(program(&["h2o"], "h2o"));
        command.arg("-c").arg(file);
        command
    }));
}

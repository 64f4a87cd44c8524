//! The effect of the sandbox: the server reaches the folders that it serves, and of others no more
//! than it needs.

use std::fs;
use std::path::Path;

use crate::operation::{Place, Successor, body, ended_well, said, started};
use crate::process::{PATIENCE, Process, until};

/// A configuration in a folder with a secret, which serves `root`.
struct FolderWithSecret {
    place: Place,
    file: String,
}

impl FolderWithSecret {
    fn new() -> Self {
        let place = Place::new();
        for folder in ["etc", "log", "run"] {
            fs::create_dir(place.path(folder)).unwrap();
        }
        fs::write(place.path("etc/secret"), "secret").unwrap();
        fs::write(place.path("log/secret"), "secret").unwrap();
        let file = place.path("etc/thalweg.toml");
        Self { place, file }
    }

    fn text(&self, root: &str, more: &str) -> String {
        let head = "listen = [\"127.0.0.1:0\"]\npid_file = \"../run/pid\"\n[log]\nerror = \"../log/error.log\"\n";
        format!("{head}{more}[[site]]\nroot = \"{}\"\n", self.place.path(root))
    }

    /// Replaces the file as editors do.
    fn replace(&self, text: &str) {
        fs::write(self.place.path("etc/new"), text).unwrap();
        fs::rename(self.place.path("etc/new"), &self.file).unwrap();
    }

    fn wait_for(&self, part: &str) -> String {
        let log = || fs::read_to_string(self.place.path("log/error.log")).unwrap_or_default();
        until(part, PATIENCE, || log().lines().find(|line| line.contains(part)).map(str::to_owned))
    }

    fn start(&self) -> (Process, String) {
        started(&["serve", "--config", &self.file])
    }
}

fn is_confined(server: &Process) -> bool {
    server.stdout().contains("sandbox: files")
}

#[test]
fn a_secret_beside_the_configuration_is_out_of_reach() {
    let secretive = FolderWithSecret::new();
    secretive.replace(&secretive.text("root", ""));
    let (server, address) = secretive.start();
    // The server is had to try: what it could read it would serve.
    for folder in ["etc", "log", "run"] {
        if !is_confined(&server) {
            break;
        }
        secretive.replace(&secretive.text(folder, ""));
        server.signal("HUP");
        let refused =
            secretive.wait_for(&format!("cannot open the folder {}: Permission denied", secretive.place.path(folder)));
        assert!(refused.contains("need an upgrade (USR2)") || refused.contains("need an upgrade, USR2"), "{refused}");
    }
    assert_eq!(body(&address, "/name"), b"first");
    server.signal("TERM");
    ended_well(&server.wait(PATIENCE));
    assert!(!Path::new(&secretive.place.path("run/pid")).exists());
}

#[test]
fn a_configuration_that_was_replaced_is_read_by_hup_and_by_the_successor() {
    let secretive = FolderWithSecret::new();
    fs::write(secretive.place.path("root/other"), "other").unwrap();
    secretive.replace(&secretive.text("root", ""));
    let (server, address) = secretive.start();
    for name in ["a", "b"] {
        secretive.replace(
            &(secretive.text("root", "") + &format!("[[site.rule]]\nfiles = \"name\"\ncontent_type = \"x/{name}\"\n")),
        );
        server.signal("HUP");
        until("the new type", PATIENCE, || {
            crate::curl::fetch(&[], &format!("http://{address}/name"))
                .field("Content-Type")
                .contains(name)
                .then_some(())
        });
    }
    fs::remove_file(&secretive.file).unwrap();
    server.signal("HUP");
    let refused = secretive.wait_for("cannot read the configuration");
    assert!(refused.contains("No such file") && !refused.contains("sandbox"), "{refused}");
    secretive.replace(&secretive.text("root", "access = \"../log/access.log\"\n"));
    server.signal("USR2");
    let line = secretive.wait_for("is starting to take over");
    let successor = Successor(line.split(' ').nth(3).unwrap().parse().unwrap());
    secretive.wait_for("the upgrade succeeded");
    assert_eq!(body(&address, "/other"), b"other");
    ended_well(&server.wait(PATIENCE));
    // The launcher of the successor opens it, too.
    secretive.replace("nonsense = 1\n");
    crate::process::signal("HUP", successor.0);
    secretive.wait_for("`nonsense`");
    successor.end();
}

#[test]
fn a_folder_that_is_missing_is_said_before_the_server_says_that_it_listens() {
    let place = Place::new();
    let root = place.path("root");
    let missing = place.path("missing/file");
    let socket = format!("unix:{}", place.path("socket"));
    for option in ["--pid-file", "--access-log", "--error-log"] {
        let ended = crate::process::run_thalweg(&["serve", &root, "--listen", &socket, option, &missing]);
        assert!(!Path::new(&place.path("socket")).exists(), "{option}: nothing is left behind");
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{option}: {ended:?}");
        assert!(ended.stderr.contains("missing") && ended.stderr.lines().count() == 1, "{option}: {ended:?}");
    }
    let (server, _) = started(&["serve", &root, "--listen", "127.0.0.1:0"]);
    server.signal("HUP");
    said(&server, "the configuration was reloaded");
}

//! A network and a file system in which the addresses and paths of documents exist: a namespace
//! with nothing but a loopback device, the file system of this host read-only, and folders in
//! memory in place of those that snippets write to.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::authority::{Authority, Validity};
use crate::process::{ExitedProcess, PATIENCE, Process, STORE, until};

/// Names in documents that stand for something of the reader's.
const PLACEHOLDERS: [(&str, &str); 4] = [
    ("URL_A", "http://127.0.0.1:8080/"),
    ("URL_B", "http://127.0.0.1:8081/"),
    ("URL", "http://127.0.0.1:8080/"),
    ("DIR", "tree"),
];

/// Files that all worlds have in common.
pub(crate) struct Fixtures(TempDir);

impl Fixtures {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().expect("a temporary folder can be made");
        let authority = Authority::root("staff");
        let issued = authority.server(&["mirror.example.org", "localhost", "127.0.0.1"]);
        let client = authority.client("client", Validity::Present);
        for (name, text) in [
            ("authority.pem", authority.pem.as_str()),
            ("cert.pem", &issued.pem),
            ("key.pem", &issued.key),
            ("client.pem", &client.pem),
            ("client.key", &client.key),
            ("access.log", &access_log()),
            ("setup.sh", include_str!("world.sh")),
        ] {
            fs::write(folder.path().join(name), text).expect("a file can be written");
        }
        // Edits of a reader are not in the snippet.
        let editor = folder.path().join("editor");
        fs::write(&editor, "#!/bin/sh\n").expect("a file can be written");
        fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).expect("a mode can be set");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_thalweg"), folder.path().join("thalweg"))
            .expect("a link can be made");
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Twenty requests of four clients within six seconds.
fn access_log() -> String {
    let line = |number: usize| {
        let (client, second) = (number % 4 + 1, number / 4);
        let path = ["/", "/a.txt", "/index.html", "/big.iso"][number % 4];
        format!(
            "192.0.2.{client} - - [22/Nov/2026:10:00:0{second} +0000] \"GET {path} HTTP/1.1\" 200 512 \"-\" \"x\"\n"
        )
    };
    (0..20).map(line).collect()
}

/// A world and what runs in it.
pub(crate) struct World {
    /// Keeps the namespaces; killed at the end.
    holder: Process,
    /// A folder that only the world sees, in which commands are run.
    folder: TempDir,
    fixtures: PathBuf,
    running: Vec<(String, Group)>,
    has_runs: bool,
}

impl World {
    /// Makes one. Where this is forbidden it is reported, as in [`crate::namespace`].
    pub(crate) fn new(fixtures: &Fixtures, repository: &Path) -> Option<Self> {
        let folder = TempDir::new().expect("a temporary folder can be made");
        let mut unshare = Command::new("unshare");
        unshare
            .args(["--user", "--map-root-user", "--net", "--mount", "sh"])
            .arg(fixtures.path().join("setup.sh"))
            .args([folder.path(), fixtures.path(), repository])
            .env("PATH", path(fixtures.path()))
            .stdin(Stdio::null());
        let mut holder = Process::start(&mut unshare);
        let is_up = until("a world", PATIENCE, || {
            let ended = holder.ended().is_some();
            (ended || holder.stdout().contains("up")).then_some(!ended)
        });
        if !is_up {
            use std::io::Write;
            let why = holder.stderr();
            let _ = writeln!(
                std::io::stderr(),
                "\nSKIPPED: snippets: this host allows no namespaces ({}); run the tests as root",
                why.trim()
            );
            return None;
        }
        let fixtures = fixtures.path().to_owned();
        Some(Self { holder, folder, fixtures, running: Vec::new(), has_runs: false })
    }

    /// Starts a command line within the world.
    pub(crate) fn start(&self, line: &str) -> Group {
        let line = placeholders_filled(line);
        // A command that is replaced by its program gets signals itself.
        let is_simple = !line.contains(['|', ';', '\n']) && !line.contains("&&");
        let is_program = is_simple && !line.starts_with("cd ") && !line.starts_with("export ");
        let script = if is_program { format!("exec {line}") } else { line };
        let pid = self.holder.id().to_string();
        let mut command = Command::new("nsenter");
        command
            .args(["--preserve-credentials", "--user", "--net", "--mount", "--target", &pid])
            // Files without permission stay closed, as they are to users other than root.
            .args(["setpriv", "--bounding-set", "-dac_override,-dac_read_search"])
            .args(["sh", "-c", "cd \"$1\" && eval \"$2\"", "sh"])
            .arg(self.folder.path())
            .arg(script)
            .env("PATH", path(&self.fixtures))
            .env("HOME", self.folder.path())
            .env("TMPDIR", self.folder.path())
            .env("TERM", "dumb")
            .env(STORE, self.folder.path().join("runs.sqlite"))
            .env_remove("XDG_DATA_HOME")
            .stdin(Stdio::null())
            .process_group(0);
        Group { process: Some(Process::start(&mut command)) }
    }

    /// Runs a command line, which has to succeed.
    pub(crate) fn prepare(&self, line: &str) {
        let ended = self.start(line).wait(PATIENCE);
        assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
    }

    /// Keeps a command running until the world ends.
    pub(crate) fn keep(&mut self, place: String, group: Group) {
        self.running.push((place, group));
    }

    /// Serves the files of the world where nobody listens yet.
    pub(crate) fn serve_at(&mut self, port: u16) {
        if self.listens_at(port) {
            return;
        }
        let line = format!("thalweg serve /srv/mirror --listen 0.0.0.0:{port} --listing");
        let group = self.start(&line);
        until(&line, PATIENCE, || self.listens_at(port).then_some(()));
        self.running.push((line, group));
    }

    /// Whether a socket listens at the port, by the kernel's list of the namespace.
    fn listens_at(&self, port: u16) -> bool {
        const LISTENING: &str = "0A";
        ["tcp", "tcp6"].iter().any(|list| {
            let list = fs::read_to_string(format!("/proc/{}/net/{list}", self.holder.id())).unwrap_or_default();
            let suffix = format!(":{port:04X}");
            list.lines().skip(1).any(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                fields.get(1).is_some_and(|local| local.ends_with(&suffix)) && fields.get(3) == Some(&LISTENING)
            })
        })
    }

    /// Stores some runs, once, for commands that report on stored runs.
    pub(crate) fn store_runs(&mut self) {
        if std::mem::replace(&mut self.has_runs, true) {
            return;
        }
        self.serve_at(8080);
        for (label, file) in [("apache", "apache.json"), ("nginx", "nginx.json"), ("nginx", "result.json")] {
            // The verdict depends on how busy this machine is.
            let line =
                format!("thalweg run URL --rate 200/s --duration 300ms --label {label} --json > {file}; [ $? -le 3 ]");
            self.prepare(&line);
        }
    }

    /// Ends what still runs, as its user would, and returns the faults of that.
    pub(crate) fn end(mut self) -> Vec<String> {
        const PATIENCE: Duration = Duration::from_secs(60);
        let mut faults = Vec::new();
        for (place, mut group) in self.running.drain(..).rev() {
            if group.ended().is_none() {
                group.signal("INT");
            }
            let ended = group.wait(PATIENCE);
            if !matches!(ended.code, Some(0)) {
                faults.push(format!("{place}: ended with {:?}: {}", ended.code, ended.stderr.trim()));
            }
        }
        faults
    }
}

/// A command with all processes that it starts. They end with this value.
pub(crate) struct Group {
    process: Option<Process>,
}

impl Group {
    fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("it was not waited for")
    }

    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.process().ended().map(|status| status.code().unwrap_or(-1))
    }

    pub(crate) fn stdout(&mut self) -> String {
        self.process().stdout()
    }

    /// Sends a signal as a terminal would.
    pub(crate) fn signal(&mut self, name: &str) {
        kill(name, self.process().id());
    }

    pub(crate) fn wait(mut self, patience: Duration) -> ExitedProcess {
        let process = self.process.take().expect("it was not waited for");
        let id = process.id();
        let ended = process.wait(patience);
        kill("KILL", id);
        ended
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(process) = &self.process {
            kill("KILL", process.id());
        }
    }
}

/// Signals a group of processes, if there still is one.
fn kill(name: &str, group: u32) {
    let script = format!("kill -{name} -{group} 2>/dev/null");
    let _ = Command::new("sh").args(["-c", &script]).status();
}

/// The line with what its placeholders stand for.
fn placeholders_filled(line: &str) -> String {
    let mut line = line.to_owned();
    for (name, value) in PLACEHOLDERS {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut from = 0;
        while let Some(at) = line[from..].find(name).map(|at| at + from) {
            let end = at + name.len();
            let is_alone = !line[..at].ends_with(is_word) && !line[end..].starts_with(is_word);
            if is_alone {
                line.replace_range(at..end, value);
            }
            from = if is_alone { at + value.len() } else { end };
        }
    }
    line
}

/// The search path of programs: the one under test first, those for administrators last.
fn path(fixtures: &Path) -> String {
    format!("{}:{}:/usr/sbin:/sbin", fixtures.display(), std::env::var("PATH").unwrap_or_default())
}

#[test]
fn placeholders_are_whole_words() {
    for (line, filled) in [
        ("thalweg run URL --x", "thalweg run http://127.0.0.1:8080/ --x"),
        ("find a=URL b=URL_B", "find a=http://127.0.0.1:8080/ b=http://127.0.0.1:8081/"),
        ("CURL URLS $URL_C", "CURL URLS $URL_C"),
    ] {
        assert_eq!(placeholders_filled(line), filled);
    }
}

//! A server from its start until it has ended.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use thalweg_report::cell::ServerFacts;
use thalweg_sys::affinity;
use url::Url;

use super::file::{ServerSpec, read_bounded};
use super::placeholders::{Values, fill};

use crate::command::{CommandError, RunningCommand, shell};

/// The interval at which a starting server is asked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long one question to a starting server may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a command that prints a version may take.
const VERSION_PATIENCE: Duration = Duration::from_secs(10);
/// Descriptors of a server that are neither connections nor files: logs, pipes, sockets of its
/// workers, and connections to the origin.
const DESCRIPTORS_BESIDE: u64 = 512;

/// The things that a server is started with, the same for all servers of a comparison.
#[derive(Clone, Debug)]
pub struct ServerSetting {
    /// The folder that has the trees.
    pub root: PathBuf,
    /// The folder of the file of servers.
    pub here: PathBuf,
    /// The CPUs of the server.
    pub cpus: Vec<usize>,
    /// Limit on its descriptors.
    pub descriptors: u64,
    /// How many files the suite has.
    pub files: u64,
    /// Port of the origin for dynamic content, at 127.0.0.1.
    pub origin: Option<u16>,
    /// This program.
    pub program: PathBuf,
}

impl ServerSetting {
    /// How many files a server may keep open: those of the suite, but at most half of its
    /// descriptors.
    pub fn open_files(&self) -> u64 {
        self.files.min(self.descriptors / 2)
    }

    /// The descriptors that are left for connections.
    pub fn connections(&self) -> u64 {
        self.descriptors.saturating_sub(self.open_files() + DESCRIPTORS_BESIDE).max(1)
    }

    /// The folder whose path a shell or a configuration would not read as one word, if any: the
    /// paths are put into commands and configurations as they are.
    pub fn unusable_folder(&self) -> Option<PathBuf> {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._+-,@:=".contains(byte);
        let folders = [self.root.clone(), self.here.clone(), std::env::temp_dir()];
        folders.into_iter().find(|folder| !folder.as_os_str().as_encoded_bytes().iter().all(is_plain))
    }
}

/// The reasons why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its folder, a template or a port could not be had.
    #[error("{what}: {source}")]
    Prepare {
        /// The step.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The command could not be run.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The address is no URL.
    #[error("{url} is not the URL of a server: {reason}")]
    Url {
        /// The text.
        url: String,
        /// The fault.
        reason: String,
    },
    /// It has ended at once.
    #[error("{command:?} has ended ({status}){output}")]
    Ended {
        /// The command.
        command: String,
        /// How it ended.
        status: String,
        /// Its output on stderr, as the end of a sentence.
        output: String,
    },
    /// It gives no answer.
    #[error(
        "{url} gives no HTTP response {seconds} s after the start of {command:?}{output}; check the command, or raise \
         `start-seconds`"
    )]
    NoAnswer {
        /// The address.
        url: String,
        /// The command.
        command: String,
        /// How long it was waited for.
        seconds: u32,
        /// Its output on stderr, as the end of a sentence.
        output: String,
    },
    /// The user ended the measurement.
    #[error("interrupted while the server was starting")]
    Interrupted,
}

/// A server that answers. It ends when dropped.
#[derive(Debug)]
pub struct RunningServer {
    /// The address of the folder that has the trees.
    pub url: Url,
    /// The facts about it.
    pub facts: ServerFacts,
    command: RunningCommand,
    /// Removed when the server has ended.
    _work: tempfile::TempDir,
}

impl RunningServer {
    /// Starts a server in a folder of its own and waits until it answers.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(
        spec: &ServerSpec,
        setting: &ServerSetting,
        wants_stop: &dyn Fn() -> bool,
    ) -> Result<Self, StartError> {
        let prepare = |what: &str| {
            let what = what.to_owned();
            move |source| StartError::Prepare { what, source }
        };
        let work = tempfile::Builder::new().prefix("thalweg-server-").tempdir().map_err(prepare("its folder"))?;
        open_to_all(work.path()).map_err(prepare("its folder"))?;
        let port = free_port().map_err(prepare("a free port"))?;
        let values = values(setting, work.path(), port);
        let mut configurations = BTreeMap::new();
        for template in &spec.templates {
            let failed = || prepare(&format!("the template {}", template.display()));
            let text = fill(&read_bounded(&setting.here.join(template)).map_err(failed())?, &values);
            let name = template.file_name().expect("templates were checked").to_string_lossy().into_owned();
            fs::write(work.path().join(&name), &text).map_err(failed())?;
            configurations.insert(name, text);
        }
        let url = fill(&spec.url, &values);
        let url = Url::parse(&url).map_err(|error| StartError::Url { url, reason: error.to_string() })?;
        let text = fill(&spec.command, &values);
        let command =
            pinned(&setting.cpus, || RunningCommand::start_in(&text, work.path())).map_err(prepare("its CPUs"))??;
        let facts = ServerFacts {
            version: version(spec, setting),
            command: fill(&spec.command, &with_program(values, "thalweg")),
            cpus: setting.cpus.clone(),
            configurations,
            descriptors: setting.descriptors,
            connections: setting.connections(),
        };
        let server = Self { url, facts, command, _work: work };
        server.wait_until_it_answers(spec.start_seconds, wants_stop)?;
        Ok(server)
    }

    fn wait_until_it_answers(&self, seconds: u32, wants_stop: &dyn Fn() -> bool) -> Result<(), StartError> {
        let begun = Instant::now();
        let command = || self.facts.command.clone();
        loop {
            if wants_stop() {
                return Err(StartError::Interrupted);
            }
            if let Some(status) = self.command.ended() {
                let (status, output) = (status.to_string(), self.command.output());
                return Err(StartError::Ended { command: command(), status, output });
            }
            if answers(&self.url).is_ok_and(|does| does) {
                return Ok(());
            }
            if begun.elapsed() > Duration::from_secs(seconds.into()) {
                let (url, output) = (self.url.to_string(), self.command.output());
                return Err(StartError::NoAnswer { url, command: command(), seconds, output });
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// A sentence about its end, if it has ended by itself.
    pub fn end_in_words(&self) -> Option<String> {
        let status = self.command.ended()?;
        Some(format!("the server has ended ({status}){}", self.command.output()))
    }
}

fn values(setting: &ServerSetting, work: &Path, port: u16) -> Values {
    let shown = |path: &Path| path.display().to_string();
    // Nothing listens on port 1 of this host, so that a missing origin is an error and no wait.
    let origin = setting.origin.unwrap_or(1);
    [
        shown(&setting.root),
        port.to_string(),
        shown(work),
        shown(&setting.here),
        setting.cpus.len().to_string(),
        setting.descriptors.to_string(),
        setting.open_files().to_string(),
        setting.connections().to_string(),
        origin.to_string(),
        shown(&setting.program),
    ]
}

/// The values with another text for this program.
fn with_program(mut values: Values, program: &str) -> Values {
    let last = values.last_mut().expect("there are placeholders");
    program.clone_into(last);
    values
}

/// Workers of a server may run as another user than the one who has made the folder.
fn open_to_all(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777))
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Runs `start` on `cpus`. A process that it starts stays there: it inherits the affinity.
///
/// # Errors
/// The kernel refuses these CPUs.
pub fn pinned<T>(cpus: &[usize], start: impl FnOnce() -> T) -> io::Result<T> {
    let before = affinity::allowed_cpus()?;
    affinity::pin_to(cpus)?;
    let started = start();
    affinity::pin_to(&before)?;
    Ok(started)
}

/// Whether the server at `url` gives an HTTP response of any kind.
fn answers(url: &Url) -> io::Result<bool> {
    let address = url.socket_addrs(|| None)?.into_iter().next().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    write!(stream, "GET {} HTTP/1.0\r\nHost: {address}\r\n\r\n", url.path())?;
    let mut start = [0; 5];
    stream.read_exact(&mut start)?;
    Ok(&start == b"HTTP/")
}

/// The version of a server: the first line that its command prints, on either stream.
pub fn version(spec: &ServerSpec, setting: &ServerSetting) -> Option<String> {
    let command = fill(spec.version.as_ref()?, &values(setting, &setting.here, 0));
    let mut output = tempfile::tempfile().ok()?;
    let streams = (output.try_clone().ok()?, output.try_clone().ok()?);
    let mut child = shell(&command).stdin(Stdio::null()).stdout(streams.0).stderr(streams.1).spawn().ok()?;
    let begun = Instant::now();
    while child.try_wait().ok()?.is_none() {
        if begun.elapsed() > VERSION_PATIENCE {
            child.kill().ok()?;
            child.wait().ok()?;
            return None;
        }
        thread::sleep(POLL_INTERVAL);
    }
    let mut text = String::new();
    io::Seek::rewind(&mut output).ok()?;
    output.take(4096).read_to_string(&mut text).ok()?;
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "exec python3 -m http.server --bind 127.0.0.1 --directory {root} {port}";

    fn spec(command: &str) -> ServerSpec {
        ServerSpec {
            name: "one".into(),
            command: command.into(),
            version: Some("echo; echo one 1.0 >&2".into()),
            templates: vec!["one.conf".into()],
            url: "http://127.0.0.1:{port}/".into(),
            dynamic: None,
            suites: None,
            start_seconds: 20,
        }
    }

    fn setting(here: &Path) -> ServerSetting {
        ServerSetting {
            root: here.to_owned(),
            here: here.to_owned(),
            cpus: affinity::allowed_cpus().unwrap()[..1].to_vec(),
            descriptors: 20_000,
            files: 1000,
            origin: None,
            program: "thalweg".into(),
        }
    }

    fn start(command: &str) -> Result<RunningServer, StartError> {
        let here = tempfile::tempdir().unwrap();
        fs::write(here.path().join("one.conf"), "server { listen {port}; max {connections}; }").unwrap();
        RunningServer::start(&spec(command), &setting(here.path()), &|| false)
    }

    #[test]
    fn a_server_is_started_told_about_and_ended() {
        let before = affinity::allowed_cpus().unwrap();
        let server = start(SERVER).unwrap();
        assert_eq!(affinity::allowed_cpus().unwrap(), before);
        let port = server.url.port().unwrap();
        assert_eq!(server.facts.version.as_deref(), Some("one 1.0"));
        assert_eq!(server.facts.configurations["one.conf"], format!("server {{ listen {port}; max 18488; }}"));
        assert_eq!(server.end_in_words(), None);
        drop(server);
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(), "it has ended");
    }

    #[test]
    fn the_version_is_the_first_line_of_its_command() {
        let here = Path::new("/usr");
        assert_eq!(version(&spec(SERVER), &setting(here)).as_deref(), Some("one 1.0"));
        let silent = ServerSpec { version: Some("true".into()), ..spec(SERVER) };
        assert_eq!(version(&silent, &setting(here)), None);
    }

    #[test]
    fn folders_that_a_shell_would_split_are_found() {
        let folder = |path: &str| setting(Path::new(path)).unusable_folder();
        assert_eq!(folder("/srv/trees-1.0"), None);
        for path in ["/srv/my trees", "/srv/$HOME", "/srv/a;b", "/srv/a'b", "/srv/{port}"] {
            assert_eq!(folder(path).as_deref(), Some(Path::new(path)));
        }
    }

    #[test]
    fn a_server_that_does_not_start_says_why() {
        let error = start("echo no such module >&2; exit 3").unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("no such module"), "{error}");
    }
}

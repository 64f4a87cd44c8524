//! A process beside the server that starts the server's successor, and opens the configuration for
//! a reload.
//!
//! The server gives up the right to start programs, so that an attacker who breaks into it cannot.
//! A copy of the process, made before that and with nothing open, serves two requests. It starts
//! the same program with the same arguments; and it opens the one file that these name as the
//! configuration, whichever file has that name by then. The sandbox cannot allow the latter: it
//! allows a file, which an editor replaces, or its whole folder, which may hold secrets. The same
//! holds for the files of certificates and keys: the launcher opens those that the configuration
//! names by then, which it reads itself. A request has no influence on program, arguments or paths
//! beyond a choice among these. The launcher ends with the server.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::{env, process};

use thalweg_sys::handover::{Channel, Incoming, MESSAGE_BYTES_MAX};
use thalweg_sys::process::{O_NONBLOCK, stand_apart};

/// The variable with the predecessor's process number for a successor; its standard input is then
/// the channel to it.
pub(super) const PREDECESSOR: &str = "THALWEG_PREDECESSOR";

/// Variables of the service manager, which are meant for one process and not for its successor.
const FOR_ONE_PROCESS: [&str; 4] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"];

/// The requests to the launcher.
const START: &[u8] = b"start";
const OPEN: &[u8] = b"open";
/// With the path behind it.
const OPEN_NAMED: &[u8] = b"open ";

/// Most bytes of a file that the configuration names.
const NAMED_BYTES_MAX: u64 = 4 << 20;

/// The prefix of a response with an error number.
const ERROR: &str = "error ";

/// The channel to the launcher.
#[derive(Debug)]
pub(super) struct Launcher(Channel);

impl Launcher {
    /// Starts the launcher, which can open this file, and those that `named` lists each time. To be
    /// called before there are threads.
    ///
    /// # Errors
    /// The host cannot start another process.
    pub(super) fn start(configuration: Option<&Path>, named: impl Fn() -> Vec<PathBuf>) -> io::Result<Self> {
        let (ours, theirs) = Channel::pair()?;
        let program = program_path()?;
        let arguments: Vec<OsString> = env::args_os().skip(1).collect();
        let predecessor = process::id().to_string();
        let successor = Successor { program, arguments, predecessor };
        stand_apart(theirs.into(), move |channel| wait(&channel.into(), &successor, configuration, &named))?;
        Ok(Self(ours))
    }

    /// Starts the program with this end of a channel; returns its process number.
    ///
    /// # Errors
    /// The program cannot be started, or the launcher has gone.
    pub(super) fn launch(&self, channel: &Channel) -> io::Result<u32> {
        self.0.send(START, &[channel.as_fd()])?;
        let (answer, _) = self.answer()?;
        answer.parse().map_err(|_| io::Error::other(answer))
    }

    /// Opens the present file of the configuration.
    ///
    /// # Errors
    /// The file cannot be opened, or the launcher has gone.
    pub(super) fn open_configuration(&self) -> io::Result<File> {
        self.open(OPEN)
    }

    /// Reads a file that the configuration names.
    ///
    /// # Errors
    /// The file cannot be opened or read, the configuration does not name it, or the launcher has
    /// gone.
    pub(super) fn read_named(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(&[OPEN_NAMED, path.as_os_str().as_bytes()].concat())?;
        let mut bytes = Vec::new();
        file.take(NAMED_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn open(&self, request: &[u8]) -> io::Result<File> {
        if request.len() > MESSAGE_BYTES_MAX {
            return Err(io::Error::other("the path is too long"));
        }
        self.0.send(request, &[])?;
        let (answer, descriptor) = self.answer()?;
        let number = || answer.strip_prefix(ERROR).and_then(|number| number.parse().ok());
        let refused = || number().map_or_else(|| io::Error::other(answer.clone()), io::Error::from_raw_os_error);
        descriptor.map(File::from).ok_or_else(refused)
    }

    fn answer(&self) -> io::Result<(String, Option<OwnedFd>)> {
        match self.0.receive()? {
            Incoming::Message(answer, mut descriptors) => {
                Ok((String::from_utf8_lossy(&answer).into_owned(), descriptors.pop()))
            }
            Incoming::Closed | Incoming::Nothing => Err(io::Error::other("the launcher process has exited")),
        }
    }
}

/// The command that starts the successor.
struct Successor {
    program: PathBuf,
    arguments: Vec<OsString>,
    predecessor: String,
}

/// The launcher's loop over requests.
fn wait(
    server: &Channel,
    successor: &Successor,
    configuration: Option<&Path>,
    named: &dyn Fn() -> Vec<PathBuf>,
) -> i32 {
    while let Ok(Incoming::Message(wish, mut descriptors)) = server.receive() {
        let opened = match wish.strip_prefix(OPEN_NAMED) {
            Some(path) => Some(open_named(Path::new(OsStr::from_bytes(path)), named)),
            None if wish == OPEN => Some(open(configuration)),
            None => None,
        };
        let answer = match (&opened, descriptors.pop()) {
            (Some(Ok(_)), _) => "opened".to_owned(),
            (Some(Err(error)), _) => match error.raw_os_error() {
                Some(number) => format!("{ERROR}{number}"),
                None => error.to_string(),
            },
            (None, Some(channel)) => match successor.start(channel) {
                Ok(number) => number.to_string(),
                Err(error) => format!("cannot start {}: {error}", successor.program.display()),
            },
            (None, None) => "the channel to the new server is missing".to_owned(),
        };
        let file = opened.and_then(Result::ok);
        let descriptors: Vec<_> = file.iter().map(AsFd::as_fd).collect();
        if server.send(answer.as_bytes(), &descriptors).is_err() {
            break;
        }
    }
    0
}

/// Opens the configuration.
fn open(configuration: Option<&Path>) -> io::Result<File> {
    open_file(configuration.ok_or_else(|| io::Error::other("the server has no configuration file"))?)
}

/// Opens a file that the configuration names.
fn open_named(path: &Path, named: &dyn Fn() -> Vec<PathBuf>) -> io::Result<File> {
    match named().iter().any(|named| named == path) {
        true => open_file(path),
        false => Err(io::Error::other("the configuration does not name this file")),
    }
}

/// Opens a file. A pipe in its place does not block.
fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)
}

impl Successor {
    fn start(&self, channel: OwnedFd) -> io::Result<u32> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::from(channel)).env(PREDECESSOR, &self.predecessor);
        for name in FOR_ONE_PROCESS {
            command.env_remove(name);
        }
        let mut child = command.spawn()?;
        let number = child.id();
        // A child that fails is reaped; another one outlives this process.
        thread::spawn(move || child.wait());
        Ok(number)
    }
}

/// The program's path as the user named it, so that a new version there is started, perhaps behind
/// a changed link.
fn program_path() -> io::Result<PathBuf> {
    let here = env::current_dir()?;
    let named = env::args_os().next().map(PathBuf::from).unwrap_or_default();
    if named.components().count() > 1 {
        return Ok(here.join(named));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| here.join(folder).join(&named)).find(|path| path.is_file());
    // A name that is found nowhere did not start this process.
    found.filter(|_| !named.as_os_str().is_empty()).map_or_else(env::current_exe, Ok)
}

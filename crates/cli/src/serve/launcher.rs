//! A process beside the server that starts the one which follows.
//!
//! The server gives up the right to start programs, for its own and for all that it starts, so that nobody who breaks into it can. So a
//! copy of it, made before that and with nothing open, waits for the one thing that it can be asked for: to start the same program with the
//! same arguments. It ends with the server.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::{env, process};

use thalweg_sys::handover::{Channel, Heard};
use thalweg_sys::process::stand_apart;

/// Tells a server that the process of this number gives way to it, and that its standard input is the channel to that.
pub const PREDECESSOR: &str = "THALWEG_PREDECESSOR";

/// What a service manager says to one process is not for the next.
const FOR_ONE_PROCESS: [&str; 4] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"];

/// The way to the launcher.
#[derive(Debug)]
pub struct Launcher(Channel);

impl Launcher {
    /// Starts it. To be called before there are threads.
    ///
    /// # Errors
    /// The host has no room for another process.
    pub fn start() -> io::Result<Self> {
        let (ours, theirs) = Channel::pair()?;
        let program = program_path()?;
        let arguments: Vec<OsString> = env::args_os().skip(1).collect();
        let predecessor = process::id().to_string();
        stand_apart(theirs.into(), move |channel| wait(&channel.into(), &program, &arguments, &predecessor))?;
        Ok(Self(ours))
    }

    /// Has the program started, with this end of a channel. The number of its process.
    ///
    /// # Errors
    /// The program cannot be started, or the launcher has gone.
    pub fn launch(&self, channel: &Channel) -> io::Result<u32> {
        self.0.send(b"start", &[channel.as_fd()])?;
        let Heard::Message(answer, _) = self.0.receive()? else {
            return Err(io::Error::other("the process that starts others has gone"));
        };
        let answer = String::from_utf8_lossy(&answer);
        answer.parse().map_err(|_| io::Error::other(answer.into_owned()))
    }
}

/// The launcher's life.
fn wait(server: &Channel, program: &Path, arguments: &[OsString], predecessor: &str) -> i32 {
    while let Ok(Heard::Message(_, mut descriptors)) = server.receive() {
        let answer = match descriptors.pop().map(|channel| start(program, arguments, predecessor, channel)) {
            Some(Ok(number)) => number.to_string(),
            Some(Err(error)) => format!("cannot start {}: {error}", program.display()),
            None => "there is no channel to start a server with".to_owned(),
        };
        if server.send(answer.as_bytes(), &[]).is_err() {
            break;
        }
    }
    0
}

fn start(program: &Path, arguments: &[OsString], predecessor: &str, channel: OwnedFd) -> io::Result<u32> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::from(channel)).env(PREDECESSOR, predecessor);
    for name in FOR_ONE_PROCESS {
        command.env_remove(name);
    }
    let mut child = command.spawn()?;
    let number = child.id();
    // A child that fails is buried; one that does not outlives this process and becomes another's.
    thread::spawn(move || child.wait());
    Ok(number)
}

/// The program as the user named it, so that what stands there by then is started: a new version, perhaps behind a link that leads
/// elsewhere.
fn program_path() -> io::Result<PathBuf> {
    let here = env::current_dir()?;
    let named = env::args_os().next().map(PathBuf::from).unwrap_or_default();
    if named.components().count() > 1 {
        return Ok(here.join(named));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| here.join(folder).join(&named)).find(|path| path.is_file());
    // A name that is nowhere to be found was not what started this process.
    found.filter(|_| !named.as_os_str().is_empty()).map_or_else(env::current_exe, Ok)
}

//! The commands that set a server up before it is measured: they restart it, or switch it to one
//! side of a comparison.
//!
//! A command may end when the server runs (`systemctl restart nginx`), or be the server itself. It
//! runs by the shell in a process group of its own, so that all of it can be ended.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_sys::process_group;

use crate::target::Target;

/// The interval at which a starting server is tried.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long one attempt to connect may take.
const REACH_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a server has to end after TERM.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of a command's output that an error shows.
const OUTPUT_SHOWN_MAX: usize = 2_000;

/// The reasons why a server could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The shell could not be started.
    #[error("cannot run {command:?}: {source}")]
    Start {
        /// The command.
        command: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// It has failed.
    #[error("{command:?} failed ({status}){output}")]
    Failed {
        /// The command.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// Its output on stderr, as the end of a sentence.
        output: String,
    },
    /// The server did not come up.
    #[error(
        "{address} accepts no connection {patience:?} after {command:?}{output}; check that the command starts the \
         server at this address, or raise --restart-timeout"
    )]
    NotReachable {
        /// The command.
        command: String,
        /// The server's address.
        address: String,
        /// How long it was waited for.
        patience: Duration,
        /// Its output on stderr, as the end of a sentence.
        output: String,
    },
    /// The address answered before, and the command goes on.
    #[error(
        "{command:?} has not ended {patience:?} after its start, while another process serves {address} as it did \
         before; end that server first, or let the command end it"
    )]
    StillOccupied {
        /// The command.
        command: String,
        /// The server's address.
        address: String,
        /// How long it was waited for.
        patience: Duration,
    },
    /// The user ended the measurement.
    #[error("interrupted while {command:?} was running")]
    Interrupted {
        /// The command.
        command: String,
    },
}

/// A command that is running or has run. It is ended, with its descendants, when dropped.
#[derive(Debug)]
pub struct RunningCommand {
    command: String,
    child: Child,
    stderr: File,
}

/// The variables that a command sees: `name` as `$name` in its environment, `{placeholder}` in its
/// text.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The name in the environment.
    pub name: &'static str,
    /// The placeholder in the text.
    pub placeholder: &'static str,
    /// The value.
    pub value: String,
}

impl RunningCommand {
    /// Starts `command`.
    ///
    /// # Errors
    /// There is no shell, or the system has no room for another process.
    pub fn start(command: &str, parameter: &Parameter) -> Result<Self, CommandError> {
        let command = command.replace(parameter.placeholder, &parameter.value);
        Self::spawn(command, |shell| {
            shell.args(["sh", &parameter.value]).env(parameter.name, &parameter.value);
        })
    }

    /// Starts `command` in a folder.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_in(command: &str, folder: &Path) -> Result<Self, CommandError> {
        Self::spawn(command.to_owned(), |shell| {
            shell.current_dir(folder);
        })
    }

    fn spawn(command: String, prepare: impl FnOnce(&mut Command)) -> Result<Self, CommandError> {
        let start = || {
            let stderr = tempfile::tempfile()?;
            let mut shell = shell(&command);
            prepare(&mut shell);
            shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr.try_clone()?).process_group(0);
            Ok((process_group::end_with_parent(&mut shell).spawn()?, stderr))
        };
        match start() {
            Ok((child, stderr)) => Ok(Self { command, child, stderr }),
            Err(source) => Err(CommandError::Start { command, source }),
        }
    }

    /// Waits until the target accepts connections that the command has to do with: it has ended
    /// well, or it goes on and the address was free before (`was_reachable`).
    ///
    /// # Errors
    /// The command fails, or the time is over.
    pub fn wait_until_reachable(
        &self,
        target: &Target,
        was_reachable: bool,
        patience: Duration,
        wants_stop: &dyn Fn() -> bool,
    ) -> Result<(), CommandError> {
        let begun = Instant::now();
        loop {
            if wants_stop() {
                return Err(CommandError::Interrupted { command: self.command.clone() });
            }
            let ended = self.ended();
            if let Some(status) = ended.filter(|status| !status.success()) {
                return Err(CommandError::Failed { command: self.command.clone(), status, output: self.output() });
            }
            let is_reachable = target.reach(REACH_TIMEOUT, &[]).is_ok();
            if is_reachable && (ended.is_some() || !was_reachable) {
                return Ok(());
            }
            if begun.elapsed() > patience {
                let (command, address) = (self.command.clone(), target.address.to_string());
                return Err(match is_reachable {
                    true => CommandError::StillOccupied { command, address, patience },
                    false => CommandError::NotReachable { command, address, patience, output: self.output() },
                });
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        process_group::leader_status(self.child.id()).ok().flatten()
    }

    /// Its output on stderr so far, as the end of a sentence.
    pub fn output(&self) -> String {
        let length = self.stderr.metadata().map_or(0, |metadata| metadata.len());
        let mut bytes = vec![0; OUTPUT_SHOWN_MAX];
        // The command shares the position in the file, so that it is not moved.
        let read = self.stderr.read_at(&mut bytes, length.saturating_sub(OUTPUT_SHOWN_MAX as u64)).unwrap_or(0);
        match String::from_utf8_lossy(&bytes[..read]).trim() {
            "" => String::new(),
            text => format!("; it printed: {text}"),
        }
    }

    /// Ends the command and its descendants, gently first. A server that has left the group, as
    /// services do, goes on.
    pub fn end(&mut self) {
        let group = self.child.id();
        let begun = Instant::now();
        // There may be none left in the group.
        let _ = process_group::terminate(group);
        while self.child.try_wait().is_ok_and(|status| status.is_none()) || process_group::is_running(group) {
            if begun.elapsed() > END_PATIENCE {
                let _ = process_group::kill(group);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// The shell with a command. Folders of system programs are in its search path, in which some users
/// do not have them though most servers are there.
pub(crate) fn shell(command: &str) -> Command {
    let mut path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    path.push(":/usr/local/sbin:/usr/sbin:/sbin");
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env("PATH", path);
    shell
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        self.end();
    }
}

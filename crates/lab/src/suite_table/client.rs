//! The client process of a cell: this program again, with `suite NAME URL --json`.

use std::ffi::OsString;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_report::document::Document;
use thalweg_sys::process_group;

use crate::servers::pinned;

/// The interval at which the process is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long the process has to write its result after it was asked to end.
const END_PATIENCE: Duration = Duration::from_secs(30);
/// Largest result in bytes: many trials with their histograms.
const RESULT_BYTES_MAX: u64 = 256 << 20;
/// The most of its messages that are kept: the last ones, which say why it has ended.
const MESSAGES_MAX: usize = 3;
/// The most bytes of messages that are read.
const MESSAGES_BYTES_MAX: u64 = 1 << 20;

/// The end of a client process.
#[derive(Debug)]
pub(super) struct ClientEnd {
    /// Its result; `None` if it printed none.
    pub(super) document: Option<Document>,
    /// Its messages on stderr, one each.
    pub(super) messages: Vec<String>,
}

/// Runs the program with these arguments on `cpus` until it ends. When `wants_stop` says so, it is
/// asked to end, and what it has measured is its result.
pub(super) fn run(
    program: &Path,
    arguments: &[OsString],
    cpus: &[usize],
    wants_stop: &mut dyn FnMut() -> bool,
) -> io::Result<ClientEnd> {
    let (mut result, mut messages) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(result.try_clone()?).stderr(messages.try_clone()?);
    // In a group of its own, since a second Ctrl-C ends it at once and the terminal sends it one.
    process_group::end_with_parent(command.process_group(0));
    let mut child = Client(pinned(cpus, || command.spawn())??);
    child.wait(wants_stop)?;
    result.rewind()?;
    messages.rewind()?;
    let mut json = Vec::new();
    result.take(RESULT_BYTES_MAX).read_to_end(&mut json)?;
    let mut text = Vec::new();
    messages.take(MESSAGES_BYTES_MAX).read_to_end(&mut text)?;
    let messages = String::from_utf8_lossy(&text);
    let mut messages: Vec<String> = messages
        .lines()
        .map(|line| line.trim_start_matches("thalweg: ").to_owned())
        .filter(|line| !line.trim().is_empty())
        .collect();
    messages.drain(..messages.len().saturating_sub(MESSAGES_MAX));
    Ok(ClientEnd { document: serde_json::from_slice(&json).ok(), messages })
}

/// A process that does not outlive this value.
struct Client(Child);

impl Client {
    fn wait(&mut self, wants_stop: &mut dyn FnMut() -> bool) -> io::Result<()> {
        let mut asked: Option<Instant> = None;
        while self.0.try_wait()?.is_none() {
            match asked {
                None if wants_stop() => {
                    process_group::terminate(self.0.id())?;
                    asked = Some(Instant::now());
                }
                Some(at) if at.elapsed() > END_PATIENCE => {
                    self.0.kill()?;
                }
                _ => {}
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

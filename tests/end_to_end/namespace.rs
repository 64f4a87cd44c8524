//! A network of a test's own, in which addresses and limits can be changed without an effect on
//! other processes.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::process::{PATIENCE, Process, until};

/// A network namespace with nothing but a loopback device. It ends with this value.
pub(crate) struct Namespace {
    holder: Process,
}

impl Namespace {
    /// Makes one. Where this is forbidden, as it is to users other than root on some hosts, it is
    /// reported clearly.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let mut unshare = Command::new("unshare");
        unshare.args([
            "--user",
            "--map-root-user",
            "--net",
            "sh",
            "-c",
            "ip link set lo up && echo up && exec sleep 600",
        ]);
        let mut holder = Process::start(unshare.env("PATH", path()).stdin(Stdio::null()));
        let up = until("a network namespace", PATIENCE, || {
            let ended = holder.ended().is_some();
            (ended || holder.stdout().contains("up")).then_some(!ended)
        });
        if up {
            return Some(Self { holder });
        }
        // Not printed by a macro, whose output of tests that succeed is swallowed.
        let _ = writeln!(
            std::io::stderr(),
            "\nSKIPPED: {test}: this host allows no network namespace ({}); run the tests as root",
            holder.stderr().trim()
        );
        None
    }

    /// A program, within it.
    pub(crate) fn command(&self, program: &str) -> Command {
        let pid = self.holder.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--preserve-credentials", "--user", "--net", "--target", &pid, program]);
        command.env("PATH", path()).stdin(Stdio::null());
        command
    }

    /// Runs a shell command within it, which has to succeed.
    pub(crate) fn shell(&self, script: &str) {
        let ended = Process::start(self.command("sh").args(["-c", script])).wait(PATIENCE);
        assert_eq!(ended.code, Some(0), "{script}: {ended:?}");
    }

    /// Thalweg within it.
    pub(crate) fn thalweg(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_thalweg"));
        command.args(arguments);
        command
    }
}

/// The search path of programs, those for administrators included.
fn path() -> String {
    std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin"
}

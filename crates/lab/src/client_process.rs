//! Client processes: this program again, for the same load from one process and from two.
//!
//! Where two carry more than one, the client was the limit. The second process needs a CPU of its
//! own: two that share one carry no more than one does, whatever limits them.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use thalweg_report::document::Trial;

/// Length of each of the trials.
const LENGTH: Duration = Duration::from_secs(2);

/// The command that makes one trial of a search's plan, given one more argument: the client's
/// share, see [`ClientShare`].
#[derive(Clone, Debug)]
pub struct ClientCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments; the share follows them.
    pub arguments: Vec<OsString>,
}

/// The part of a load that one client process offers.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientShare {
    /// Requests per second.
    pub rate: f64,
    /// Length of the trial.
    pub length: Duration,
    /// CPUs of its load threads.
    pub cpus: Vec<usize>,
}

/// Goodput of one client process and of two at the same total.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoClients {
    /// The total, in requests per second.
    pub offered: f64,
    /// Goodput of one process: the better of two trials.
    pub one: f64,
    /// Goodput of two processes together.
    pub two: f64,
}

impl ClientShare {
    /// As one argument: `RATE,SECONDS,CPU,CPU,...`.
    pub fn argument(&self) -> String {
        let cpus: Vec<String> = self.cpus.iter().map(ToString::to_string).collect();
        format!("{},{},{}", self.rate, self.length.as_secs_f64(), cpus.join(","))
    }

    /// The share of an argument; `None` if it is none.
    pub fn parse(argument: &str) -> Option<Self> {
        let mut parts = argument.split(',');
        let rate = parts.next()?.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0)?;
        let length = Duration::try_from_secs_f64(parts.next()?.parse().ok()?).ok()?;
        let cpus: Vec<usize> = parts.map(|cpu| cpu.parse().ok()).collect::<Option<_>>()?;
        (!cpus.is_empty()).then_some(Self { rate, length, cpus })
    }
}

/// Offers `rate` from one process on `cpus`, from that and another one on `spare`, and from one
/// again.
///
/// # Errors
/// A process could not be started, or has not returned a trial.
pub fn compare(command: &ClientCommand, rate: f64, cpus: &[usize], spare: &[usize]) -> io::Result<TwoClients> {
    let one = || goodput(command, &[(rate, cpus)]);
    let before = one()?;
    let two = goodput(command, &[(rate / 2.0, cpus), (rate / 2.0, spare)])?;
    Ok(TwoClients { offered: rate, one: before.max(one()?), two })
}

/// The goodput of several processes that run at the same time.
fn goodput(command: &ClientCommand, shares: &[(f64, &[usize])]) -> io::Result<f64> {
    let started: Vec<Running> = shares
        .iter()
        .map(|(rate, cpus)| {
            let share = ClientShare { rate: *rate, length: LENGTH, cpus: cpus.to_vec() };
            let mut process = Command::new(&command.program);
            process.args(&command.arguments).arg(share.argument());
            process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            process.spawn().map(|child| Running(Some(child)))
        })
        .collect::<io::Result<_>>()?;
    started.into_iter().map(Running::goodput).sum()
}

/// A process that does not outlive this value.
struct Running(Option<Child>);

impl Running {
    fn goodput(mut self) -> io::Result<f64> {
        let child = self.0.take().expect("a process is waited for once");
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            let last = errors.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no message");
            return Err(io::Error::other(format!("it ended with {}: {last}", output.status)));
        }
        let trial: Trial = serde_json::from_slice(&output.stdout)?;
        Ok(trial.rates.good)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_survives_the_command_line() {
        let share = ClientShare { rate: 1234.5, length: Duration::from_millis(1500), cpus: vec![1, 3] };
        assert_eq!(share.argument(), "1234.5,1.5,1,3");
        assert_eq!(ClientShare::parse(&share.argument()), Some(share));
        for wrong in ["", "1", "1,2", "x,2,1", "1,-2,1", "0,2,1", "1,2,x"] {
            assert_eq!(ClientShare::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn processes_are_compared_by_their_goodput() {
        // Each process carries at most 600/s, whatever it is to offer.
        let trial = serde_json::to_value(thalweg_report::sample::trial("x", 0.0, 500.0, 1.0)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("client");
        let mut json = trial;
        json["rates"]["good"] = 600.0.into();
        std::fs::write(&script, json.to_string()).unwrap();
        let cat = ["-c".into(), "cat \"$0\"".into(), script.into_os_string()];
        let command = ClientCommand { program: "sh".into(), arguments: cat.to_vec() };
        let compared = compare(&command, 1000.0, &[0], &[1]).unwrap();
        assert_eq!(compared, TwoClients { offered: 1000.0, one: 600.0, two: 1200.0 });
        let broken = ClientCommand { program: "false".into(), arguments: Vec::new() };
        let error = compare(&broken, 1000.0, &[0], &[1]).unwrap_err();
        assert!(error.to_string().contains("exit status: 1: no message"), "{error}");
    }
}

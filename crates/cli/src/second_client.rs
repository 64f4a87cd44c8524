//! The second client process of a search: this program with the same arguments, which offers a
//! share of the load and prints the trial.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use thalweg_lab::client_process::{ClientCommand, ClientShare};
use thalweg_lab::target::Target;
use thalweg_lab::trial::{TestBed, TrialRequest};
use thalweg_load::{Extent, LoopPlan, Plan, RateProfile, Spacing};
use thalweg_measure::Limit;

use crate::command_line;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::options::{NamedUrl, ProgressOptions};
use crate::progress::{Progress, Task};
use crate::standard_input;

/// The command that [`offer`] belongs to, without the targets that are not meant; `None` where this
/// program cannot be found again.
pub(crate) fn command(target: &str, others: &[NamedUrl]) -> Option<ClientCommand> {
    let is_other = |argument: &OsString| {
        others.iter().any(|other| other.given != target && argument.as_os_str() == OsStr::new(&other.given))
    };
    let arguments = standard_input::arguments_for_another(command_line::arguments());
    let mut arguments: Vec<_> = arguments.into_iter().filter(|argument| !is_other(argument)).collect();
    arguments.push("--client-share".into());
    Some(ClientCommand { program: std::env::current_exe().ok()?, arguments })
}

/// Offers the share and prints the trial as JSON.
///
/// # Errors
/// The trial could not be made.
pub(crate) fn offer(share: &ClientShare, base: Plan, target: Target, limits: Vec<Limit>) -> Result<ExitCode, Failure> {
    let spacing = if let LoopPlan::Open { spacing, .. } = base.arrivals { spacing } else { Spacing::Constant };
    let plan = Plan {
        arrivals: LoopPlan::Open { rate: Arc::new(RateProfile::constant(share.rate)), spacing },
        extent: Extent::Duration(share.length),
        warmup: share.length / 4,
        cpus: share.cpus.clone(),
        ..base
    };
    let test_bed = TestBed::new(target, limits);
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let mut progress = Progress::new(interrupt, &ProgressOptions::NONE, Task::default());
    let trial = test_bed.trial(&TrialRequest::new("run", plan), &mut progress);
    let trial = serde_json::to_vec(&trial?.trial).map_err(|error| Failure::unreachable(error.to_string()))?;
    io::stdout().write_all(&trial).map_err(|error| Failure::unreachable(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

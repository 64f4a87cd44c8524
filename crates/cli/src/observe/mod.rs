//! `thalweg observe`: the figures of this host, as a table, as JSON, and for measuring clients.

mod pull;
mod summary;
mod table;
mod token;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use thalweg_observe::remote::ObserverServer;
use thalweg_observe::{LocalObserver, Sample, Samples, ServerName, Settings};

use crate::exit::{Exit, Failure, remark};
use crate::interrupt::Interrupt;
use crate::options::ObserveOptions;
use crate::terminal;
use token::token;

pub(crate) use pull::{observer, path_check};

/// The time between two looks at the user's wish to end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The time that the last sample may take on a busy host.
const LAST_SAMPLE_PATIENCE: Duration = Duration::from_secs(1);

/// Runs the command.
///
/// # Errors
/// The address or the file cannot be used, or the token is none.
pub(crate) fn observe(options: &ObserveOptions) -> Result<ExitCode, Failure> {
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let token = match options.listen {
        Some(_) => token(options.token_file.as_deref())?,
        None => None,
    };
    if let Some(address) = options.listen.filter(|address| token.is_none() && !address.ip().is_loopback()) {
        return Err(Failure::usage(format!(
            "--listen {address}: an observer without a token listens on loopback only; give it one with --token-file or \
             THALWEG_TOKEN"
        )));
    }
    let mut outputs = Outputs::open(options)?;
    let settings = Settings { interval: options.interval, server: server_name(options), ..Settings::default() };
    let observer = LocalObserver::start(&settings)
        .map_err(|error| Failure::unreachable(format!("cannot start the observer's thread: {error}")))?;
    let server = match options.listen {
        Some(address) => Some(
            ObserverServer::start(address, token, observer.samples())
                .map_err(|error| Failure::unreachable(format!("cannot listen at {address}: {error}")))?,
        ),
        None => None,
    };
    if let Some(server) = &server {
        remark(&format!("answering measuring clients at {}", server.address()));
    }
    let total = follow(&observer.samples(), options.duration, &interrupt, &mut outputs)?;
    if outputs.table.is_some() {
        outputs.print(&summary::of(&observer.samples().facts(), total.as_ref()))?;
    }
    Ok(Exit::Met.into())
}

fn server_name(options: &ObserveOptions) -> Option<ServerName> {
    let by_port = options.port.map(ServerName::Port);
    by_port.or(options.pid.map(ServerName::Pid)).or(options.process.clone().map(ServerName::Process))
}

/// Writes samples as they come, until the end; their sum.
fn follow(
    samples: &Samples,
    duration: Option<Duration>,
    interrupt: &Interrupt,
    outputs: &mut Outputs,
) -> Result<Option<Sample>, Failure> {
    let begun = Instant::now();
    let (mut last, mut total) = (0, None::<Sample>);
    loop {
        let is_over = interrupt.is_wanted() || duration.is_some_and(|duration| begun.elapsed() >= duration);
        if is_over {
            // The observation includes the time since the last sample.
            let now_s = samples.unix_s();
            samples.cut();
            samples.wait_for(now_s, LAST_SAMPLE_PATIENCE);
        }
        for sample in samples.since(last) {
            last = sample.number;
            outputs.write(&sample)?;
            total = Some(match total {
                Some(total) => total.joined(&sample),
                None => sample,
            });
        }
        if is_over || outputs.is_closed {
            return Ok(total);
        }
        let left = duration.map_or(POLL_INTERVAL, |duration| duration.saturating_sub(begun.elapsed()));
        samples.wait_for(samples.unix_s(), left.min(POLL_INTERVAL));
    }
}

/// The places where samples go.
struct Outputs {
    table: Option<table::Table>,
    json: bool,
    file: Option<(File, String)>,
    /// The reader of stdout has gone.
    is_closed: bool,
}

impl Outputs {
    fn open(options: &ObserveOptions) -> Result<Self, Failure> {
        let file = options.out.as_deref().map(create).transpose()?;
        // A service writes no table into its log.
        let quiet = options.json || (options.listen.is_some() && !io::stdout().is_terminal());
        Ok(Self {
            table: (!quiet).then(|| table::Table::new(terminal::columns_of_stdout())),
            json: options.json,
            file,
            is_closed: false,
        })
    }

    fn write(&mut self, sample: &Sample) -> Result<(), Failure> {
        let json = || serde_json::to_string(sample).map(|line| line + "\n").map_err(Failure::unreachable);
        if let Some((file, name)) = &mut self.file {
            file.write_all(json()?.as_bytes())
                .map_err(|error| Failure::unreachable(format!("cannot write the samples to {name}: {error}")))?;
        }
        if self.json {
            return self.print(&json()?);
        }
        match self.table.as_mut().map(|table| table.line(sample)) {
            Some(line) => self.print(&line),
            None => Ok(()),
        }
    }

    /// Prints text. A closed pipe, as `head` leaves it, ends the command.
    fn print(&mut self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            Err(error) => Err(Failure::unreachable(format!("cannot write the samples to stdout: {error}"))),
            Ok(()) => Ok(()),
        }
    }
}

fn create(path: &Path) -> Result<(File, String), Failure> {
    let name = path.display().to_string();
    let refuse = |error| Failure::usage(format!("cannot write the samples to {name}: {error}"));
    File::create(path).map(|file| (file, name.clone())).map_err(refuse)
}

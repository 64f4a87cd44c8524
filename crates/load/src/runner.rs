//! The runner carries a plan out: one pinned thread per CPU, progress while it lasts, figures when
//! it has ended.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

use thalweg_reactor::run;
use thalweg_sys::affinity::pin_to;
use thalweg_sys::clock::wake_precisely;
use thalweg_sys::resource_limits::own_table;
use thalweg_sys::{AnyDriver, Driver, DriverConfig, Instant, Waker};
use thalweg_wire::Version;

use crate::barrier::{EndBarrier, RunningThread, StartBarrier};
use crate::engine::Engine;
use crate::figures::RunFigures;
use crate::input::text::ReadError;
use crate::plan::{LoopPlan, Plan};
use crate::progress::Progress;
use crate::protocol::{Http1, Http2, Protocol};
use crate::replay::{Feed, Feeder};

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A thread or its driver could not be set up.
    #[error("cannot set up a load thread on CPU {cpu}: {source}")]
    Setup {
        /// The CPU that the thread was for.
        cpu: usize,
        /// The kernel's error.
        source: io::Error,
    },
    /// The driver has failed during the run.
    #[error("the load thread on CPU {cpu} failed: {source}")]
    Driver {
        /// The CPU of the thread.
        cpu: usize,
        /// The kernel's error.
        source: io::Error,
    },
    /// The log that is replayed could not be read on.
    #[error("the replay was stopped, because the log cannot be read further: {0}")]
    Log(ReadError),
    /// A thread has come upon a defect of its own.
    #[error("the load thread on CPU {cpu} panicked; this is a bug in thalweg, please report it")]
    Panicked {
        /// The CPU of the thread.
        cpu: usize,
    },
}

/// A run under way.
#[derive(Debug)]
pub struct Running {
    progress: Arc<Progress>,
    wakers: Vec<Waker>,
    threads: Vec<(usize, JoinHandle<Result<RunFigures, LoadError>>)>,
    /// Reads the log that is replayed.
    feeder: Option<JoinHandle<Result<(), ReadError>>>,
}

/// Sockets beyond the connections' own that a driver's table has room for: those that are being
/// closed while others open.
const SPARE_SOCKETS: usize = 64;

/// Starts the run.
///
/// # Errors
/// No descriptor is left for the wakers. A failure in a thread is reported by [`Running::join`].
pub fn start(plan: Plan) -> Result<Running, LoadError> {
    let plan = Arc::new(plan);
    let threads = plan.cpus.len();
    let progress = Arc::new(Progress::new(threads));
    let start_barrier = Arc::new(StartBarrier::new(threads));
    let end_barrier = Arc::new(EndBarrier::default());
    let mut running = Running { progress, wakers: Vec::new(), threads: Vec::new(), feeder: None };
    let mut feeds = running.start_feeder(&plan)?;
    for (thread, &cpu) in plan.cpus.iter().enumerate() {
        let failed = |source| LoadError::Setup { cpu, source };
        let waker = Waker::new().map_err(failed)?;
        running.wakers.push(waker.clone());
        let (plan, start_barrier, progress) = (plan.clone(), start_barrier.clone(), running.progress.clone());
        let (running_thread, feed) = (RunningThread::begin(&end_barrier), feeds.next());
        let body = move || {
            let result = run_thread(&plan, thread, cpu, waker, feed, &start_barrier, &progress, running_thread);
            if result.is_err() {
                // The others would wait at the start barrier for ever.
                progress.request_stop();
            }
            result
        };
        let thread = thread::Builder::new().name(format!("load-{cpu}")).spawn(body).map_err(failed)?;
        running.threads.push((cpu, thread));
    }
    Ok(running)
}

#[expect(clippy::too_many_arguments, reason = "what a thread is started with")]
fn run_thread(
    plan: &Arc<Plan>,
    thread: usize,
    cpu: usize,
    waker: Waker,
    feed: Option<Feed>,
    start_barrier: &Arc<StartBarrier>,
    progress: &Arc<Progress>,
    running_thread: RunningThread,
) -> Result<RunFigures, LoadError> {
    let setup = |source| LoadError::Setup { cpu, source };
    pin_to(&[cpu]).map_err(setup)?;
    // A table that no other thread uses is also cheaper for the kernel to look into. If it cannot
    // be had, the common one is used, unless that is too small.
    own_table().or_else(|error| if plan.own_tables { Err(error) } else { Ok(()) }).map_err(setup)?;
    wake_precisely();
    let sockets_max = plan.share_of(plan.connections, thread).max(1) + SPARE_SOCKETS;
    let usual = DriverConfig::new(sockets_max, waker);
    // Smaller buffers are more of them, so that as much is received before any is given back.
    let memory = usize::from(usual.receive_buffers) * usual.receive_buffer_bytes;
    let receive_buffers = u16::try_from(memory / plan.receive_buffer_bytes).unwrap_or(u16::MAX);
    let config = DriverConfig {
        wake_early_ns: plan.wake_early_ns(),
        receive_buffer_bytes: plan.receive_buffer_bytes,
        receive_buffers,
        ..usual
    };
    let driver = AnyDriver::open(plan.driver, &config).map_err(setup)?;
    let figures = match driver {
        AnyDriver::Uring(driver) => speak(driver, plan, thread, feed, start_barrier, progress, running_thread),
        AnyDriver::Epoll(driver) => speak(driver, plan, thread, feed, start_barrier, progress, running_thread),
    };
    figures.map_err(|source| LoadError::Driver { cpu, source })
}

/// Chooses the protocol, once.
fn speak<D: Driver>(
    driver: D,
    plan: &Arc<Plan>,
    thread: usize,
    feed: Option<Feed>,
    start_barrier: &Arc<StartBarrier>,
    progress: &Arc<Progress>,
    running_thread: RunningThread,
) -> io::Result<RunFigures> {
    let drive = match plan.version() {
        Version::Http2 => drive::<D, Http2>,
        Version::Http10 | Version::Http11 => drive::<D, Http1>,
    };
    drive(driver, plan, thread, feed, start_barrier, progress, running_thread)
}

fn drive<D: Driver, P: Protocol>(
    mut driver: D,
    plan: &Arc<Plan>,
    thread: usize,
    feed: Option<Feed>,
    start_barrier: &Arc<StartBarrier>,
    progress: &Arc<Progress>,
    running_thread: RunningThread,
) -> io::Result<RunFigures> {
    let (kind, now) = (driver.kind(), driver.now());
    let mut engine =
        Engine::<P>::with_protocol(plan.clone(), thread, kind, now, start_barrier.clone(), progress.clone());
    if let Some(feed) = feed {
        engine = engine.fed(feed);
    }
    engine = engine.watched(None, now);
    run(&mut driver, &mut engine)?;
    let figures = engine.into_figures();
    // The connections are the driver's, and go with it.
    running_thread.end_with_others();
    Ok(figures)
}

impl Running {
    /// Starts to read the log that is replayed, if there is one, and waits until each thread has
    /// some of it. Returns the threads' feeds.
    fn start_feeder(&mut self, plan: &Plan) -> Result<std::vec::IntoIter<Feed>, LoadError> {
        let LoopPlan::Recorded { recording } = &plan.arrivals else { return Ok(Vec::new().into_iter()) };
        let (feeder, feeds) = Feeder::new(recording, plan.cpus.len());
        let (primed, is_primed) = sync_channel(1);
        let progress = self.progress.clone();
        let body = move || {
            let result = feeder.run(Instant::now, || primed.send(()).unwrap_or_default());
            if result.is_err() {
                progress.request_stop();
            }
            result
        };
        let cpu = plan.cpus[0];
        let thread = thread::Builder::new().name("log".to_owned()).spawn(body);
        self.feeder = Some(thread.map_err(|source| LoadError::Setup { cpu, source })?);
        // It ends without a signal only if it panics, which is reported when it is joined.
        let _ = is_primed.recv();
        Ok(feeds.into_iter())
    }

    /// How far it has come.
    pub fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    /// Whether all threads have ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(|(_, thread)| thread.is_finished())
    }

    /// Ends the run now. [`Running::join`] gives the figures so far.
    pub fn stop(&self) {
        self.progress.request_stop();
        for waker in &self.wakers {
            waker.wake();
        }
    }

    /// Waits for the end and gives the figures of all threads together.
    ///
    /// # Errors
    /// A thread could not be set up or has failed.
    pub fn join(self) -> Result<RunFigures, LoadError> {
        let mut merged: Option<RunFigures> = None;
        let mut failure = None;
        for (cpu, thread) in self.threads {
            match thread.join().unwrap_or(Err(LoadError::Panicked { cpu })) {
                Ok(figures) => match &mut merged {
                    Some(merged) => merged.merge(&figures),
                    None => merged = Some(figures),
                },
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        // With the load threads the queues have ended, and with these the reader.
        let fed = self.feeder.map(|feeder| feeder.join().unwrap_or(Err(ReadError::Io(io::ErrorKind::Other.into()))));
        let unread = fed.and_then(Result::err).map(LoadError::Log);
        match failure.or(unread) {
            Some(error) => Err(error),
            None => {
                let mut figures = merged.expect("a plan has at least one CPU");
                figures.join_threads_by_cpu();
                Ok(figures)
            }
        }
    }
}

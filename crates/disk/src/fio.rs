//! The same passes by fio: its options, and its result as it prints it.
//!
//! Jobs get the pattern of our own passes: one system call per block, no hints to the kernel, no
//! preallocation, and the time of the device included (`end_fsync`).

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use thalweg_sys::process_group::end_with_parent;

use crate::blocks::{Access, Passed, SEEKERS};
use crate::plan::Cache;
use crate::streams;
use crate::supervision::{Control, Meter, PassError, Usage, transferred};

/// How often a job is looked at.
const POLL: Duration = Duration::from_millis(20);

/// An fio that runs.
#[derive(Clone, Debug)]
pub(crate) struct Fio {
    version: String,
}

impl Fio {
    /// Looks for fio.
    ///
    /// # Errors
    /// The reason for which it does not run.
    pub(crate) fn find() -> Result<Self, String> {
        let output = Command::new("fio").arg("--version").output().map_err(|error| error.to_string())?;
        let version = String::from_utf8_lossy(&output.stdout).trim().replace("fio-", "fio ");
        if output.status.success() { Ok(Self { version }) } else { Err(output.status.to_string()) }
    }

    /// Its name and version.
    pub(crate) fn name(&self) -> &str {
        &self.version
    }
}

/// Writes a new file of `size` bytes.
pub(crate) fn write(path: &Path, size: u64, access: Access, seed: u64, control: &Control) -> Result<Passed, PassError> {
    let job = Job::new("write", access).with("size", size).with("end_fsync", 1).with("randseed", seed);
    whole(job.of_file(path).run(path, control)?, size)
}

/// A job that ended early without an error, for example by a signal, has no figure.
fn whole(passed: Passed, size: u64) -> Result<Passed, PassError> {
    match passed.bytes {
        bytes if bytes == size => Ok(passed),
        bytes => Err(PassError::Fio(format!("it ended after {bytes} of {size} bytes"))),
    }
}

/// Brings the page cache into the state that a job begins with. fio itself drops pages
/// (`invalidate`), at the last moment: memory that is free while it starts may go back to a
/// hypervisor, and would have to be fetched again within the pass.
pub(crate) fn prepare(path: &Path, access: Access, control: &Control) -> Result<(), PassError> {
    if access.cache == Cache::Cold { Ok(()) } else { access.prepare(path, control) }
}

/// Reads the file from its beginning to its end.
pub(crate) fn read(path: &Path, size: u64, access: Access, control: &Control) -> Result<Passed, PassError> {
    prepare(path, access, control)?;
    whole(Job::new("read", access).with("size", size).of_file(path).run(path, control)?, size)
}

/// Reads blocks at random positions for a time, each thread in a part of the file of its own.
pub(crate) fn seek(
    path: &Path,
    size: u64,
    access: Access,
    time: Duration,
    seed: u64,
    control: &Control,
) -> Result<Passed, PassError> {
    prepare(path, access, control)?;
    let blocks = size / access.block;
    let parts = (SEEKERS as u64).min(blocks);
    let part = blocks / parts * access.block;
    let mut job = Job::new("randread", access).with("size", part).with("offset_increment", part).with("numjobs", parts);
    job = job.with("runtime", format!("{}ms", time.as_millis())).with("randseed", seed);
    // Every block once in a random order. By default fio reads the next unread block in place of
    // one that it has read before, which makes the order the less random the more it has read.
    job = job.with("random_generator", "lfsr");
    if access.cache != Cache::Cold {
        job = job.with("time_based", 1);
    }
    job.of_file(path).run(path, control)
}

/// Reads as many files as there are streams, each from its beginning, until the first is at its end
/// or the time is over.
pub(crate) fn streams(
    folder: &Path,
    number: usize,
    access: Access,
    size: u64,
    time: Duration,
    control: &Control,
) -> Result<Passed, PassError> {
    let mut job = Job::new("read", access).with("size", size).with("numjobs", number).with("exitall", 1);
    job = job.with("filename_format", format!("{}$jobnum", streams::NAME));
    job = job.with("runtime", format!("{}ms", time.as_millis()));
    if access.cache == Cache::Warm {
        job = job.with("time_based", 1);
    }
    job.run(folder, control)
}

/// The options of one job.
struct Job {
    access: Access,
    options: Vec<String>,
}

impl Job {
    fn new(pattern: &str, access: Access) -> Self {
        let options = ["--name=thalweg", "--output-format=json", "--eta=never"].map(str::to_owned).to_vec();
        Self { access, options }
            .with("ioengine", "psync")
            .with("thread", 1)
            .with("group_reporting", 1)
            .with("fallocate", "none")
            .with("fadvise_hint", 0)
            // No clock is read per block: nobody looks at latencies.
            .with("gtod_reduce", 1)
            .with("rw", pattern)
            .with("bs", access.block)
            .with("direct", u8::from(access.cache == Cache::Direct))
            .with("invalidate", u8::from(access.cache == Cache::Cold))
    }

    fn with(mut self, option: &str, value: impl std::fmt::Display) -> Self {
        self.options.push(format!("--{option}={value}"));
        self
    }

    /// The file by its bare name: fio takes colons of a path for separators.
    fn of_file(self, path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.with("filename", name)
    }

    /// Runs the job in the folder of `path`, or in `path` if that is a folder.
    fn run(&self, path: &Path, control: &Control) -> Result<Passed, PassError> {
        let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
        let meter = Meter::start();
        let mut command = Command::new("fio");
        // A group of its own: Ctrl-C on a terminal is for this process, which then ends fio.
        command.args(&self.options).current_dir(folder).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut fio = end_with_parent(&mut command).spawn().map_err(|error| PassError::Fio(error.to_string()))?;
        let [output, complaints] = [drain(fio.stdout.take()), drain(fio.stderr.take())];
        wait(&mut fio, control)?;
        let text = |thread: thread::JoinHandle<String>| thread.join().unwrap_or_default();
        let (output, complaints) = (text(output), text(complaints));
        let measured = Measured::read(&output).map_err(|why| PassError::Fio(format!("{why} {}", complaints.trim())))?;
        match measured.error {
            0 => Ok(measured.passed(meter.usage())),
            errno => Err(self.access.refused(io::Error::from_raw_os_error(errno)).into()),
        }
    }
}

fn drain(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // After an error the part before it is all that there is to show.
        let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for the end, and kills the job if the run should end.
fn wait(fio: &mut Child, control: &Control) -> Result<(), PassError> {
    let before = control.done();
    loop {
        if fio.try_wait()?.is_some() {
            return Ok(());
        }
        if control.is_stopped() {
            fio.kill()?;
            fio.wait()?;
            return Err(PassError::Interrupted);
        }
        control.set_done(before + transferred(fio.id()).map_or(0, |transferred| transferred.calls));
        thread::sleep(POLL);
    }
}

/// The figures of a job.
#[derive(Debug, PartialEq)]
struct Measured {
    error: i32,
    bytes: u64,
    operations: u64,
    seconds: f64,
    cpu_seconds: f64,
}

/// The result of fio, as far as it is needed.
#[derive(Deserialize)]
struct Output {
    jobs: Vec<JobOutput>,
}

#[derive(Deserialize)]
struct JobOutput {
    error: i32,
    read: Direction,
    write: Direction,
    /// Time of all threads together, in milliseconds.
    job_runtime: f64,
    /// Percent of that time.
    usr_cpu: f64,
    sys_cpu: f64,
}

#[derive(Deserialize)]
struct Direction {
    io_bytes: u64,
    total_ios: u64,
    /// Milliseconds.
    runtime: f64,
}

impl Measured {
    fn read(text: &str) -> Result<Self, String> {
        // Warnings may stand before the document.
        let document = text.find('{').map_or("", |start| &text[start..]);
        let output: Output =
            serde_json::from_str(document).map_err(|error| format!("its result is not understood: {error}"))?;
        let [job] = output.jobs.as_slice() else {
            return Err(format!("its result has {} groups", output.jobs.len()));
        };
        let direction = if job.write.io_bytes > 0 { &job.write } else { &job.read };
        Ok(Self {
            error: job.error,
            bytes: direction.io_bytes,
            operations: direction.total_ios,
            seconds: direction.runtime / 1e3,
            cpu_seconds: (job.usr_cpu + job.sys_cpu) / 100.0 * job.job_runtime / 1e3,
        })
    }

    /// The same with the device's share from our own account. fio counts whole milliseconds.
    fn passed(&self, ours: Usage) -> Passed {
        let usage = Usage { seconds: self.seconds.max(1e-3), cpu_seconds: self.cpu_seconds, ..ours };
        Passed { operations: self.operations, bytes: self.bytes, usage }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A result of fio 3.33 for five threads, without the parts that nothing here reads.
    const SAMPLE: &str = r#"fio: a warning
{ "fio version" : "fio-3.33", "jobs" : [ { "jobname" : "thalweg", "groupid" : 0, "error" : 0, "elapsed" : 3,
  "read" : { "io_bytes" : 81920000, "io_kbytes" : 80000, "bw_bytes" : 40960000, "iops" : 5000.0, "runtime" : 2000, "total_ios" : 10000 },
  "write" : { "io_bytes" : 0, "runtime" : 0, "total_ios" : 0 }, "job_runtime" : 10000, "usr_cpu" : 1.5, "sys_cpu" : 8.5 } ],
  "disk_util" : [ ] }"#;

    #[test]
    fn the_result_of_fio_is_read() {
        let measured = Measured::read(SAMPLE).expect("it is one");
        let expected = Measured { error: 0, bytes: 81_920_000, operations: 10_000, seconds: 2.0, cpu_seconds: 1.0 };
        assert_eq!(measured, expected);
        let full = Measured::read(&SAMPLE.replace("\"error\" : 0", "\"error\" : 28")).expect("it is one");
        assert_eq!(full.error, 28);
    }

    #[test]
    fn other_output_of_fio_is_no_result() {
        for wrong in ["", "fio: failed", "{}", "{\"jobs\": []}"] {
            assert!(Measured::read(wrong).is_err(), "{wrong}");
        }
    }
}

//! The cost of a run, as the kernel accounts it to the process.

use std::io;
use std::mem::MaybeUninit;
use std::time::Instant;

use crate::plan::{Driver, Plan, Role};

/// The beginning of what is counted.
pub(crate) struct Start {
    at: Instant,
    cpu: Cpu,
}

#[derive(Clone, Copy)]
struct Cpu {
    user_s: f64,
    system_s: f64,
}

/// A finished run.
pub(crate) struct Totals {
    requests: u64,
    seconds: f64,
    cpu: Cpu,
}

impl Start {
    pub(crate) fn now() -> io::Result<Self> {
        Ok(Self { at: Instant::now(), cpu: Cpu::so_far()? })
    }

    pub(crate) fn totals(&self, requests: u64) -> io::Result<Totals> {
        let now = Cpu::so_far()?;
        let cpu = Cpu { user_s: now.user_s - self.cpu.user_s, system_s: now.system_s - self.cpu.system_s };
        Ok(Totals { requests, seconds: self.at.elapsed().as_secs_f64(), cpu })
    }
}

impl Totals {
    /// One line; every value is a number or one of our own words, so nothing needs quoting.
    pub(crate) fn json(&self, plan: &Plan) -> String {
        let role = match plan.role {
            Role::Client => "client",
            Role::Server => "server",
        };
        let driver = match plan.driver {
            Driver::Epoll => "epoll",
            Driver::Uring => "uring",
        };
        let Self { requests, seconds, cpu: Cpu { user_s, system_s } } = self;
        let us_per_request = (user_s + system_s) * 1e6 / (*requests).max(1) as f64;
        format!(
            "{{\"role\": \"{role}\", \"driver\": \"{driver}\", \"close\": {}, \"requests\": {requests}, \
             \"seconds\": {seconds:.6}, \"cpu_user_s\": {user_s:.6}, \"cpu_system_s\": {system_s:.6}, \
             \"us_per_request\": {us_per_request:.4}}}",
            plan.close
        )
    }
}

impl Cpu {
    #[allow(unsafe_code)]
    fn so_far() -> io::Result<Self> {
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the pointer is to a whole `rusage`, which the call fills if it returns 0.
        let usage = unsafe {
            if libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            usage.assume_init()
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Ok(Self { user_s: seconds(usage.ru_utime), system_s: seconds(usage.ru_stime) })
    }
}

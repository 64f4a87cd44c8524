//! Counting how often a thread passes a tracepoint of the kernel (perf_event_open(2)).
//!
//! Only counts: nothing is sampled and no buffer mapped. The kernel decides whether the caller may
//! (`kernel.perf_event_paranoid`, CAP_PERFMON); this module asks for no rights.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// A tracepoint of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tracepoint(u64);

/// The places where the file system of the kernel's tracing may be.
const TRACING: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

impl Tracepoint {
    /// Looks up a tracepoint such as `syscalls/sys_enter_futex`.
    ///
    /// # Errors
    /// The kernel does not have it, its file system is not mounted, or this user may not read it.
    pub fn named(name: &str) -> io::Result<Self> {
        let mut error = io::Error::from(io::ErrorKind::NotFound);
        for folder in TRACING {
            match fs::read_to_string(Path::new(folder).join("events").join(name).join("id")) {
                Ok(id) => {
                    return id.trim().parse().map(Self).map_err(|_| io::Error::from(io::ErrorKind::InvalidData));
                }
                Err(denied) if denied.kind() == io::ErrorKind::PermissionDenied => error = denied,
                Err(_) => {}
            }
        }
        Err(error)
    }

    /// Begins to count how often the thread `tid` passes, if `filter` (in the form of
    /// `events/.../filter`) holds.
    ///
    /// # Errors
    /// The kernel has no such counters, this user may not have one, or the thread is gone.
    pub fn count(self, tid: u32, filter: &str) -> io::Result<PassCounter> {
        let filter = CString::new(filter)?;
        let attributes = Attributes {
            kind: PERF_TYPE_TRACEPOINT,
            size: size_of::<Attributes>() as u32,
            config: self.0,
            ..Attributes::default()
        };
        const ANY_CPU: libc::c_int = -1;
        const NO_GROUP: libc::c_int = -1;
        // SAFETY: the attributes are a perf_event_attr of its first published size, which `size`
        // states, and live through the call; the other arguments are numbers.
        let opened = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                tid as libc::pid_t,
                ANY_CPU,
                NO_GROUP,
                PERF_FLAG_FD_CLOEXEC,
            )
        };
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this descriptor, which nothing else owns.
        let counter = unsafe { OwnedFd::from_raw_fd(opened as libc::c_int) };
        // SAFETY: the request takes a pointer to a string that ends in a zero and lives through the
        // call.
        let filtered = unsafe { libc::ioctl(counter.as_raw_fd(), PERF_EVENT_IOC_SET_FILTER, filter.as_ptr()) };
        if filtered < 0 { Err(io::Error::last_os_error()) } else { Ok(PassCounter(counter)) }
    }
}

/// A running counter; dropping it ends it.
#[derive(Debug)]
pub struct PassCounter(OwnedFd);

impl PassCounter {
    /// How often the thread has passed since the counter began.
    ///
    /// # Errors
    /// The counter cannot be read, which no kernel is known to do.
    pub fn passes(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        match rustix::io::read(&self.0, &mut count)? {
            8 => Ok(u64::from_ne_bytes(count)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
/// `_IOW('$', 6, char *)`, as most architectures encode it.
const PERF_EVENT_IOC_SET_FILTER: libc::Ioctl = 0x4008_2406_u32 as libc::Ioctl;

/// `perf_event_attr` in its first published size (PERF_ATTR_SIZE_VER0). All flags are off: the
/// counter begins at once and is not passed on to new threads.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const _: () = assert!(size_of::<Attributes>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracepoint_that_does_not_exist_is_an_error() {
        assert!(Tracepoint::named("syscalls/sys_enter_no_such_call").is_err());
    }

    #[test]
    fn passes_are_counted_where_the_kernel_lets_us() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        // A kernel without tracing, or a user without the right, is no failure of this program.
        let Ok(point) = Tracepoint::named("syscalls/sys_enter_futex") else { return };
        let Ok(counter) = point.count(tid, "op == 9999") else { return };
        assert_eq!(counter.passes().unwrap(), 0, "no call has this operation");
    }
}

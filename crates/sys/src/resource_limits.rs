//! Resource limits of this process, above all the number of descriptors that it may have open.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::address::PortRange;
use crate::proc::sysctl;

/// A limit as the kernel keeps it: what holds now, and how far this process may raise it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptorLimit {
    /// The present limit.
    pub soft: u64,
    /// The highest limit that this process may set without privileges.
    pub hard: u64,
}

/// How many descriptors this process may have open.
pub fn descriptors() -> DescriptorLimit {
    let limit = getrlimit(Resource::Nofile);
    DescriptorLimit { soft: limit.current.unwrap_or(u64::MAX), hard: limit.maximum.unwrap_or(u64::MAX) }
}

/// Raises the soft limit to `wanted`, or as far as the hard limit allows; returns what holds then.
///
/// # Errors
/// The kernel refuses a limit that it has just named as possible, as a security policy might.
pub fn raise_descriptors(wanted: u64) -> io::Result<u64> {
    let DescriptorLimit { soft, hard } = descriptors();
    if soft >= wanted {
        return Ok(soft);
    }
    let raised = wanted.min(hard);
    setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: getrlimit(Resource::Nofile).maximum })?;
    Ok(raised)
}

/// Gives the calling thread a table of descriptors of its own, so that it can hold as many as the
/// limit allows, whatever the other threads of the process hold. Called once, when a thread begins,
/// before it opens its driver.
///
/// The limit on descriptors is one of each table, and threads share a table only because they are
/// started that way. What follows from having one alone:
///
/// * The new table begins as a copy. Everything that is open in the process then is open in it too,
///   under the same number, and counts against the thread's limit: a thread that wants many
///   descriptors is best started before others have many. Copies keep what they refer to open: a
///   listener that another thread closes later keeps its port until this thread has ended.
/// * From then on numbers mean different things in different tables. A descriptor that is opened in
///   this thread must be used and dropped in it; one that was opened before may be used by all, and
///   is closed for a thread when that thread drops it. A [`Waker`](crate::Waker) made before works
///   from everywhere; so that it is closed for the rest of the process as well, the last clone must
///   be dropped there, after the thread has ended.
/// * A thread that this one starts shares its table.
/// * When the last thread of a table ends, the kernel closes all that is left in it.
///   `/proc/self/fd` shows the first thread's table, `/proc/thread-self/fd` the caller's.
///
/// # Errors
/// The kernel has no memory for the copy, or a security policy forbids the call.
pub fn own_table() -> io::Result<()> {
    // SAFETY: what the call endangers is the safety of descriptors that cross threads, not of
    // memory. The drivers cannot cross: they are not `Send`. For the rest the rules above are the
    // caller's to keep, and breaking them ends in EBADF or in a wrong socket, as it does for a
    // descriptor that is used after its close.
    unsafe { unshare_unsafe(UnshareFlags::FILES) }?;
    Ok(())
}

/// Like [`own_table`], with nothing in the new table but the standard streams and these: what is
/// closed in the other tables is then closed for good.
///
/// # Errors
/// As for [`own_table`], and on kernels before 5.9. The table may be the caller's own then.
pub fn own_table_with(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    own_table()?;
    let mut kept: Vec<u32> = kept.iter().map(|fd| fd.as_raw_fd().cast_unsigned()).collect();
    kept.sort_unstable();
    let mut first = 3;
    for fd in kept {
        if first < fd {
            close_range(first, fd - 1)?;
        }
        first = first.max(fd + 1);
    }
    close_range(first, u32::MAX)
}

/// The room that a trial found in a file table.
#[derive(Debug)]
pub struct TableRoom {
    /// Descriptors that were open at once, beside the standard streams.
    pub opened: u64,
    /// The kernel's refusal of one more; `None` if `wanted` were opened, or the time was over.
    pub refusal: Option<io::Error>,
}

/// Opens `wanted` descriptors at once in a file table of its own, to find out how many there is
/// room for, and closes them. It stops after a second, which is enough for about a million.
///
/// # Errors
/// The kernel refuses a thread or a table of its own.
pub fn room_in_a_table(wanted: u64) -> io::Result<TableRoom> {
    const TIME_MAX: Duration = Duration::from_secs(1);
    /// Descriptors between two looks at the clock.
    const BATCH: u64 = 1024;
    raise_descriptors(wanted)?;
    let opening = move || -> io::Result<TableRoom> {
        own_table_with(&[])?;
        let started = Instant::now();
        let first = OwnedFd::from(std::fs::File::open("/dev/null")?);
        let mut opened = Vec::new();
        let mut refusal = None;
        while (opened.len() as u64) + 1 < wanted && refusal.is_none() {
            match rustix::io::dup(&first) {
                Ok(fd) => opened.push(fd),
                Err(error) => refusal = Some(io::Error::from(error)),
            }
            if (opened.len() as u64).is_multiple_of(BATCH) && started.elapsed() > TIME_MAX {
                break;
            }
        }
        Ok(TableRoom { opened: opened.len() as u64 + 1, refusal })
    };
    let thread = std::thread::Builder::new().name("table trial".to_owned()).spawn(opening)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the trial of a file table panicked")))
}

/// Closes all of these numbers in the calling thread's table.
fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: the arguments are plain values. The table is a fresh copy that belongs to this thread
    // alone, so that no owner of a descriptor meets its number closed: all owners live in the other
    // table.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The ports from which the kernel chooses by itself (`net.ipv4.ip_local_port_range`, also for
/// IPv6); `None` where the kernel does not report it. Their number bounds the connections from one
/// address to one peer, unless [`Connect::ports`](crate::Connect) names others.
pub fn ip_local_port_range() -> Option<PortRange> {
    let text = sysctl("net.ipv4.ip_local_port_range")?;
    let (first, last) = text.split_once(' ')?;
    PortRange::new(first.parse().ok()?, last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_its_own_has_what_was_kept_and_nothing_else() {
        use std::io::{Read, Write};
        use std::os::fd::AsFd;

        let (mut kept, mut peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let (other, mut its_peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || {
            own_table_with(&[kept.as_fd()]).unwrap();
            kept.write_all(b"here").unwrap();
            let open = std::fs::read_dir("/proc/thread-self/fd").unwrap().count();
            // The standard streams, the one that was kept, and the directory itself.
            (open, kept)
        });
        let (open, kept) = thread.join().unwrap();
        assert_eq!(open, 3 + 1 + 1);
        let mut received = [0; 4];
        peer.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"here");
        // Closed here, it is closed for good: the thread had no copy.
        drop(other);
        assert_eq!(its_peer.read(&mut received).unwrap(), 0);
        drop(kept);
    }

    #[test]
    fn a_table_has_room_for_as_many_as_it_is_tried_for() {
        let room = room_in_a_table(300).unwrap();
        assert!(room.opened == 300 && room.refusal.is_none(), "{room:?}");
        let beyond = room_in_a_table(descriptors().hard.saturating_add(10)).unwrap();
        assert!(beyond.opened <= descriptors().hard, "{beyond:?}");
    }

    #[test]
    fn the_kernel_has_ports_to_give() {
        let ports = ip_local_port_range().expect("Linux has had this setting for ever");
        assert!(ports.count() > 100, "{ports}");
    }
}

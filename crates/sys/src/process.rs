//! This process: its user and groups, its capabilities, and a second process that is detached from
//! it.
//!
//! A process gives these privileges up for good, as intended: the former account and dropped
//! capabilities do not come back. Which account, and when, is the caller's to decide.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities};

/// A user of this host, with all that a process of theirs is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// The name.
    pub name: String,
    uid: libc::uid_t,
    gid: libc::gid_t,
    groups: Vec<libc::gid_t>,
}

/// Most groups of one user: the kernel's own limit (NGROUPS_MAX).
const GROUPS_MAX: usize = 65_536;

impl Account {
    /// The user of that name, or of that number.
    ///
    /// # Errors
    /// `NotFound` if there is none; else those of the host's directory of users.
    pub fn named(name: &str) -> io::Result<Self> {
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "there is no such user");
        let written = CString::new(name).map_err(|_| unknown())?;
        if let Some(account) = look_up(&mut |entry, buffer, len, found| {
            // SAFETY: all pointers are valid for the call, and the buffer has the stated length.
            unsafe { libc::getpwnam_r(written.as_ptr(), entry, buffer, len, found) }
        })? {
            return Ok(account);
        }
        let uid: libc::uid_t = name.parse().map_err(|_| unknown())?;
        let account = look_up(&mut |entry, buffer, len, found| {
            // SAFETY: as above.
            unsafe { libc::getpwuid_r(uid, entry, buffer, len, found) }
        })?;
        account.ok_or_else(unknown)
    }

    /// The user's number.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The number of the user's own group.
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// Whether this process is that user's already.
    pub fn is_current(&self) -> bool {
        rustix::process::geteuid() == Uid::from_raw(self.uid)
    }

    /// Makes this process one of the user's: groups, group and user, for good. To be called before
    /// threads are started.
    ///
    /// # Errors
    /// The process is not the superuser's, or has threads.
    pub fn assume(&self) -> io::Result<()> {
        ensure_single_thread()?;
        // The C library's own calls, because they hold for the process and not for the thread
        // alone. SAFETY: the pointer and the count describe one slice.
        check(unsafe { libc::setgroups(self.groups.len(), self.groups.as_ptr()) })?;
        // SAFETY: plain numbers.
        check(unsafe { libc::setresgid(self.gid, self.gid, self.gid) })?;
        // SAFETY: plain numbers. The user comes last, since all of this needs the privilege that it
        // takes away.
        check(unsafe { libc::setresuid(self.uid, self.uid, self.uid) })?;
        let stuck = rustix::process::geteuid() != Uid::from_raw(self.uid)
            || rustix::process::getegid() != Gid::from_raw(self.gid);
        if stuck { Err(io::Error::other("the kernel did not drop the privileges")) } else { Ok(()) }
    }
}

/// One question to the host's directory of users: the entry, the room for its texts, and where to
/// say what was found.
type Question<'q> =
    &'q mut dyn FnMut(*mut libc::passwd, *mut libc::c_char, usize, *mut *mut libc::passwd) -> libc::c_int;

/// Queries the host's user database, with a larger buffer as long as the result does not fit.
fn look_up(ask: Question<'_>) -> io::Result<Option<Account>> {
    const ROOM_MAX: usize = 1 << 20;
    let mut room = 1 << 12;
    loop {
        let mut buffer: Vec<libc::c_char> = vec![0; room];
        // SAFETY: all fields are numbers and pointers, for which zero is a value.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = ptr::null_mut();
        match ask(&raw mut entry, buffer.as_mut_ptr(), buffer.len(), &raw mut found) {
            0 if found.is_null() => return Ok(None),
            0 => {
                // SAFETY: the entry was found, so its name is a string in `buffer`, which is still
                // there.
                let name = unsafe { CStr::from_ptr(entry.pw_name) };
                let groups = groups_of(name, entry.pw_gid)?;
                let name = name.to_string_lossy().into_owned();
                return Ok(Some(Account { name, uid: entry.pw_uid, gid: entry.pw_gid, groups }));
            }
            libc::ERANGE if room < ROOM_MAX => room *= 4,
            libc::EINTR => {}
            // Ways in which directories say that they do not know the name (getpwnam(3)).
            libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn groups_of(name: &CStr, gid: libc::gid_t) -> io::Result<Vec<libc::gid_t>> {
    let mut room = 64;
    while room <= GROUPS_MAX {
        let mut groups = vec![0; room];
        let mut count = room as libc::c_int;
        // SAFETY: the list has `count` places.
        let fits = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) } >= 0;
        if fits {
            groups.truncate(count.max(0) as usize);
            return Ok(groups);
        }
        room *= 4;
    }
    Err(io::Error::other("the user is in more groups than the kernel supports"))
}

/// The number of the group of that name, or of that number.
///
/// # Errors
/// `NotFound` if there is none; else those of the host's directory of groups.
pub fn group_named(name: &str) -> io::Result<u32> {
    const ROOM_MAX: usize = 1 << 20;
    let unknown = || io::Error::new(io::ErrorKind::NotFound, "there is no such group");
    let written = CString::new(name).map_err(|_| unknown())?;
    let mut room = 1 << 12;
    loop {
        let mut buffer: Vec<libc::c_char> = vec![0; room];
        // SAFETY: all fields are numbers and pointers, for which zero is a value.
        let mut entry: libc::group = unsafe { std::mem::zeroed() };
        let mut found = ptr::null_mut();
        // SAFETY: all pointers are valid for the call, and the buffer has the stated length.
        let outcome = unsafe {
            libc::getgrnam_r(written.as_ptr(), &raw mut entry, buffer.as_mut_ptr(), buffer.len(), &raw mut found)
        };
        match outcome {
            0 if !found.is_null() => return Ok(entry.gr_gid),
            libc::ERANGE if room < ROOM_MAX => room *= 4,
            libc::EINTR => {}
            0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return name.parse().map_err(|_| unknown()),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Whether this process may give its files to that user and group, where they are given.
pub fn may_give_files_to(uid: Option<u32>, gid: Option<u32>) -> bool {
    let is_own_user = uid.is_none_or(|uid| rustix::process::geteuid().as_raw() == uid);
    let is_own_group = |gid: u32| {
        let groups = rustix::process::getgroups().unwrap_or_default();
        rustix::process::getegid().as_raw() == gid || groups.iter().any(|group| group.as_raw() == gid)
    };
    is_root() || (is_own_user && gid.is_none_or(is_own_group))
}

/// Whether this process is the superuser's.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Gives up every capability, those included that a service manager has given a process without
/// privileges. To be called before threads are started.
///
/// # Errors
/// The process has threads; otherwise none, since giving up is always allowed.
pub fn drop_capabilities() -> io::Result<()> {
    ensure_single_thread()?;
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

/// Starts a copy of this process that keeps one descriptor, the standard ones, and nothing else
/// that is open; runs `work` in it with all signals blocked; and ends it. Nothing of the caller's
/// is dropped in the copy.
///
/// # Errors
/// The process has threads, whose locks the copy would inherit in any state; or the host has no
/// room for another process.
pub fn stand_apart(channel: OwnedFd, work: impl FnOnce(OwnedFd) -> i32) -> io::Result<()> {
    ensure_single_thread()?;
    // SAFETY: this is the only thread, so that no lock is held by one that the copy does not have.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            block_signals();
            close_all_but(&channel);
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(channel))).unwrap_or(1);
            // SAFETY: ends the process. Not by `exit`, which would run and write what the original
            // is to run and write.
            unsafe { libc::_exit(code) }
        }
        _ => Ok(()),
    }
}

/// Ends this process from any of its threads, for work that was [set apart](stand_apart). Nothing
/// is written or dropped.
pub fn exit_at_once(code: i32) -> ! {
    // SAFETY: ends the process, whatever its threads do.
    unsafe { libc::_exit(code) }
}

/// Has an open of a pipe not wait for its other end.
pub const O_NONBLOCK: i32 = libc::O_NONBLOCK;

/// A power failure is near. Its default is to end the process.
pub const SIGPWR: i32 = libc::SIGPWR;

/// A fault of a coprocessor that Linux never had. Its default is to end the process.
pub const SIGSTKFLT: i32 = libc::SIGSTKFLT;

/// The numbers of the real-time signals that the C library leaves to programs. Their default is to
/// end the process.
pub fn real_time_signals() -> std::ops::RangeInclusive<i32> {
    libc::SIGRTMIN()..=libc::SIGRTMAX()
}

/// Lets all signals through to this thread, and to those that it starts. A program inherits the
/// blocked signals of its parent, and one started after [`stand_apart`] would receive none.
pub fn unblock_signals() {
    // SAFETY: the set is initialised by `sigemptyset` before it is read; a mask can always be set.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

fn block_signals() {
    // SAFETY: the set is initialised by `sigfillset` before it is read; a mask can always be set.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, ptr::null_mut());
    }
}

/// Closes whatever is open beside the standard descriptors and one more.
fn close_all_but(kept: &OwnedFd) {
    const FIRST: libc::c_uint = 3;
    let kept = kept.as_raw_fd() as libc::c_uint;
    let close = |from: libc::c_uint, to: libc::c_uint| {
        if from <= to {
            // SAFETY: what owns these descriptors is never used or dropped again in this process:
            // `work` is given one, and the process ends with it. Before Linux 5.9, where the call
            // fails, they stay open, which costs their ports.
            unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) };
        }
    };
    if kept > FIRST {
        close(FIRST, kept - 1);
    }
    close(kept.max(FIRST - 1) + 1, libc::c_uint::MAX);
}

/// Takes what stands at the standard input, and puts nothing in its place.
///
/// # Errors
/// No descriptor is left.
pub fn take_stdin() -> io::Result<OwnedFd> {
    let taken = io::stdin().as_fd().try_clone_to_owned()?;
    let nothing = open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&nothing)?;
    Ok(taken)
}

/// Whether this is the only thread of its process, as far as that can be found out.
pub(crate) fn is_single_threaded() -> bool {
    ensure_single_thread().is_ok()
}

fn ensure_single_thread() -> io::Result<()> {
    match std::fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(1) => Ok(()),
        Ok(_) => Err(io::Error::other("the process has threads already")),
        Err(error) => Err(error),
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_by_number() {
        let root = Account::named("root").unwrap();
        assert!(root.uid == 0 && root.groups.contains(&0), "{root:?}");
        assert_eq!(Account::named("0").unwrap(), root);
        for unknown in ["no-such-user-here", "", "-1", "99999999999", "a\0b"] {
            assert_eq!(Account::named(unknown).unwrap_err().kind(), io::ErrorKind::NotFound, "{unknown:?}");
        }
    }

    #[test]
    fn groups_are_found_by_name_and_by_number() {
        assert_eq!((group_named("root").unwrap(), group_named("0").unwrap()), (0, 0));
        for unknown in ["no-such-group-here", "", "-1", "99999999999", "a\0b"] {
            assert_eq!(group_named(unknown).unwrap_err().kind(), io::ErrorKind::NotFound, "{unknown:?}");
        }
    }

    #[test]
    fn a_process_with_threads_is_left_as_it_is() {
        // The harness runs tests in threads of their own.
        assert!(Account::named("root").unwrap().assume().is_err());
        assert!(drop_capabilities().is_err());
        let (channel, _) = crate::handover::Channel::pair().unwrap();
        assert!(stand_apart(channel.into(), |_| 0).is_err());
    }
}

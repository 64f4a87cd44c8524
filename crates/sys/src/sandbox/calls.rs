//! The system calls of a server that has started.
//!
//! The list was made from what the server does over both drivers, as `strace` shows it, and from
//! what the C library and Rust's runtime do beneath it on the architectures that are known here.
//! Absent on purpose: starting programs and processes, executable memory, changes of the user, new
//! rings, mounts, tracing, and kernel modules.

use std::collections::BTreeMap;
use std::{env, io};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Calls that may be made with any arguments.
const FREE: &[libc::c_long] = &[
    // The drivers.
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_epoll_create1,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    // Connections.
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_shutdown,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_socketpair,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_pipe2,
    // Files.
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_readahead,
    libc::SYS_fadvise64,
    CACHESTAT,
    libc::SYS_mincore,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    // Logs, state, the process's number: what is written into folders that the territory allows.
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_flock,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_umask,
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_membarrier,
    // Threads, signals, the end.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_signalfd4,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_getcpu,
    // Landlock restricts signals to other processes; `abort` needs this one.
    libc::SYS_tgkill,
    // Time.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    // Questions.
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getuid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_uname,
];

/// cachestat(2) of Linux 6.5. All architectures have given it the same number.
const CACHESTAT: libc::c_long = 451;

/// System calls that only the older architectures have.
#[cfg(target_arch = "x86_64")]
const FREE_OF_OLD: &[libc::c_long] = &[
    libc::SYS_epoll_wait,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_unlink,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_time,
    libc::SYS_accept,
];
#[cfg(not(target_arch = "x86_64"))]
const FREE_OF_OLD: &[libc::c_long] = &[];

/// The filter.
pub(super) fn program() -> io::Result<BpfProgram> {
    let arch: TargetArch = env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let free = FREE.iter().chain(FREE_OF_OLD).map(|&call| (call, Vec::new()));
    let rules: BTreeMap<i64, Vec<SeccompRule>> = free.chain(bounded()?).collect();
    let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(rules, unknown, SeccompAction::Allow, arch).map_err(io::Error::other)?;
    filter.try_into().map_err(io::Error::other)
}

/// Calls that may be made with some arguments: each rule is one way to make it.
fn bounded() -> io::Result<Vec<(i64, Vec<SeccompRule>)>> {
    let of_width = |width: Width, argument: u8, op: Op, value: u64| {
        SeccompCondition::new(argument, width, op, value)
            .and_then(|condition| SeccompRule::new(vec![condition]))
            .map_err(io::Error::other)
    };
    let rule = |argument: u8, op: Op, value: u64| of_width(Width::Dword, argument, op, value);
    let without = |argument: u8, bits: libc::c_int| rule(argument, Op::MaskedEq(bits as u64), 0);
    let one_of = |argument: u8, values: &[u64]| -> io::Result<Vec<SeccompRule>> {
        values.iter().map(|&value| rule(argument, Op::Eq, value)).collect()
    };
    let own_priority = || {
        let is = |argument, value| SeccompCondition::new(argument, Width::Dword, Op::Eq, value);
        SeccompRule::new(vec![is(0, libc::PRIO_PROCESS as u64)?, is(1, 0)?])
    };
    Ok(vec![
        // Memory, but none that can be executed.
        (libc::SYS_mmap, vec![without(2, libc::PROT_EXEC)?]),
        (libc::SYS_mprotect, vec![without(2, libc::PROT_EXEC)?]),
        // Threads, but no processes. `clone3`, whose flags a filter cannot see, is left out; the C
        // library then takes this.
        (libc::SYS_clone, vec![rule(0, Op::MaskedEq(libc::CLONE_THREAD as u64), libc::CLONE_THREAD as u64)?]),
        (libc::SYS_unshare, one_of(0, &[libc::CLONE_FILES as u64, libc::CLONE_FS as u64])?),
        (libc::SYS_socket, one_of(0, &[libc::AF_UNIX as u64, libc::AF_INET as u64, libc::AF_INET6 as u64])?),
        // Of ioctls, those of Rust's sockets and of a terminal's width.
        (libc::SYS_ioctl, one_of(1, &[libc::FIONBIO, libc::FIOCLEX, libc::FIONREAD, libc::TCGETS, libc::TIOCGWINSZ])?),
        // Names of threads and of memory.
        (libc::SYS_prctl, one_of(0, &[libc::PR_SET_NAME as u64, libc::PR_GET_NAME as u64, libc::PR_SET_VMA as u64])?),
        // The priority of the thread itself, and of no other one.
        (libc::SYS_setpriority, vec![own_priority().map_err(io::Error::other)?]),
        // Limits can be read, not set: the address of new ones has to be null.
        (libc::SYS_prlimit64, vec![of_width(Width::Qword, 2, Op::Eq, 0)?]),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_stands_in_the_list_twice() {
        let mut calls: Vec<i64> = FREE.iter().chain(FREE_OF_OLD).copied().collect();
        calls.extend(bounded().unwrap().iter().map(|(call, _)| *call));
        calls.sort_unstable();
        let count = calls.len();
        calls.dedup();
        assert_eq!(calls.len(), count);
    }

    #[test]
    fn the_filter_fits_and_starts_no_program() {
        let program = program().unwrap();
        assert!(program.len() < 4096, "{} instructions", program.len());
        for call in
            [libc::SYS_execve, libc::SYS_ptrace, libc::SYS_setresuid, libc::SYS_clone3, libc::SYS_io_uring_setup]
        {
            assert!(!FREE.contains(&call));
        }
    }
}

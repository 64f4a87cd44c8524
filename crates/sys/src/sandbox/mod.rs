//! What a server can do without, taken away from it: the rest of the file system and of the network (landlock), and most system
//! calls (seccomp). A bug that lets a stranger run code in the server is then worth little.
//!
//! Both are for good and are inherited by whatever the process starts. Which files and folders stay is the caller's to say; which
//! system calls stay is said in `calls`, since every call is made in this crate.

mod calls;

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
    make_bitflags, path_beneath_rules,
};

/// The files and folders that stay. Paths that do not exist are passed over: there is nothing that could be reached by them.
#[derive(Clone, Debug, Default)]
pub struct Territory {
    /// What may be read, with all that lies beneath.
    pub readable: Vec<PathBuf>,
    /// Folders in which files and Unix sockets may be made, written, renamed and removed as well.
    pub writable: Vec<PathBuf>,
}

/// How far the kernel went along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enforced {
    /// All that was asked for holds.
    Fully,
    /// The kernel is too old for a part of it.
    Partly,
    /// The kernel knows nothing of it, or it is switched off at boot.
    Not,
}

/// What everybody may read: the time zone, for logs, and the place where writes vanish.
const READABLE_BY_ALL: [&str; 3] = ["/etc/localtime", "/usr/share/zoneinfo", "/dev/null"];

/// The newest rules that were looked at; a kernel that knows fewer enforces fewer. 6.12 knows all of these.
const RULES: ABI = ABI::V6;

/// Leaves the calling thread, and those that it starts from now on, nothing of the file system but this territory, no way to connect
/// by TCP, and no process of others to send signals to.
///
/// # Errors
/// The kernel refuses rules that it knows.
pub fn confine_to(territory: &Territory) -> io::Result<Enforced> {
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let write = read | make_bitflags!(AccessFs::{WriteFile | Truncate | MakeReg | MakeSock | RemoveFile | Refer});
    let all = AccessFs::from_all(RULES);
    let everywhere = READABLE_BY_ALL.map(Path::new);
    let readable = territory.readable.iter().map(PathBuf::as_path).chain(everywhere);
    let enforce = || {
        Ruleset::default()
            .handle_access(all)?
            .handle_access(BitFlags::from(AccessNet::ConnectTcp))?
            .scope(Scope::Signal)?
            .create()?
            .add_rules(path_beneath_rules(readable, read))?
            .add_rules(path_beneath_rules(&territory.writable, write))?
            .restrict_self()
    };
    let status = enforce().map_err(|error: landlock::RulesetError| io::Error::other(error))?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Enforced::Fully,
        RulesetStatus::PartiallyEnforced => Enforced::Partly,
        RulesetStatus::NotEnforced => Enforced::Not,
    })
}

/// Leaves all threads of this process nothing but the system calls of a server that has started. All others fail as if the kernel did
/// not know them (`ENOSYS`), which is what libraries are prepared for.
///
/// # Errors
/// The kernel was built without seccomp, or the architecture has no table here.
pub fn confine_calls() -> io::Result<()> {
    let program = calls::program()?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| match error {
        seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
        other => io::Error::other(other),
    })
}

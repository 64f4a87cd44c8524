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

/// The files and folders that stay. Paths that do not exist are passed over: there is nothing that could be reached by them. Files
/// that are written may be replaced by others of their name, which is a right to their folders.
#[derive(Clone, Debug, Default)]
pub struct Territory {
    /// What may be read, with all that lies beneath.
    pub readable: Vec<PathBuf>,
    /// Files that are written at their ends, and made anew after they were moved away.
    pub appended: Vec<PathBuf>,
    /// Files that are replaced as a whole and never read.
    pub replaced: Vec<PathBuf>,
    /// Files that are replaced as a whole, and read.
    pub kept: Vec<PathBuf>,
    /// Unix sockets.
    pub sockets: Vec<PathBuf>,
}

impl Territory {
    /// Each path with what may be done beneath it. Of several about the same folder all hold.
    fn rights(&self) -> Vec<(&Path, BitFlags<AccessFs>)> {
        let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
        // A half line is cut off again, and whether the last line of what is there has an end is looked at.
        let append = make_bitflags!(AccessFs::{WriteFile | Truncate | MakeReg});
        let appended = make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate});
        let replace = make_bitflags!(AccessFs::{WriteFile | Truncate | MakeReg | RemoveFile});
        let keep = replace | AccessFs::ReadFile;
        let socket = make_bitflags!(AccessFs::{MakeSock | RemoveFile});
        let mut rights: Vec<_> = READABLE_BY_ALL.iter().map(|path| (Path::new(path), read)).collect();
        rights.extend(self.readable.iter().map(|path| (path.as_path(), read)));
        rights.extend(self.appended.iter().map(|path| (path.as_path(), appended)));
        for (paths, right) in
            [(&self.appended, append), (&self.replaced, replace), (&self.kept, keep), (&self.sockets, socket)]
        {
            rights.extend(paths.iter().filter_map(|path| path.parent()).map(|folder| (folder, right)));
        }
        rights
    }
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
    let all = AccessFs::from_all(RULES);
    let enforce = || {
        let mut ruleset = Ruleset::default()
            .handle_access(all)?
            .handle_access(BitFlags::from(AccessNet::ConnectTcp))?
            .scope(Scope::Signal)?
            .create()?;
        for (path, rights) in territory.rights() {
            ruleset = ruleset.add_rules(path_beneath_rules([path], rights))?;
        }
        ruleset.restrict_self()
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

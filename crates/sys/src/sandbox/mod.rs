//! The sandbox of a server: it removes the rest of the file system and of the network (landlock),
//! and most system calls (seccomp), so that a bug that lets an attacker run code in the server
//! gains little.
//!
//! Both are permanent and inherited by child processes. The caller names the files and folders that
//! remain; `calls` has the list of system calls, since all of them are made in this crate.

mod calls;

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
    make_bitflags, path_beneath_rules,
};

/// The files and folders that stay accessible. Paths that do not exist are skipped. Files that are
/// written may be replaced by others of the same name, which takes a right to their folders.
#[derive(Clone, Debug, Default)]
pub struct FileAccess {
    /// Files and folders that may be read, with all that lies beneath.
    pub readable: Vec<PathBuf>,
    /// Files that are appended to, and created again after they were moved away.
    pub appended: Vec<PathBuf>,
    /// Files that are replaced as a whole and never read.
    pub replaced: Vec<PathBuf>,
    /// Files that are replaced as a whole, and read.
    pub kept: Vec<PathBuf>,
    /// Unix sockets.
    pub sockets: Vec<PathBuf>,
    /// Whether connections are made by TCP, to any address.
    pub connects: bool,
}

impl FileAccess {
    /// Each path with the rights beneath it. Several rights for the same folder add up.
    fn rights(&self) -> Vec<(&Path, BitFlags<AccessFs>)> {
        let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
        // A half-written line is cut off again, and the last byte is read to see whether the last
        // line is complete.
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

/// How much of a restriction the kernel enforces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enforcement {
    /// All of it.
    Full,
    /// A part of it: the kernel is too old for the rest.
    Partial,
    /// Nothing: the kernel has no landlock, or it is switched off at boot.
    None,
}

/// Paths that stay readable in any case: the time zone, for logs, and the null device.
const READABLE_BY_ALL: [&str; 3] = ["/etc/localtime", "/usr/share/zoneinfo", "/dev/null"];

/// The newest version of landlock's rules that this code knows; an older kernel enforces fewer.
/// Linux 6.12 has all of these.
const RULES: ABI = ABI::V6;

/// Restricts the calling thread, and those that it starts from now on, to `file_access`. It can
/// then not send signals to other processes, nor connect by TCP unless that is a part of it.
///
/// # Errors
/// The kernel refuses rules that it knows.
pub fn confine_files(file_access: &FileAccess) -> io::Result<Enforcement> {
    let all = AccessFs::from_all(RULES);
    let enforce = || {
        let mut ruleset = Ruleset::default().handle_access(all)?;
        if !file_access.connects {
            ruleset = ruleset.handle_access(BitFlags::from(AccessNet::ConnectTcp))?;
        }
        let mut ruleset = ruleset.scope(Scope::Signal)?.create()?;
        for (path, rights) in file_access.rights() {
            ruleset = ruleset.add_rules(path_beneath_rules([path], rights))?;
        }
        ruleset.restrict_self()
    };
    let status = enforce().map_err(|error: landlock::RulesetError| io::Error::other(error))?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Enforcement::Full,
        RulesetStatus::PartiallyEnforced => Enforcement::Partial,
        RulesetStatus::NotEnforced => Enforcement::None,
    })
}

/// Restricts all threads of this process to the system calls of a server that has started. All
/// others fail with `ENOSYS`, as if the kernel did not know them, which libraries are prepared for.
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

//! Resolves the path to a file through symbolic links that belong to the owner of their target.
//!
//! The kernel resolves paths without checking the owner of a link, and a check beforehand would be
//! a race. So each name is opened relative to its folder and without following links, which
//! excludes a change in between: the checked file is the opened one. `..` returns to the folder
//! that the walk came from, even after a rename.

use std::collections::VecDeque;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, OFlags, Stat, fstat, readlinkat};
use rustix::io::Errno;

use super::{File, FileKind, READING, ResolveFlags, Wait, open_at};

/// Symbolic links on one way, as the kernel has it (`MAXSYMLINKS`).
const LINKS_MAX: usize = 40;

/// Folders on one way, each of which is a descriptor for as long as the walk lasts.
const DEPTH_MAX: usize = 64;

/// How often a file is tried again that was replaced between the look at it and its opening.
const TRIES: usize = 4;

/// Opens a relative path.
pub(super) fn open(root: &OwnedFd, path: &[u8], wait: Wait) -> io::Result<File> {
    for _ in 0..TRIES {
        if let Some(file) = Walk::new(root, path, wait).run()? {
            return Ok(file);
        }
    }
    Err(Errno::AGAIN.into())
}

struct Walk<'r> {
    root: &'r OwnedFd,
    /// The folders between the root and where the walk is.
    folders: Vec<(OwnedFd, Stat)>,
    /// The last name's file, if that is no folder: a path that goes on from there leads nowhere.
    found: Option<(CString, Stat)>,
    steps: VecDeque<Step>,
    links: usize,
    wait: Wait,
}

enum Step {
    /// Goes on to what has this name.
    Name(Vec<u8>),
    /// The target of a link must belong to this user.
    OwnedBy(u32),
}

impl<'r> Walk<'r> {
    fn new(root: &'r OwnedFd, path: &[u8], wait: Wait) -> Self {
        Self { root, folders: Vec::new(), found: None, steps: names(path).collect(), links: 0, wait }
    }

    /// The file; `None` if it was replaced on the way.
    fn run(mut self) -> io::Result<Option<File>> {
        while let Some(step) = self.steps.pop_front() {
            match step {
                Step::OwnedBy(user) => {
                    if self.here()?.st_uid != user {
                        return Err(Errno::LOOP.into());
                    }
                }
                Step::Name(_) if self.found.is_some() => return Err(Errno::NOTDIR.into()),
                Step::Name(name) if name == b"." => {}
                Step::Name(name) if name == b".." => {
                    self.folders.pop().ok_or(Errno::XDEV)?;
                }
                Step::Name(name) => self.enter(name)?,
            }
        }
        let (name, expected) = match &self.found {
            Some((name, stat)) => (name.as_c_str(), *stat),
            None => (c".", self.here()?),
        };
        if FileKind::of(&expected) == FileKind::Special {
            // Not even opened: on a device that alone may do something.
            return Err(Errno::NXIO.into());
        }
        let fd = match open_at(self.folder(), name, READING, ResolveFlags::NO_SYMLINKS, self.wait) {
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::LOOP)) => return Ok(None),
            opened => opened?,
        };
        let file = File::from_fd(fd, self.wait)?;
        let is_same = (file.stamp.device, file.stamp.inode) == (expected.st_dev, expected.st_ino);
        Ok(is_same.then_some(file))
    }

    /// Goes on to a name in the present folder, which may be a link.
    fn enter(&mut self, name: Vec<u8>) -> io::Result<()> {
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = open_at(self.folder(), &name, flags, ResolveFlags::empty(), self.wait)?;
        let stat = fstat(&fd)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => self.follow(&fd, &stat)?,
            FileType::Directory if self.folders.len() == DEPTH_MAX => return Err(Errno::NAMETOOLONG.into()),
            FileType::Directory => self.folders.push((fd, stat)),
            _ => self.found = Some((name, stat)),
        }
        Ok(())
    }

    fn follow(&mut self, link: &OwnedFd, stat: &Stat) -> io::Result<()> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        let target = readlinkat(link, c"", Vec::new())?;
        if target.as_bytes().starts_with(b"/") {
            return Err(Errno::XDEV.into());
        }
        self.steps.push_front(Step::OwnedBy(stat.st_uid));
        for step in names(target.as_bytes()).rev() {
            self.steps.push_front(step);
        }
        Ok(())
    }

    fn folder(&self) -> &OwnedFd {
        self.folders.last().map_or(self.root, |(fd, _)| fd)
    }

    /// The result of the walk.
    fn here(&self) -> io::Result<Stat> {
        match (&self.found, self.folders.last()) {
            (Some((_, stat)), _) | (None, Some((_, stat))) => Ok(*stat),
            (None, None) => Ok(fstat(self.root)?),
        }
    }
}

/// The names of a path. A slash at its end requires a folder, and so does `.`.
fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = Step> {
    let wants_folder = path.ends_with(b"/");
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    names.chain(wants_folder.then_some(&b"."[..])).map(|name| Step::Name(name.to_vec()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{lchown, symlink};
    use std::path::Path;

    use tempfile::TempDir;

    use super::super::{Links, Root};
    use super::*;

    /// The result of opening a path beneath a root: the file's bytes, `folder`, or the error.
    #[track_caller]
    fn check(root: &Path, cases: &[(&str, Result<&str, Errno>)]) {
        let root = Root::open(root).unwrap().following(Links::OfOwner);
        for (path, expected) in cases {
            let opened = root.open_beneath(&CString::new(*path).unwrap()).map(|file| match file.kind {
                FileKind::Directory => "folder".to_owned(),
                _ => {
                    let mut bytes = vec![0; file.stamp.size as usize];
                    file.read_at(&mut bytes, 0).unwrap();
                    String::from_utf8(bytes).unwrap()
                }
            });
            let opened = opened.map_err(|error| Errno::from_io_error(&error).unwrap());
            assert_eq!(opened, expected.map(str::to_owned), "{path}");
        }
    }

    #[test]
    fn links_beneath_the_root_are_followed_as_the_kernel_does() {
        let dir = TempDir::new().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        fs::write(root.join("file"), "file").unwrap();
        fs::write(root.join("a/b/deep"), "deep").unwrap();
        for (target, link) in [
            ("file", "link"),
            ("link", "link2"),
            ("a/b", "to-b"),
            ("to-b/../b/deep", "through-b"),
            ("../secret", "out"),
            ("a/../../secret", "out-later"),
            ("/etc/passwd", "absolute"),
            ("loop", "loop"),
            ("file/", "file-as-folder"),
            ("missing", "dangling"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        symlink("../../file", root.join("a/b/up")).unwrap();
        check(
            &root,
            &[
                ("file", Ok("file")),
                ("a/b/deep", Ok("deep")),
                ("", Ok("folder")),
                ("a", Ok("folder")),
                ("a/", Ok("folder")),
                ("link", Ok("file")),
                ("link2", Ok("file")),
                ("to-b", Ok("folder")),
                ("to-b/deep", Ok("deep")),
                ("to-b/up", Ok("file")),
                ("through-b", Ok("deep")),
                ("out", Err(Errno::XDEV)),
                ("out-later", Err(Errno::XDEV)),
                ("absolute", Err(Errno::XDEV)),
                ("..", Err(Errno::XDEV)),
                ("loop", Err(Errno::LOOP)),
                ("file/", Err(Errno::NOTDIR)),
                ("file/x", Err(Errno::NOTDIR)),
                ("link/x", Err(Errno::NOTDIR)),
                ("file-as-folder", Err(Errno::NOTDIR)),
                ("dangling", Err(Errno::NOENT)),
                ("missing", Err(Errno::NOENT)),
                (&"a/".repeat(3), Err(Errno::NOENT)),
            ],
        );
    }

    #[test]
    fn a_link_of_somebody_else_is_not_followed() {
        let root = TempDir::new().unwrap();
        fs::create_dir(root.path().join("folder")).unwrap();
        fs::write(root.path().join("folder/file"), "file").unwrap();
        for (target, link) in [("folder/file", "of-other"), ("folder", "folder-of-other"), ("of-other", "own-to-other")]
        {
            symlink(target, root.path().join(link)).unwrap();
        }
        // Only the administrator can give a link away; for others there is nothing to test.
        for link in ["of-other", "folder-of-other"] {
            if lchown(root.path().join(link), Some(12345), None).is_err() {
                return;
            }
        }
        check(
            root.path(),
            &[
                ("folder/file", Ok("file")),
                ("of-other", Err(Errno::LOOP)),
                ("own-to-other", Err(Errno::LOOP)),
                ("folder-of-other/file", Err(Errno::LOOP)),
            ],
        );
        lchown(root.path().join("folder/file"), Some(12345), None).unwrap();
        check(root.path(), &[("of-other", Ok("file")), ("own-to-other", Err(Errno::LOOP))]);
    }

    #[test]
    fn an_exchange_during_the_walk_never_leads_out() {
        const ROUNDS: usize = 3000;
        let dir = TempDir::new().unwrap();
        let root = dir.path().join("root");
        for folder in [root.join("inside"), dir.path().join("outside")] {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("file"), folder.file_name().unwrap().as_encoded_bytes()).unwrap();
        }
        // A folder that becomes a link to outside and back again, each time as a whole.
        fs::rename(root.join("inside"), root.join("place")).unwrap();
        symlink("../outside", root.join("link")).unwrap();
        let opened = Root::open(&root).unwrap().following(Links::OfOwner);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    for (from, to) in [("place", "kept"), ("link", "place"), ("place", "link"), ("kept", "place")] {
                        fs::rename(root.join(from), root.join(to)).unwrap();
                    }
                }
            });
            // On a busy machine the other thread may stand still for all rounds, with the link in
            // the folder's place.
            let (mut rounds, mut found) = (0, 0);
            while rounds < ROUNDS || found == 0 {
                rounds += 1;
                let mut bytes = [0; 16];
                if let Ok(file) = opened.open_beneath(c"place/file") {
                    let read = file.read_at(&mut bytes, 0).unwrap();
                    assert_eq!(&bytes[..read], b"inside");
                    found += 1;
                }
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}

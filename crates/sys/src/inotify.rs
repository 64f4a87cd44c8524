//! Notifications of changes in folders (inotify).
//!
//! A folder is watched by its open descriptor, through `/proc`, so that no path is resolved a
//! second time and the watched folder is the opened one. An event reports only that a folder has
//! changed, not the kind of the change.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use crate::file::File;
use crate::wake::Waker;

/// An inotify instance, through which the kernel reports changes. A clone is the same instance.
///
/// Like a [`Waker`], one that was made before a thread took [a table of its
/// own](crate::resource_limits::own_table_with) works in both.
#[derive(Clone, Debug)]
pub struct Inotify {
    queue: Arc<OwnedFd>,
}

/// A folder that is watched. A folder has one, by whatever name it was opened; the number of one
/// that has ended does not come again before two billion others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WatchId(i32);

/// A report of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Something in this folder has changed, or the folder itself has.
    Changed(WatchId),
    /// The folder was moved: its name leads elsewhere by now. It is still watched.
    Moved(WatchId),
    /// The folder is watched no more: it was deleted, its file system was unmounted, or the watch
    /// was [ended](Inotify::unwatch).
    Ended(WatchId),
    /// There was no room for events, and some are lost, of whatever kind.
    Overflow,
}

/// All that can make a file, a neighbour of it, or the list of names another one. Not being opened
/// and read, which happens all the time.
const CHANGES: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

/// Room for events, a hundred at least: a name has 255 bytes at most.
const EVENTS_BYTES: usize = 32 << 10;

impl Inotify {
    /// A place where nothing is watched yet.
    ///
    /// # Errors
    /// `EMFILE`: the user has as many as `fs.inotify.max_user_instances` allows, or the process is
    /// out of descriptors.
    pub fn open() -> io::Result<Self> {
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { queue: Arc::new(queue) })
    }

    /// Watches a folder that the calling thread has open. That it is watched already is no error.
    ///
    /// # Errors
    /// `ENOSPC`: the user has as many as `fs.inotify.max_user_watches` allows. `ENOENT`: `/proc` is
    /// not mounted. `EACCES`: the folder may be passed through and not read. `ENOTDIR`: this is no
    /// folder.
    pub fn watch(&self, folder: &File) -> io::Result<WatchId> {
        // The thread's own table of descriptors, which is not always that of the process.
        let path = format!("/proc/thread-self/fd/{}", folder.fd().as_raw_fd());
        // Changes of files that were deleted and are still open are irrelevant.
        let flags = CHANGES | WatchFlags::ONLYDIR | WatchFlags::EXCL_UNLINK;
        Ok(WatchId(inotify::add_watch(&self.queue, path, flags)?))
    }

    /// Ends a watch. If the kernel has ended it already, there is nothing to do.
    pub fn unwatch(&self, id: WatchId) {
        let _ = inotify::remove_watch(&self.queue, id.0);
    }

    /// Visits events that have come in, without waiting. Whether there may be more of them.
    ///
    /// # Errors
    /// The descriptor is of no use.
    pub fn take_events(&self, mut visit: impl FnMut(Event)) -> io::Result<bool> {
        let mut room = vec![MaybeUninit::uninit(); EVENTS_BYTES];
        let mut reader = inotify::Reader::new(&self.queue, &mut room);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let (id, what) = (WatchId(event.wd()), event.events());
            visit(match () {
                () if what.contains(ReadFlags::QUEUE_OVERFLOW) => Event::Overflow,
                () if what.contains(ReadFlags::IGNORED) => Event::Ended(id),
                () if what.contains(ReadFlags::MOVE_SELF) => Event::Moved(id),
                () => Event::Changed(id),
            });
            if reader.is_buffer_empty() {
                return Ok(true);
            }
        }
    }

    /// Waits until there are events, or until `waker` was used, which is then as if it had not
    /// been.
    ///
    /// # Errors
    /// Those of `poll`.
    pub fn wait(&self, waker: &Waker) -> io::Result<()> {
        let mut both = [PollFd::new(&self.queue, PollFlags::IN), PollFd::from_borrowed_fd(waker.fd(), PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        waker.drain();
        Ok(())
    }
}

/// For keeping it in a [table of its own](crate::resource_limits::own_table_with).
impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;
    use crate::file::Root;

    fn events(inotify: &Inotify) -> Vec<Event> {
        let mut events = Vec::new();
        while inotify.take_events(|event| events.push(event)).unwrap() {}
        events.dedup();
        events
    }

    #[test]
    fn every_change_in_a_folder_is_reported() {
        let root = TempDir::new().unwrap();
        let folder = root.path().join("folder");
        fs::create_dir(&folder).unwrap();
        symlink("folder", root.path().join("link")).unwrap();
        let inotify = Inotify::open().unwrap();
        let opened = Root::open(root.path()).unwrap();
        let id = inotify.watch(&opened.open_beneath(c"folder").unwrap()).unwrap();
        // Another name of it.
        assert_eq!(inotify.watch(&opened.open_beneath(c"link").unwrap()).unwrap(), id);
        assert_eq!(events(&inotify), []);
        type Change = fn(&Path);
        let changes: [(&str, Change); 9] = [
            ("create", |folder| fs::write(folder.join("a"), "").unwrap()),
            ("write", |folder| fs::write(folder.join("a"), "text").unwrap()),
            ("link", |folder| fs::hard_link(folder.join("a"), folder.join("b")).unwrap()),
            ("rename over", |folder| fs::rename(folder.join("b"), folder.join("c")).unwrap()),
            ("rename out", |folder| fs::rename(folder.join("c"), folder.join("../out")).unwrap()),
            ("rename in", |folder| fs::rename(folder.join("../out"), folder.join("d")).unwrap()),
            ("mode", |folder| fs::set_permissions(folder.join("a"), fs::Permissions::from_mode(0o600)).unwrap()),
            ("delete", |folder| fs::remove_file(folder.join("a")).unwrap()),
            ("folder", |folder| fs::create_dir(folder.join("sub")).unwrap()),
        ];
        for (what, change) in changes {
            change(&folder);
            assert_eq!(events(&inotify), [Event::Changed(id)], "{what}");
        }
        assert_eq!(fs::read(folder.join("d")).unwrap(), b"text");
        fs::read_dir(&folder).unwrap();
        assert_eq!(events(&inotify), [], "reading changes nothing");
    }

    #[test]
    fn a_folder_that_goes_is_told_of() {
        let root = TempDir::new().unwrap();
        for name in ["moved", "deleted", "left"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let inotify = Inotify::open().unwrap();
        let opened = Root::open(root.path()).unwrap();
        let [moved, deleted, left] =
            [c"moved", c"deleted", c"left"].map(|name| inotify.watch(&opened.open_beneath(name).unwrap()).unwrap());
        fs::rename(root.path().join("moved"), root.path().join("away")).unwrap();
        assert_eq!(events(&inotify), [Event::Moved(moved)]);
        fs::remove_dir(root.path().join("deleted")).unwrap();
        assert_eq!(events(&inotify).last(), Some(&Event::Ended(deleted)));
        inotify.unwatch(left);
        assert_eq!(events(&inotify), [Event::Ended(left)]);
        inotify.unwatch(left);
    }

    #[test]
    fn a_file_is_not_watched() {
        let root = TempDir::new().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let file = Root::open(root.path()).unwrap().open_beneath(c"file").unwrap();
        let error = Inotify::open().unwrap().watch(&file).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::NOTDIR));
    }

    #[test]
    fn waiting_ends_with_an_event_and_with_a_call() {
        let root = TempDir::new().unwrap();
        let (inotify, waker) = (Inotify::open().unwrap(), Waker::new().unwrap());
        waker.wake();
        inotify.wait(&waker).unwrap();
        inotify.watch(&Root::open(root.path()).unwrap().open_beneath(c".").unwrap()).unwrap();
        let path = root.path().join("new");
        let writer = std::thread::spawn(move || fs::write(path, "").unwrap());
        inotify.wait(&waker).unwrap();
        assert!(!events(&inotify).is_empty());
        writer.join().unwrap();
    }

    #[test]
    fn a_table_of_its_own_watches_what_is_open_in_it() {
        let root = TempDir::new().unwrap();
        let path = root.path().to_owned();
        let inotify = Inotify::open().unwrap();
        let its = inotify.clone();
        let thread = std::thread::spawn(move || {
            crate::resource_limits::own_table_with(&[its.as_fd()]).unwrap();
            let id = its.watch(&Root::open(&path).unwrap().open_beneath(c".").unwrap()).unwrap();
            (id, its)
        });
        let (id, its) = thread.join().unwrap();
        fs::write(root.path().join("new"), "").unwrap();
        assert_eq!(events(&inotify), [Event::Changed(id)]);
        drop(its);
    }
}

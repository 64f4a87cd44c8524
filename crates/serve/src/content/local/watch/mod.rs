//! Changes of what is served, as the kernel reports them (inotify), so that no file has to be
//! looked at again without a reason.
//!
//! The `watcher` is one thread for all loops: it receives the kernel's events and delivers notices
//! to those loops which know something of the folder; one, because the kernel then watches a folder
//! once for all of them, and because users have few queues. `folders` is a loop's side: the folders
//! of what its caches hold, watched for as long as they hold anything.
//!
//! A notice says only that a folder has changed. A loop then looks at each file of it once more
//! when a request names the file, as it does when the file has aged; no notice has to be right,
//! only to come sooner than age. So whatever goes wrong here leaves age, and age finds what is not
//! reported at all: renamed ancestors, links to elsewhere, another host's changes, memory that is
//! mapped.

mod folders;
#[cfg(test)]
pub(crate) mod test_watcher;
mod watcher;

pub(crate) use folders::{FolderId, Folders};
pub(crate) use watcher::{Notice, Outlets, Subscription, WatchCounts, Watcher};

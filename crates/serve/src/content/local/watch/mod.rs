//! Changes of what is served, as the kernel reports them (inotify), so that no file has to be
//! looked at again without a reason.
//!
//! The `watcher` is one thread for all loops: it receives the kernel's events and delivers notices
//! to the loops that have cached something of the folder. There is only one, because the kernel
//! then watches a folder once for all loops, and because a user may have few queues. `folders` is a
//! loop's part: the folders of its cached files, watched for as long as any is cached.
//!
//! A notice reports only that a folder has changed. A loop then checks each file of the folder
//! again when a request names the file, as it does when the cached entry has aged. Notices need not
//! be exact; they only shorten the time to the next check. If notices fail, aging remains, and it
//! also covers changes that are not reported at all: renamed ancestors, links to other folders,
//! changes by another host, mapped memory.

mod folders;
#[cfg(test)]
pub(crate) mod test_watcher;
mod watcher;

pub(crate) use folders::{FolderId, Folders};
pub(crate) use watcher::{Notice, Outlets, Subscription, WatchCounts, Watcher};

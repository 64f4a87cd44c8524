//! Changes of what is served, as the kernel tells them (inotify), so that nobody has to look.
//!
//! `watcher` is one thread for all cores: it hears of changes and tells those cores which know something of the folder; one, because
//! the kernel then watches a folder once for all of them, and because users have few queues. `folders` is a core's side: the folders
//! of what its caches hold, watched for as long as they hold anything, and what was told of them.
//!
//! What is told is only that a folder has changed. A core then looks at each file of it once more when it is asked for, as it does when
//! the file has aged; nothing that was told is needed to be right, only to be right sooner. So whatever goes wrong here leaves age, and
//! what is not told at all is seen by it: renamed ancestors, links to elsewhere, another host's changes, memory that is mapped.

mod folders;
mod watcher;

pub(crate) use folders::{FolderId, Folders};
pub(crate) use watcher::{Notice, Subscription, Watcher};

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::{Arc, mpsc};

    use thalweg_sys::Waker;

    use super::*;
    use crate::config::Level;
    use crate::server::commands::{CommandQueue, LoopCommand};
    use crate::telemetry::log::ErrorLog;
    use crate::telemetry::registry::Registry;

    /// Hears of changes when it is asked to, for a single core.
    pub(crate) struct Teller {
        watcher: Watcher,
        command_queues: Arc<[CommandQueue]>,
        observed: Arc<Registry>,
    }

    impl Teller {
        pub(crate) fn new() -> Self {
            Self::of(Arc::new([CommandQueue::default()]))
        }

        /// With orders that somebody else takes.
        pub(crate) fn of(command_queues: Arc<[CommandQueue]>) -> Self {
            let observed = Arc::new(Registry::new(1, false));
            let wakers: Arc<[Waker]> = command_queues.iter().map(|_| Waker::new().unwrap()).collect();
            let error_log = ErrorLog::new(mpsc::sync_channel(1).0, Level::Error);
            let watcher =
                Watcher::without_thread(Arc::clone(&command_queues), wakers, Arc::clone(&observed), error_log).unwrap();
            Self { watcher, command_queues, observed }
        }

        pub(crate) fn subscription(&self) -> Subscription {
            self.subscription_of(0)
        }

        pub(crate) fn subscription_of(&self, loop_index: usize) -> Subscription {
            self.watcher.subscription(loop_index)
        }

        /// Leaves orders for what has changed until now. Whether there are any.
        pub(crate) fn look(&self) -> bool {
            self.watcher.look()
        }

        /// Has folders heed what has changed until now. Whether there was anything.
        pub(crate) fn tell(&self, folders: &mut Folders) -> bool {
            self.look();
            let commands = self.command_queues[0].take();
            for order in &commands {
                let LoopCommand::Apply(notices) = order else { panic!("{order:?}") };
                folders.apply(notices);
            }
            !commands.is_empty()
        }

        /// How often the kernel has had no room for changes.
        pub(crate) fn overflows(&self) -> u64 {
            self.observed.watch.overflows.load(Relaxed)
        }

        /// How many folders are watched.
        pub(crate) fn watched(&self) -> u64 {
            self.observed.watch.folders.load(Relaxed)
        }
    }
}

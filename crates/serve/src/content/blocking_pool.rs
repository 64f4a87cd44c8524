//! Work that may wait for a disk or take long, done by other threads so that a core's loop need not.
//!
//! A core hands over a [`Job`] on behalf of a connection and goes on. When the job is done, the core is woken and learns whose it
//! was; what came of it, the connection finds out by doing the same again, which now does not wait: the names and pages that
//! it needs are in the kernel's memory. So jobs carry nothing back but what they put there (or into a place that they
//! were given), and the same code runs in both threads.
//!
//! The queue needs no bound of its own: a connection waits for one job at a time, and connections are bounded. Jobs that are
//! short go before those that fetch more of a large file or read a whole folder, which also never get the last thread.
//!
//! Each core has threads of its own, started when there is work for them, because they share its table of descriptors.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{mem, thread};

use foldhash::quality::RandomState;
use thalweg_sys::{SocketId, Wait, Waker, affinity};

/// What is done.
type Work = Box<dyn FnOnce() + Send>;

/// Something to be done aside.
pub(crate) struct Job {
    pub(crate) kind: JobKind,
    /// What it is about, if that can be said: who asks for the same meanwhile waits for this job. It may be empty.
    pub(crate) key: Vec<u8>,
    pub(crate) work: Work,
}

/// Why something is done aside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum JobKind {
    /// A name was not in the kernel's memory, or not all of a small file was.
    Open,
    /// A part of a large file was not.
    Read,
    /// A page of a listing was not made yet.
    List,
}

/// What was done aside for a request already: it is not done aside again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct JobsDone(u8);

impl JobsDone {
    /// Nothing.
    pub(crate) const NOTHING: Self = Self(0);

    /// That as well.
    pub(crate) const fn and(self, reason: JobKind) -> Self {
        Self(self.0 | 1 << reason as u8)
    }

    /// Whether that was done.
    pub(crate) const fn has(self, reason: JobKind) -> bool {
        self.0 & 1 << reason as u8 != 0
    }

    /// What to do about a disk: once something was done aside, the loop does what is left of it, at whatever cost.
    pub(crate) const fn wait(self, reason: JobKind) -> Wait {
        if self.has(reason) { Wait::Allowed } else { Wait::Never }
    }
}

/// One core's side: who waits for what.
pub(crate) struct BlockingPool {
    workers: Arc<Workers>,
    /// Threads to start at most. None in a simulation, which works off the queue by itself.
    threads_max: usize,
    /// CPUs that the threads may run on. They begin as a core's thread does, pinned to one.
    cpus: Vec<usize>,
    jobs_asked: u64,
    /// The job under way about something.
    under_way: HashMap<(u8, Vec<u8>), u64, RandomState>,
    waiting: HashMap<u64, Waiting, RandomState>,
}

/// Who waits for a job.
struct Waiting {
    about: Option<(u8, Vec<u8>)>,
    sockets: Vec<SocketId>,
}

/// What a core and its threads share.
pub(crate) struct Workers {
    queue: Mutex<JobQueue>,
    work_came: Condvar,
    waker: Option<Waker>,
}

#[derive(Default)]
struct JobQueue {
    first: VecDeque<(u64, Work)>,
    later: VecDeque<(u64, Work)>,
    done: Vec<u64>,
    threads: usize,
    idle: usize,
    /// Threads that are with one of `later`.
    at_later: usize,
    closing: bool,
}

impl BlockingPool {
    /// For a core whose driver has this waker. Threads are started by the thread that asks.
    pub(crate) fn new(waker: Waker, threads_max: usize, cpus: Vec<usize>) -> Self {
        assert!(threads_max >= 2, "one thread could not keep clear of large files");
        Self::with(Some(waker), threads_max, cpus)
    }

    /// Without threads: [`Workers::work`] is called by a simulation.
    #[cfg(test)]
    pub(crate) fn simulated() -> Self {
        Self::with(None, 0, Vec::new())
    }

    fn with(waker: Option<Waker>, threads_max: usize, cpus: Vec<usize>) -> Self {
        Self {
            workers: Arc::new(Workers { queue: Mutex::default(), work_came: Condvar::new(), waker }),
            threads_max,
            cpus,
            jobs_asked: 0,
            under_way: HashMap::default(),
            waiting: HashMap::default(),
        }
    }

    /// What works off the queue.
    #[cfg(test)]
    pub(crate) fn workers(&self) -> Arc<Workers> {
        Arc::clone(&self.workers)
    }

    /// Has a job done for the connection of a socket, which waits for no other.
    pub(crate) fn submit(&mut self, socket: SocketId, job: Job) {
        let about = Some((job.kind as u8, job.key)).filter(|(_, key)| !key.is_empty());
        if let Some(number) = about.as_ref().and_then(|about| self.under_way.get(about)) {
            self.waiting.get_mut(number).expect("a job under way is waited for").sockets.push(socket);
            return;
        }
        self.jobs_asked += 1;
        let number = self.jobs_asked;
        if let Some(about) = &about {
            self.under_way.insert(about.clone(), number);
        }
        self.waiting.insert(number, Waiting { about, sockets: vec![socket] });
        self.hand_over(number, job.kind, job.work);
    }

    fn hand_over(&self, number: u64, reason: JobKind, work: Work) {
        let mut queue = self.workers.queue();
        match reason {
            JobKind::Read | JobKind::List => queue.later.push_back((number, work)),
            JobKind::Open => queue.first.push_back((number, work)),
        }
        // One more than there are jobs: large files leave it alone.
        let needs_thread = queue.idle <= queue.first.len() + queue.later.len() && queue.threads < self.threads_max;
        queue.threads += usize::from(needs_thread);
        drop(queue);
        self.workers.work_came.notify_one();
        if needs_thread && self.start_thread().is_err() {
            let mut queue = self.workers.queue();
            queue.threads -= 1;
            let is_alone = queue.threads == 0;
            drop(queue);
            // Better that this core waits for the disk than that the connection waits for nobody.
            if is_alone {
                self.workers.work();
            }
        }
    }

    fn start_thread(&self) -> std::io::Result<()> {
        let (workers, cpus) = (Arc::clone(&self.workers), self.cpus.clone());
        let work = move || {
            // Where that is forbidden, the threads stay on the core's CPU, which is slower and not wrong.
            let _ = affinity::pin_to(&cpus);
            // A loop that shares the CPU does not wait for them; where that is forbidden, it does.
            let _ = affinity::lower_priority();
            workers.work_until_closed();
        };
        thread::Builder::new().name("aside".to_owned()).spawn(work).map(drop)
    }

    /// Whether jobs wait for so long that a new one had better not be begun.
    pub(crate) fn is_overloaded(&self) -> bool {
        /// What a few threads get through in some seconds, of a disk that turns.
        const WAITING_MAX: usize = 1000;
        self.waiting.len() > WAITING_MAX
    }

    /// Takes out who has waited for jobs that are done now.
    pub(crate) fn take_done(&mut self) -> Vec<SocketId> {
        let done = mem::take(&mut self.workers.queue().done);
        let mut sockets = Vec::new();
        for number in done {
            let Some(waiting) = self.waiting.remove(&number) else { continue };
            if let Some(about) = &waiting.about {
                self.under_way.remove(about);
            }
            sockets.extend(waiting.sockets);
        }
        sockets
    }
}

impl Drop for BlockingPool {
    /// Threads that are with a job end after it; nobody waits for a disk that does not answer.
    fn drop(&mut self) {
        let mut queue = self.workers.queue();
        queue.closing = true;
        queue.first.clear();
        queue.later.clear();
        drop(queue);
        self.workers.work_came.notify_all();
    }
}

impl Workers {
    fn queue(&self) -> MutexGuard<'_, JobQueue> {
        // Work is done while the lock is not held, so that a panic leaves nothing half done.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work_until_closed(&self) {
        let mut queue = self.queue();
        while !queue.closing {
            if let Some(next) = queue.take() {
                drop(queue);
                self.finish(next);
                queue = self.queue();
            } else {
                queue.idle += 1;
                queue = self.work_came.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
            }
        }
    }

    /// Does the next job in the calling thread. Whether there was one.
    pub(crate) fn work(&self) -> bool {
        let next = self.queue().take();
        next.map(|next| self.finish(next)).is_some()
    }

    fn finish(&self, Next { number, work, is_later }: Next) {
        // What went wrong goes wrong again where the connection does the same itself, and is dealt with there.
        let _ = catch_unwind(AssertUnwindSafe(work));
        let mut queue = self.queue();
        queue.at_later -= usize::from(is_later);
        queue.done.push(number);
        let is_first = queue.done.len() == 1;
        // A thread that left large files alone, to be free for others, may take one now.
        let is_left_over = is_later && queue.idle > 0 && !queue.later.is_empty();
        drop(queue);
        if is_left_over {
            self.work_came.notify_one();
        }
        if let Some(waker) = self.waker.as_ref().filter(|_| is_first) {
            waker.wake();
        }
    }
}

struct Next {
    number: u64,
    work: Work,
    is_later: bool,
}

impl JobQueue {
    /// The next job, unless it is for a large file and all other threads are with one already.
    fn take(&mut self) -> Option<Next> {
        if let Some((number, work)) = self.first.pop_front() {
            return Some(Next { number, work, is_later: false });
        }
        if self.at_later + 1 >= self.threads && self.threads > 1 {
            return None;
        }
        let (number, work) = self.later.pop_front()?;
        self.at_later += 1;
        Some(Next { number, work, is_later: true })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc;

    use thalweg_sys::table::Table;

    use super::*;

    fn sockets<const N: usize>() -> [SocketId; N] {
        let mut table = Table::new(N);
        [(); N].map(|()| table.insert(()).unwrap())
    }

    fn job(reason: JobKind, key: &str, work: impl FnOnce() + Send + 'static) -> Job {
        Job { kind: reason, key: key.into(), work: Box::new(work) }
    }

    #[test]
    fn a_job_is_done_once_for_all_who_ask_meanwhile() {
        let [a, b, c, d] = sockets();
        let mut blocking = BlockingPool::simulated();
        let runs = Arc::new(AtomicUsize::new(0));
        let count = || {
            let runs = Arc::clone(&runs);
            move || {
                runs.fetch_add(1, SeqCst);
            }
        };
        blocking.submit(a, job(JobKind::Open, "name", count()));
        blocking.submit(b, job(JobKind::Open, "name", count()));
        blocking.submit(c, job(JobKind::Open, "other", count()));
        blocking.submit(d, job(JobKind::Read, "name", count()));
        assert_eq!(blocking.take_done(), []);
        assert!(blocking.workers().work());
        assert_eq!(blocking.take_done(), [a, b]);
        // JobsDone is done: the next one is another job.
        blocking.submit(a, job(JobKind::Open, "name", count()));
        while blocking.workers().work() {}
        assert_eq!(blocking.take_done(), [c, a, d]);
        assert_eq!(runs.load(SeqCst), 4);
        assert!(blocking.under_way.is_empty() && blocking.waiting.is_empty());
    }

    #[test]
    fn jobs_without_a_key_are_each_done() {
        let [a, b] = sockets();
        let mut blocking = BlockingPool::simulated();
        blocking.submit(a, job(JobKind::Read, "", || {}));
        blocking.submit(b, job(JobKind::Read, "", || {}));
        assert!(blocking.workers().work() && blocking.workers().work() && !blocking.workers().work());
        assert_eq!(blocking.take_done(), [a, b]);
    }

    #[test]
    fn a_job_that_panics_is_done_too() {
        let [a] = sockets();
        let mut blocking = BlockingPool::simulated();
        blocking.submit(a, job(JobKind::Open, "name", || panic!("on purpose")));
        blocking.workers().work();
        assert_eq!(blocking.take_done(), [a]);
    }

    #[test]
    fn threads_lower_their_priority() {
        let [a] = sockets();
        let mut blocking = BlockingPool::new(Waker::new().unwrap(), 2, affinity::allowed_cpus().unwrap());
        let (tell, told) = mpsc::channel();
        let own = || rustix::process::getpriority_process(None).unwrap();
        let before = own();
        blocking.submit(a, job(JobKind::Open, "", move || tell.send(own()).unwrap()));
        assert_eq!((told.recv().unwrap(), own()), (19, before));
    }

    #[test]
    fn large_files_leave_a_thread_to_others() {
        let [a, b, c, d] = sockets();
        let mut blocking = BlockingPool::new(Waker::new().unwrap(), 3, affinity::allowed_cpus().unwrap());
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let hold = || {
            let held = Arc::clone(&held);
            move || held.lock().unwrap().recv().unwrap_or(())
        };
        for socket in [a, b, c] {
            blocking.submit(socket, job(JobKind::Read, "", hold()));
        }
        let (opened, was_opened) = mpsc::channel();
        blocking.submit(d, job(JobKind::Open, "name", move || opened.send(()).unwrap()));
        was_opened.recv().unwrap();
        let mut done = Vec::new();
        let mut wait_for = |jobs: usize| {
            while done.len() < jobs {
                done.extend(blocking.take_done());
                thread::yield_now();
            }
            done[0]
        };
        // A job is done a moment after its work: the others are let go when it is.
        assert_eq!(wait_for(1), d);
        drop(release);
        wait_for(4);
    }
}

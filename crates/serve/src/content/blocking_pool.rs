//! The blocking pool: threads for operations that may wait for a disk or take long, so that the
//! loop does not wait.
//!
//! A loop submits a [`Job`] on behalf of a connection and goes on. When the job is done, the loop
//! is woken and takes its result, with all that wait for it: those that submit a job with the same
//! key meanwhile wait for the same job. The pool does not inspect results: they concern only the
//! code that submits jobs.
//!
//! The queue needs no bound of its own: a request waits for one job at a time, and connections and
//! their requests under way are bounded. Jobs that are short go before those that fetch more of a
//! large file or read a whole folder, which also never get the last thread.
//!
//! Each loop has threads of its own, started when there is work for them, because they share its
//! table of descriptors.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{mem, thread};

use foldhash::quality::RandomState;
use thalweg_sys::{SocketId, Waker, affinity};

/// The work of a job.
type Work<R> = Box<dyn FnOnce() -> R + Send>;

/// Work to be done by another thread, which has a result.
pub(crate) struct Job<R> {
    kind: JobKind,
    /// Names the result: equal jobs of a kind have equal keys. An empty key is equal to none.
    key: Vec<u8>,
    work: Work<R>,
    /// The result if the work panics.
    on_panic: R,
}

/// The kinds of jobs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum JobKind {
    /// Opens a file, and reads it if it is small.
    Open,
    /// Reads a part of a large file into memory.
    Read,
    /// Makes a page of a listing.
    List,
}

impl<R: Send + 'static> Job<R> {
    /// A job of which the work has not begun.
    pub(crate) fn new(kind: JobKind, key: Vec<u8>, on_panic: R, work: impl FnOnce() -> R + Send + 'static) -> Self {
        Self { kind, key, work: Box::new(work), on_panic }
    }

    /// The kind.
    pub(crate) fn kind(&self) -> JobKind {
        self.kind
    }

    /// The same job with another type of result.
    pub(crate) fn map<T>(self, convert: impl Fn(R) -> T + Send + 'static) -> Job<T> {
        let Self { kind, key, work, on_panic } = self;
        Job { kind, key, on_panic: convert(on_panic), work: Box::new(move || convert(work())) }
    }

    /// Does the work in the calling thread.
    #[cfg(test)]
    pub(crate) fn run(self) -> R {
        (self.work)()
    }
}

/// The part of a connection that waits for a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiter {
    pub(crate) socket: SocketId,
    pub(crate) part: WaitingPart,
}

/// A part of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitingPart {
    /// The request on a stream; 0 in HTTP/1.
    Request(u32),
    /// The sender, for a part of a file.
    Sender,
}

/// A job that is done.
pub(crate) struct Completed<R> {
    pub(crate) result: R,
    pub(crate) waiters: Vec<Waiter>,
}

/// A loop's side of the pool: which connections wait for which job.
pub(crate) struct BlockingPool<R> {
    workers: Arc<Workers<R>>,
    /// Threads to start at most. None in a simulation, which works off the queue by itself.
    threads_max: usize,
    /// CPUs that the threads may run on. They begin as a loop's thread does, pinned to one.
    cpus: Vec<usize>,
    jobs_submitted: u64,
    /// The numbers of the jobs with a key that are not done.
    under_way: HashMap<(JobKind, Vec<u8>), u64, RandomState>,
    waiting: HashMap<u64, JobWaiters, RandomState>,
}

/// The waiters of a job.
struct JobWaiters {
    /// The job's kind and key, if it has one.
    key: Option<(JobKind, Vec<u8>)>,
    waiters: Vec<Waiter>,
}

/// The threads' side of the pool.
pub(crate) struct Workers<R> {
    queue: Mutex<JobQueue<R>>,
    work_came: Condvar,
    waker: Option<Waker>,
}

struct JobQueue<R> {
    short: VecDeque<QueuedJob<R>>,
    long: VecDeque<QueuedJob<R>>,
    /// Results by the numbers of their jobs.
    results: Vec<(u64, R)>,
    threads: usize,
    idle: usize,
    /// Threads that are with a long job.
    at_long: usize,
    closing: bool,
}

struct QueuedJob<R> {
    number: u64,
    work: Work<R>,
    on_panic: R,
    is_long: bool,
}

impl<R: Send + 'static> BlockingPool<R> {
    /// A pool for a loop whose driver has this waker.
    pub(crate) fn new(waker: Waker, threads_max: usize, cpus: Vec<usize>) -> Self {
        assert!(threads_max >= 2, "one thread could not keep clear of large files");
        Self::with(Some(waker), threads_max, cpus)
    }

    /// A pool without threads: a simulation calls [`Workers::work`].
    #[cfg(test)]
    pub(crate) fn simulated() -> Self {
        Self::with(None, 0, Vec::new())
    }

    fn with(waker: Option<Waker>, threads_max: usize, cpus: Vec<usize>) -> Self {
        let queue = JobQueue {
            short: VecDeque::new(),
            long: VecDeque::new(),
            results: Vec::new(),
            threads: 0,
            idle: 0,
            at_long: 0,
            closing: false,
        };
        Self {
            workers: Arc::new(Workers { queue: Mutex::new(queue), work_came: Condvar::new(), waker }),
            threads_max,
            cpus,
            jobs_submitted: 0,
            under_way: HashMap::default(),
            waiting: HashMap::default(),
        }
    }

    /// The threads' side, for a simulation.
    #[cfg(test)]
    pub(crate) fn workers(&self) -> Arc<Workers<R>> {
        Arc::clone(&self.workers)
    }

    /// Has a job done for a part of a connection, which waits for no other.
    pub(crate) fn submit(&mut self, waiter: Waiter, job: Job<R>) {
        let Job { kind, key, work, on_panic } = job;
        let key = Some((kind, key)).filter(|(_, key)| !key.is_empty());
        if let Some(number) = key.as_ref().and_then(|key| self.under_way.get(key)) {
            self.waiting.get_mut(number).expect("a job under way is waited for").waiters.push(waiter);
            return;
        }
        self.jobs_submitted += 1;
        let number = self.jobs_submitted;
        if let Some(key) = &key {
            self.under_way.insert(key.clone(), number);
        }
        self.waiting.insert(number, JobWaiters { key, waiters: vec![waiter] });
        self.enqueue(QueuedJob { number, work, on_panic, is_long: kind != JobKind::Open });
    }

    fn enqueue(&self, job: QueuedJob<R>) {
        let mut queue = self.workers.queue();
        if job.is_long {
            queue.long.push_back(job);
        } else {
            queue.short.push_back(job);
        }
        // One more than there are jobs: large files leave it alone.
        let needs_thread = queue.idle <= queue.short.len() + queue.long.len() && queue.threads < self.threads_max;
        queue.threads += usize::from(needs_thread);
        drop(queue);
        self.workers.work_came.notify_one();
        if needs_thread && self.start_thread().is_err() {
            let mut queue = self.workers.queue();
            queue.threads -= 1;
            let is_alone = queue.threads == 0;
            drop(queue);
            // Better that this loop waits for the disk than that the connection waits for ever.
            if is_alone {
                self.workers.work();
            }
        }
    }

    fn start_thread(&self) -> std::io::Result<()> {
        let (workers, cpus) = (Arc::clone(&self.workers), self.cpus.clone());
        let work = move || {
            // If that is forbidden, the threads stay on the loop's CPU, which is slower and not
            // wrong.
            let _ = affinity::pin_to(&cpus);
            // A loop that shares the CPU does not wait for them; where that is forbidden, it does.
            // See bench/TRIED.md, "Priority of the blocking pool".
            let _ = affinity::lower_priority();
            workers.work_until_closed();
        };
        thread::Builder::new().name("blocking".to_owned()).spawn(work).map(drop)
    }

    /// Whether jobs wait for so long that a new one had better not be begun.
    pub(crate) fn is_overloaded(&self) -> bool {
        /// A few threads finish this number of jobs in some seconds on a rotating disk.
        const WAITING_MAX: usize = 1000;
        self.waiting.len() > WAITING_MAX
    }

    /// Takes the results that came since the last time.
    pub(crate) fn take_results(&mut self) -> impl Iterator<Item = Completed<R>> + use<R> {
        let results = mem::take(&mut self.workers.queue().results);
        let completed = results.into_iter().filter_map(|(number, result)| {
            let JobWaiters { key, waiters } = self.waiting.remove(&number)?;
            if let Some(key) = &key {
                self.under_way.remove(key);
            }
            Some(Completed { result, waiters })
        });
        completed.collect::<Vec<_>>().into_iter()
    }
}

impl<R> Drop for BlockingPool<R> {
    /// Threads that are with a job end after it; nothing waits for a disk that does not answer.
    fn drop(&mut self) {
        let mut queue = self.workers.queue();
        queue.closing = true;
        queue.short.clear();
        queue.long.clear();
        drop(queue);
        self.workers.work_came.notify_all();
    }
}

impl<R> Workers<R> {
    fn queue(&self) -> MutexGuard<'_, JobQueue<R>> {
        // Work is done while the lock is not held, so that a panic leaves nothing half done.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work_until_closed(&self) {
        let mut queue = self.queue();
        while !queue.closing {
            if let Some(job) = queue.take() {
                drop(queue);
                self.finish(job);
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
        let job = self.queue().take();
        job.map(|job| self.finish(job)).is_some()
    }

    fn finish(&self, QueuedJob { number, work, on_panic, is_long }: QueuedJob<R>) {
        let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or(on_panic);
        let mut queue = self.queue();
        queue.at_long -= usize::from(is_long);
        queue.results.push((number, result));
        let is_first = queue.results.len() == 1;
        // A thread that left large files alone, to be free for others, may take one now.
        let is_left_over = is_long && queue.idle > 0 && !queue.long.is_empty();
        drop(queue);
        if is_left_over {
            self.work_came.notify_one();
        }
        if let Some(waker) = self.waker.as_ref().filter(|_| is_first) {
            waker.wake();
        }
    }
}

impl<R> JobQueue<R> {
    /// The next job, unless it is a long one and all other threads are with one already.
    fn take(&mut self) -> Option<QueuedJob<R>> {
        if let Some(job) = self.short.pop_front() {
            return Some(job);
        }
        if self.at_long + 1 >= self.threads && self.threads > 1 {
            return None;
        }
        let job = self.long.pop_front()?;
        self.at_long += 1;
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc;

    use thalweg_sys::table::Table;

    use super::*;

    fn waiters<const N: usize>() -> [Waiter; N] {
        let mut table = Table::new(N);
        [(); N].map(|()| Waiter { socket: table.insert(()).unwrap(), part: WaitingPart::Sender })
    }

    fn job(kind: JobKind, key: &str, work: impl FnOnce() + Send + 'static) -> Job<()> {
        Job::new(kind, key.into(), (), work)
    }

    fn take_waiters(pool: &mut BlockingPool<()>) -> Vec<Waiter> {
        pool.take_results().flat_map(|completed| completed.waiters).collect()
    }

    #[test]
    fn a_job_is_done_once_for_all_that_submit_it_meanwhile() {
        let [a, b, c, d] = waiters();
        let mut pool = BlockingPool::simulated();
        let runs = Arc::new(AtomicUsize::new(0));
        let count = || {
            let runs = Arc::clone(&runs);
            move || runs.fetch_add(1, SeqCst)
        };
        let job = |kind, key: &str| Job::new(kind, key.into(), usize::MAX, count());
        pool.submit(a, job(JobKind::Open, "name"));
        pool.submit(b, job(JobKind::Open, "name"));
        pool.submit(c, job(JobKind::Open, "other"));
        pool.submit(d, job(JobKind::Read, "name"));
        assert!(pool.take_results().next().is_none());
        assert!(pool.workers().work());
        let take = |pool: &mut BlockingPool<usize>| -> Vec<_> {
            pool.take_results().map(|Completed { result, waiters }| (result, waiters)).collect()
        };
        assert_eq!(take(&mut pool), [(0, vec![a, b])]);
        // The job is done: the next one is another.
        pool.submit(a, job(JobKind::Open, "name"));
        while pool.workers().work() {}
        assert_eq!(take(&mut pool), [(1, vec![c]), (2, vec![a]), (3, vec![d])]);
        assert!(pool.under_way.is_empty() && pool.waiting.is_empty());
    }

    #[test]
    fn jobs_without_a_key_are_each_done() {
        let [a, b] = waiters();
        let mut pool = BlockingPool::simulated();
        pool.submit(a, job(JobKind::Read, "", || {}));
        pool.submit(b, job(JobKind::Read, "", || {}));
        assert!(pool.workers().work() && pool.workers().work() && !pool.workers().work());
        assert_eq!(take_waiters(&mut pool), [a, b]);
    }

    #[test]
    fn a_job_that_panics_has_the_result_that_was_left_for_that() {
        let [a] = waiters();
        let mut pool = BlockingPool::simulated();
        let job = Job::new(JobKind::Open, "name".into(), "panicked", || panic!("on purpose"));
        pool.submit(a, job.map(str::len));
        pool.workers().work();
        let completed = pool.take_results().next().unwrap();
        assert_eq!((completed.result, completed.waiters), ("panicked".len(), vec![a]));
    }

    #[test]
    fn threads_lower_their_priority() {
        let [a] = waiters();
        let mut pool = BlockingPool::new(Waker::new().unwrap(), 2, affinity::allowed_cpus().unwrap());
        let (tell, told) = mpsc::channel();
        let own = || rustix::process::getpriority_process(None).unwrap();
        let before = own();
        pool.submit(a, job(JobKind::Open, "", move || tell.send(own()).unwrap()));
        assert_eq!((told.recv().unwrap(), own()), (19, before));
    }

    #[test]
    fn large_files_leave_a_thread_to_others() {
        let [a, b, c, d] = waiters();
        let mut pool = BlockingPool::new(Waker::new().unwrap(), 3, affinity::allowed_cpus().unwrap());
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let hold = || {
            let held = Arc::clone(&held);
            move || held.lock().unwrap().recv().unwrap_or(())
        };
        for socket in [a, b, c] {
            pool.submit(socket, job(JobKind::Read, "", hold()));
        }
        let (opened, was_opened) = mpsc::channel();
        pool.submit(d, job(JobKind::Open, "name", move || opened.send(()).unwrap()));
        was_opened.recv().unwrap();
        let mut done = Vec::new();
        let mut wait_for = |jobs: usize| {
            while done.len() < jobs {
                done.extend(take_waiters(&mut pool));
                thread::yield_now();
            }
            done[0]
        };
        // A job is done a moment after its work: the others are released when it is.
        assert_eq!(wait_for(1), d);
        drop(release);
        wait_for(4);
    }
}

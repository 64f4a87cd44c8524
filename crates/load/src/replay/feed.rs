//! The feed brings a log's requests to the load threads while it is read: a thread reads ahead,
//! into queues of bounded length.
//!
//! Of *k* load threads each takes every *k*-th request, in batches whose memory goes back and
//! forth. A load thread takes a batch off its queue when its first request comes due at the latest,
//! whether or not it can send it; so that one thread's backlog does not keep the reader from
//! feeding the others, up to a bound. If the reader falls behind, requests come after their time,
//! which is the client's own lateness.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use thalweg_sys::Instant;

use super::recording::{RecordedRequest, Recording};
use crate::input::check::CheckId;
use crate::input::text::ReadError;

/// A batch is full with so many requests, or so many bytes of targets.
const BATCH_ENTRIES: usize = 512;
const BATCH_BYTES: usize = 64 << 10;

/// How many batches a load thread's queue holds: a tenth of a second at 100,000 requests per second
/// and thread.
const QUEUE_BATCHES: usize = 32;

/// How many batches a load thread keeps of requests that have come due and wait for a connection.
const BACKLOG_BATCHES: usize = 512;

/// Requests for one load thread, in their order.
#[derive(Debug, Default)]
struct Batch {
    entries: Vec<BatchEntry>,
    targets: Vec<u8>,
    /// When it was read.
    read_at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct BatchEntry {
    /// From the start of the replay.
    offset_ns: u64,
    /// Behind its target.
    end: u32,
    check: Option<CheckId>,
    method: u8,
}

/// The writing side: the log, and a queue for each load thread.
#[derive(Debug)]
pub struct Feeder {
    recording: Arc<Recording>,
    queues: Vec<SyncSender<Batch>>,
    filling: Vec<Batch>,
    returned: Receiver<Batch>,
}

/// A load thread's side: the requests of its share, as far as they have come.
#[derive(Debug)]
pub struct Feed {
    incoming: Receiver<Batch>,
    returns: SyncSender<Batch>,
    /// The one that requests are taken from, and those behind it.
    batches: VecDeque<Batch>,
    /// How many requests of the first batch were taken.
    taken_here: usize,
    /// The next request that has not come due: its batch, and its place there.
    coming: (usize, usize),
    /// Requests that were taken before they were passed by.
    passed: u64,
    /// Requests of the share that have not been taken.
    left: u64,
    /// So many of the next batches may have been read late because there was no room for them here.
    held_up: usize,
}

impl Feeder {
    /// A feeder, and a feed for each of so many threads.
    pub fn new(recording: &Arc<Recording>, threads: usize) -> (Self, Vec<Feed>) {
        Self::with_queues_of(QUEUE_BATCHES, recording, threads)
    }

    fn with_queues_of(batches: usize, recording: &Arc<Recording>, threads: usize) -> (Self, Vec<Feed>) {
        let (return_sender, returned) = sync_channel(threads * QUEUE_BATCHES);
        let mut feeder = Self { recording: recording.clone(), queues: Vec::new(), filling: Vec::new(), returned };
        let total = recording.requests();
        let feeds = (0..threads as u64).map(|thread| {
            let (sender, incoming) = sync_channel(batches);
            feeder.queues.push(sender);
            feeder.filling.push(Batch::default());
            let left = total / threads as u64 + u64::from(thread < total % threads as u64);
            let returns = return_sender.clone();
            Feed {
                incoming,
                returns,
                batches: VecDeque::new(),
                taken_here: 0,
                coming: (0, 0),
                passed: 0,
                left,
                held_up: 0,
            }
        });
        let feeds = feeds.collect();
        (feeder, feeds)
    }

    /// Reads the log to its end, or until a load thread has ended. `now` is the load threads'
    /// clock. `on_primed` is called when each thread has a batch, or there are no more.
    ///
    /// # Errors
    /// The log cannot be read again as it was.
    pub fn run(mut self, now: impl Fn() -> Instant, on_primed: impl FnOnce()) -> Result<(), ReadError> {
        let (recording, mut thread, mut on_primed) = (self.recording.clone(), 0, Some(on_primed));
        let (threads, mut primed) = (self.queues.len(), 0);
        let result = recording.play(|offset_ns, request| {
            let batch = &mut self.filling[thread];
            batch.targets.extend_from_slice(request.target);
            let (end, method) = (batch.targets.len() as u32, request.template as u8);
            batch.entries.push(BatchEntry { offset_ns, end, check: request.check, method });
            let is_full = batch.entries.len() == BATCH_ENTRIES || batch.targets.len() >= BATCH_BYTES;
            let goes_on = !is_full || self.send(thread, now());
            primed += usize::from(is_full);
            // The threads get requests in rotation, so that their first batches are full at about
            // the same time.
            if primed >= threads {
                on_primed.take().into_iter().for_each(|on_primed| on_primed());
            }
            thread = (thread + 1) % threads;
            goes_on
        });
        if result.is_ok() {
            (0..threads).for_each(|thread| {
                self.send(thread, now());
            });
        }
        on_primed.take().into_iter().for_each(|on_primed| on_primed());
        result
    }

    /// Puts a thread's batch, which was read by `now`, into its queue as soon as there is room.
    /// Returns whether the thread still runs.
    fn send(&mut self, thread: usize, now: Instant) -> bool {
        let next = self.returned.try_recv().unwrap_or_default();
        let batch = Batch { read_at: now, ..std::mem::replace(&mut self.filling[thread], next) };
        batch.entries.is_empty() || self.queues[thread].send(batch).is_ok()
    }
}

impl Feed {
    /// All of a thread's share, read at once.
    pub(crate) fn whole(recording: &Arc<Recording>, thread: usize, threads: usize) -> Self {
        let batches = recording.requests() as usize;
        let (feeder, mut feeds) = Feeder::with_queues_of(batches, recording, threads);
        feeder.run(Instant::default, || {}).expect("a log in memory is read again as it was");
        feeds.swap_remove(thread)
    }

    /// When the next request that was not taken is due, from the start. `None`: there are no more,
    /// or they have not come yet.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let first = self.batches.front()?;
        let next = first.entries.get(self.taken_here).or_else(|| self.batches.get(1)?.entries.first());
        next.map(|entry| entry.offset_ns)
    }

    /// Takes the next request.
    ///
    /// # Panics
    /// There is none.
    pub(crate) fn take(&mut self) {
        if self.batches.front().is_some_and(|batch| batch.entries.len() == self.taken_here) {
            self.retire();
        }
        self.taken_here += 1;
        self.left -= 1;
    }

    /// When the request that was taken last was read.
    pub(crate) fn read_at(&self) -> Instant {
        self.batches.front().map_or_else(Instant::default, |batch| batch.read_at)
    }

    /// The request that was taken last.
    pub(crate) fn taken(&self) -> RecordedRequest<'_> {
        let batch = self.batches.front().expect("a request was taken");
        let place = self.taken_here - 1;
        let start = if place == 0 { 0 } else { batch.entries[place - 1].end };
        let entry = &batch.entries[place];
        let target = &batch.targets[start as usize..entry.end as usize];
        RecordedRequest { template: usize::from(entry.method), target, check: entry.check }
    }

    /// Passes by the requests that are due until `now`; returns how many there were.
    pub(crate) fn advance_to(&mut self, start: Instant, now: Instant) -> u64 {
        let mut due = std::mem::take(&mut self.passed);
        loop {
            let (batch, place) = self.coming;
            match self.batches.get(batch).map(|batch| batch.entries.get(place)) {
                Some(Some(entry)) if start.plus_ns(entry.offset_ns) <= now => {
                    due += 1;
                    self.coming.1 += 1;
                }
                Some(Some(_)) => return due,
                Some(None) => self.coming = (batch + 1, 0),
                None => {
                    if !self.pull() {
                        return due;
                    }
                }
            }
        }
    }

    /// How many requests have not been taken.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Gives up all that have not been taken; returns how many there were.
    pub(crate) fn give_up(&mut self) -> u64 {
        self.batches.clear();
        (self.taken_here, self.coming) = (0, (0, 0));
        std::mem::take(&mut self.left)
    }

    /// Takes a batch off the queue, if there is one and room for it.
    fn pull(&mut self) -> bool {
        if self.batches.len() >= BACKLOG_BATCHES {
            // Those that the queue holds by then, and the one behind.
            self.held_up = QUEUE_BATCHES + 1;
            return false;
        }
        let Ok(mut batch) = self.incoming.try_recv() else { return false };
        if self.held_up > 0 {
            self.held_up -= 1;
            batch.read_at = Instant::default();
        }
        self.batches.push_back(batch);
        true
    }

    fn retire(&mut self) {
        let Some(mut batch) = self.batches.pop_front() else { return };
        self.taken_here = 0;
        // Requests that were taken had come due, also if the schedule was not advanced since.
        self.coming = match self.coming {
            (0, place) => {
                self.passed += (batch.entries.len() - place) as u64;
                (0, 0)
            }
            (index, place) => (index - 1, place),
        };
        batch.entries.clear();
        batch.targets.clear();
        match self.returns.try_send(batch) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}

//! The queue to the log thread: messages, and for each loop an end that gathers records in pages,
//! which go over as a whole and come back empty.
//!
//! So a record costs its loop a copy, and a page one message. There is a fixed number of pages;
//! when the log thread keeps all of them, because its disk stalls or the loops are faster than it
//! is, records are dropped and counted.

use std::mem;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};

use thalweg_sys::Instant;

use crate::telemetry::record::RECORD_BYTES_MAX;

/// Bytes of a page, and how many pages a loop has: 2 MiB, at 200,000 requests per second a stall of
/// 50 ms.
pub(crate) const PAGE_BYTES: usize = 64 << 10;
pub(crate) const PAGES: usize = 32;

/// A page that is not full goes over when its oldest record has waited for so long.
const PAGE_AGE_NS: u64 = 500_000_000;

const _: () = assert!(RECORD_BYTES_MAX <= PAGE_BYTES);

/// A message to the log thread.
#[derive(Debug)]
pub(crate) enum Message {
    /// Records of a loop.
    Page(Page),
    /// A line of the error log.
    Note(Vec<u8>),
    /// Look at the flags beside the queue.
    Nudge,
}

/// Records on their way.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) bytes: Vec<u8>,
    pub(crate) records: u64,
    /// Records of this loop that were dropped since its last page.
    pub(crate) dropped_before: u64,
    back: Sender<Vec<u8>>,
}

/// A loop's end of the queue.
pub(crate) struct RecordQueue {
    to: SyncSender<Message>,
    page: Vec<u8>,
    records: u64,
    /// When the first record of the page was written.
    began: Instant,
    /// Pages that were made so far.
    pages: usize,
    dropped: u64,
    /// Of those, how many the log thread does not know of yet.
    untold: u64,
    back: Receiver<Vec<u8>>,
    back_for_pages: Sender<Vec<u8>>,
}

impl Page {
    /// Gives the page back to its loop.
    pub(crate) fn return_empty(mut self) {
        self.bytes.clear();
        // A loop that has gone needs no pages.
        let _ = self.back.send(self.bytes);
    }
}

impl RecordQueue {
    /// A loop's end of a queue.
    pub(crate) fn new(to: SyncSender<Message>) -> Self {
        let (back_for_pages, back) = mpsc::channel();
        Self {
            to,
            page: Vec::new(),
            records: 0,
            began: Instant::default(),
            pages: 0,
            dropped: 0,
            untold: 0,
            back,
            back_for_pages,
        }
    }

    /// Puts a record into the page, or drops it. Records are no longer than [`RECORD_BYTES_MAX`].
    #[inline]
    pub(crate) fn push(&mut self, record: &[u8], now: Instant) {
        if self.page.len() + record.len() > self.page.capacity() && !self.begin_page() {
            self.dropped += 1;
            self.untold += 1;
            return;
        }
        if self.records == 0 {
            self.began = now;
        }
        self.page.extend_from_slice(record);
        self.records += 1;
    }

    /// Records that were dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// When the page has to go over though it is not full.
    pub(crate) fn due(&self) -> Option<Instant> {
        (self.records > 0).then(|| self.began.plus_ns(PAGE_AGE_NS))
    }

    /// Hands over a page that is due.
    pub(crate) fn on_iteration(&mut self, now: Instant) {
        if self.due().is_some_and(|due| due <= now) {
            self.hand_over();
        }
    }

    /// Hands over what there is.
    pub(crate) fn hand_over(&mut self) {
        if self.records == 0 {
            return;
        }
        let page = Page {
            bytes: mem::take(&mut self.page),
            records: mem::take(&mut self.records),
            dropped_before: mem::take(&mut self.untold),
            back: self.back_for_pages.clone(),
        };
        if let Err(
            mpsc::TrySendError::Full(Message::Page(page)) | mpsc::TrySendError::Disconnected(Message::Page(page)),
        ) = self.to.try_send(Message::Page(page))
        {
            self.dropped += page.records;
            self.untold = page.dropped_before + page.records;
            self.page = page.bytes;
            self.page.clear();
        }
    }

    /// Begins an empty page. Whether there is one.
    #[cold]
    fn begin_page(&mut self) -> bool {
        self.hand_over();
        if self.page.capacity() == 0 {
            if let Ok(page) = self.back.try_recv() {
                self.page = page;
            } else if self.pages < PAGES {
                self.pages += 1;
                self.page = Vec::with_capacity(PAGE_BYTES);
            }
        }
        self.page.capacity() > 0
    }
}

/// Records that were written last are not lost with the loop.
impl Drop for RecordQueue {
    fn drop(&mut self) {
        self.hand_over();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(of: &Receiver<Message>) -> Vec<Page> {
        let page = |message| match message {
            Message::Page(page) => page,
            other => panic!("{other:?}"),
        };
        of.try_iter().map(page).collect()
    }

    #[test]
    fn a_page_goes_over_when_it_is_full_or_old() {
        let (to, from) = mpsc::sync_channel(100);
        let mut queue = RecordQueue::new(to);
        assert_eq!(queue.due(), None);
        queue.push(&[1; 1000], Instant::from_ns(5));
        queue.push(&[2; 1000], Instant::from_ns(100));
        assert_eq!(queue.due(), Some(Instant::from_ns(5 + PAGE_AGE_NS)));
        queue.on_iteration(Instant::from_ns(4 + PAGE_AGE_NS));
        assert!(pages(&from).is_empty());
        queue.on_iteration(Instant::from_ns(5 + PAGE_AGE_NS));
        assert_eq!(queue.due(), None);
        let old = pages(&from);
        assert_eq!((old.len(), old[0].records, old[0].bytes.len()), (1, 2, 2000));
        for _ in 0..PAGE_BYTES / 1000 {
            queue.push(&[3; 1000], Instant::from_ns(6));
        }
        assert!(pages(&from).is_empty());
        queue.push(&[3; 1000], Instant::from_ns(6));
        assert_eq!(pages(&from)[0].bytes.len(), PAGE_BYTES / 1000 * 1000);
        drop(queue);
        assert_eq!(pages(&from)[0].records, 1);
    }

    #[test]
    fn a_record_without_a_page_is_dropped_and_counted() {
        let (to, from) = mpsc::sync_channel(1000);
        let mut queue = RecordQueue::new(to);
        let per_page = PAGE_BYTES / 1024;
        for _ in 0..PAGES * per_page + 10 {
            queue.push(&[0; 1024], Instant::default());
        }
        assert_eq!(queue.dropped(), 10);
        let mut stuck = pages(&from);
        assert_eq!(stuck.len(), PAGES);
        assert!(stuck.iter().all(|page| page.dropped_before == 0));
        stuck.pop().unwrap().return_empty();
        queue.push(&[0; 1024], Instant::default());
        queue.hand_over();
        assert_eq!(pages(&from)[0].dropped_before, 10);
        assert_eq!(queue.dropped(), 10);
    }

    #[test]
    fn a_queue_that_is_full_or_gone_drops_pages() {
        let (to, from) = mpsc::sync_channel(1);
        let mut queue = RecordQueue::new(to);
        for _ in 0..3 {
            queue.push(&[0; 10], Instant::default());
            queue.hand_over();
        }
        assert_eq!(queue.dropped(), 2);
        assert_eq!(pages(&from).len(), 1);
        drop(from);
        queue.push(&[0; 10], Instant::default());
        queue.hand_over();
        assert_eq!(queue.dropped(), 3);
    }
}

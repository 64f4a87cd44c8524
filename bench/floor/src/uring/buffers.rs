//! Receive buffers that belong to no connection: the kernel takes one when bytes come, and gets it
//! back at once.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

pub(super) const GROUP: u16 = 0;

/// The one group of buffers of a ring. Its memory lives as long as the process: nothing has to
/// outlive the ring's use of it.
pub(super) struct Buffers {
    entries: *mut BufRingEntry,
    memory: *mut u8,
    count: u16,
    buffer_bytes: u32,
    tail: u16,
}

impl Buffers {
    /// Registers at least `count` buffers.
    pub(super) fn register(submitter: &Submitter<'_>, count: u16, buffer_bytes: u32) -> io::Result<Self> {
        let count = count.clamp(1, 1 << 14).next_power_of_two();
        let map = |bytes: usize| {
            // SAFETY: a new private anonymous mapping aliases nothing.
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }
        };
        let entries = map(usize::from(count) * size_of::<BufRingEntry>())?.cast::<BufRingEntry>();
        let memory = map(usize::from(count) * buffer_bytes as usize)?.cast();
        // SAFETY: `entries` is page-aligned, has room for `count` entries and is never unmapped.
        unsafe { submitter.register_buf_ring_with_flags(entries as u64, count, GROUP, 0)? };
        let mut buffers = Self { entries, memory, count, buffer_bytes, tail: 0 };
        for id in 0..count {
            buffers.give_back(id);
        }
        buffers.publish();
        Ok(buffers)
    }

    /// Queues a buffer for the kernel, which sees it with the next `publish`.
    pub(super) fn give_back(&mut self, id: u16) {
        let slot = usize::from(self.tail & (self.count - 1));
        // SAFETY: `slot` is below `count`, so the entry is inside the mapping. The kernel reads no
        // entry at or above the tail it knows; the setters do not touch the tail, which lies over
        // the first entry's reserved field.
        unsafe {
            let entry = &mut *self.entries.add(slot);
            entry.set_addr(self.memory.add(usize::from(id) * self.buffer_bytes as usize) as u64);
            entry.set_len(self.buffer_bytes);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Hands over what was given back: one store for a whole batch.
    pub(super) fn publish(&mut self) {
        // SAFETY: the tail field of io_uring_register_buf_ring(3), two aligned bytes that both
        // sides access atomically.
        unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries).cast_mut()) }.store(self.tail, Ordering::Release);
    }
}

//! The ring's receive buffers: memory that the kernel picks from when bytes come in.
//!
//! No buffer belongs to a connection, so a hundred thousand idle ones need none. Where the kernel
//! can (Linux 6.12), buffers are consumed incrementally: a message takes only the bytes it has, and
//! the next one follows it in the same buffer, which keeps the memory in use small enough for the
//! nearest caches while a bulk transfer still gets whole buffers.

use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use io_uring::{Submitter, cqueue};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// The one group of buffers of a ring.
pub(super) const GROUP: u16 = 0;

/// IOU_PBUF_RING_INC of `linux/io_uring.h`.
const INCREMENTAL: u16 = 2;

/// The buffers of one ring.
pub(super) struct Buffers {
    entries: Mapping,
    memory: Mapping,
    count: u16,
    buffer_bytes: usize,
    /// Bytes of each buffer that were delivered since the kernel got it.
    consumed: Vec<u32>,
    tail: u16,
}

/// A place in the buffers' memory, with the buffer to give back once it was read.
pub(super) struct Filled {
    pub(super) bytes: Range<usize>,
    pub(super) spent: Option<u16>,
}

impl Buffers {
    /// Sets the buffers up and passes all of them to the kernel.
    pub(super) fn register(submitter: &Submitter<'_>, count: u16, buffer_bytes: usize) -> io::Result<Self> {
        let count = count.clamp(1, 1 << 14).next_power_of_two();
        let mut buffers = Self {
            entries: Mapping::new(usize::from(count) * size_of::<BufRingEntry>())?,
            memory: Mapping::new(usize::from(count) * buffer_bytes)?,
            count,
            buffer_bytes,
            consumed: vec![0; usize::from(count)],
            tail: 0,
        };
        let at = buffers.entries.start.as_ptr() as u64;
        let register = |flags| {
            // SAFETY: `entries` is page-aligned, has room for `count` entries and is unmapped only
            // after the ring has gone: the driver drops the ring first.
            unsafe { submitter.register_buf_ring_with_flags(at, count, GROUP, flags) }
        };
        // Without increments each receive takes a whole buffer; all else is the same.
        register(INCREMENTAL).or_else(|_| register(0))?;
        for id in 0..count {
            buffers.give_back(id);
        }
        Ok(buffers)
    }

    /// The place of the bytes of a completion with a buffer.
    pub(super) fn filled(&mut self, entry: &cqueue::Entry) -> Option<Filled> {
        let id = cqueue::buffer_select(entry.flags())?;
        let len = u32::try_from(entry.result()).unwrap_or(0);
        let consumed = &mut self.consumed[usize::from(id)];
        let start = usize::from(id) * self.buffer_bytes + *consumed as usize;
        *consumed += len;
        let spent = if cqueue::buffer_more(entry.flags()) { None } else { Some(id) };
        Some(Filled { bytes: start..start + len as usize, spent })
    }

    /// The bytes of a filled place.
    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.memory.bytes, "inside the buffers");
        // SAFETY: the range is inside the mapping, which is initialised (anonymous memory is zero).
        // The kernel does not write to these bytes any more: it has completed them, and gets the
        // buffer back only through `give_back`, after the owner has stopped to look, as
        // `Driver::received` demands of it.
        unsafe { std::slice::from_raw_parts(self.memory.start.as_ptr().add(range.start), range.len()) }
    }

    /// Hands a buffer to the kernel again.
    pub(super) fn give_back(&mut self, id: u16) {
        self.consumed[usize::from(id)] = 0;
        let slot = usize::from(self.tail & (self.count - 1));
        let ring = self.entries.start.as_ptr().cast::<BufRingEntry>();
        // SAFETY: `slot` is below `count`, so the entry is inside the mapping. The kernel reads
        // entries only below the tail, which moves past this one afterwards. The tail lies over the
        // first entry's reserved field and is never touched by the setters, which write address,
        // length and id alone.
        unsafe {
            let entry = &mut *ring.add(slot);
            entry.set_addr(self.memory.start.as_ptr().add(usize::from(id) * self.buffer_bytes) as u64);
            entry.set_len(self.buffer_bytes as u32);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `tail` points at the ring's tail field (io_uring_register_buf_ring(3)), two
        // aligned bytes that kernel and program share; an atomic store is how both sides agreed to
        // access it.
        unsafe { AtomicU16::from_ptr(BufRingEntry::tail(ring).cast_mut()) }.store(self.tail, Ordering::Release);
    }
}

/// Anonymous memory, page-aligned and touched only where it is used.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize) -> io::Result<Self> {
        // SAFETY: a new private anonymous mapping aliases nothing.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with the same address and length, and nothing borrows it any
        // more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
    }
}

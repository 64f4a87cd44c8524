//! An allocator that counts what each thread asks of it, to test that a hot path does not allocate.
//!
//! It is the system's own with two counters before it. Only tests are built with it (feature `count-allocations`); whether they use it
//! is decided by their `#[global_allocator]`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // Set up without allocating and never torn down, so that an allocator may use it.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

/// How often the calling thread has allocated so far, growing what it had included.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: every call is passed on to the system's allocator as it is, and its result is given back as it is; the counter in between
// neither allocates nor unwinds. So the contract is kept as far as the system's allocator and the caller keep it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises about `layout` are those that are asked for here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: `memory` came from here with `layout`, hence from the system's allocator.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as in `realloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

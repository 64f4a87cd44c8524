//! An allocator that counts the allocations of each thread, to test that a hot path makes none.
//!
//! It is the system's allocator with a counter per thread. Only tests are built with it (feature
//! `count-allocations`), and a test uses it only if its `#[global_allocator]` names it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // Set up without allocating and never torn down, so that an allocator may use it.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

/// The allocations of the calling thread so far, reallocations included.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: every call is passed to the system's allocator unchanged, and its result is returned
// unchanged; the counter in between neither allocates nor unwinds. So the contract holds as far as
// the system's allocator and the caller keep it.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises about `layout` are those that the system's allocator
        // requires.
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

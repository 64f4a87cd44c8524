//! Leases on stripes: while a reader has one, the bytes of the stripe are not overwritten. The
//! cursor passes over such a stripe, which is thereby given up until the next lap.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

pub(crate) struct Leases(Box<[AtomicU32]>);

impl Leases {
    pub(crate) fn new(stripes: u32) -> Arc<Self> {
        Arc::new(Self((0..stripes).map(|_| AtomicU32::new(0)).collect()))
    }

    pub(crate) fn lease(self: &Arc<Self>, stripe: u32) -> Lease {
        self.0[stripe as usize].fetch_add(1, Ordering::Relaxed);
        Lease { leases: Arc::clone(self), stripe }
    }

    /// Whether nobody has a lease. New ones are taken under the lock of the index only, which the
    /// caller holds.
    pub(crate) fn is_free(&self, stripe: u32) -> bool {
        self.0[stripe as usize].load(Ordering::Acquire) == 0
    }
}

/// Keeps the bytes of a stripe as they are until it is dropped. What `sendfile` has taken needs
/// none any more: the kernel has pages that the volume's file gives up, and does not change.
pub struct Lease {
    leases: Arc<Leases>,
    stripe: u32,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases.0[self.stripe as usize].fetch_sub(1, Ordering::Release);
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Lease({})", self.stripe)
    }
}

//! Rules for tests that run side by side: any number of functional tests, but none beside a test
//! that measures.

use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

static MACHINE: RwLock<()> = RwLock::new(());

/// For tests whose result does not depend on how fast the machine is.
pub fn shared() -> RwLockReadGuard<'static, ()> {
    // A test that has failed holds nothing up.
    MACHINE.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// For tests that measure times or rates.
pub fn exclusive() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().unwrap_or_else(|poisoned| poisoned.into_inner())
}

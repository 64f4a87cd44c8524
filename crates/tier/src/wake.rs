//! The way in which a reader is told that there is something to go on with.

/// Called once, from another thread, when it is worth while to ask again. It must not wait.
pub type Wake = Box<dyn FnOnce() + Send>;

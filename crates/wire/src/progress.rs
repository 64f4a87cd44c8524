//! The result of one call of a reader.

/// The progress of one call of a reader.
#[derive(Debug)]
pub struct Progress<E> {
    /// Bytes of the input that were consumed; the next call takes the input from there on.
    pub consumed: usize,
    /// The event that they complete. `None`: all of the input was consumed and more is needed.
    pub event: Option<E>,
}

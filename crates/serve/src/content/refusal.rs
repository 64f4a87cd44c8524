//! Refusals: the reasons why an origin has no object for a name.

/// The reason why a name leads to nothing that is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The path cannot be a name.
    Malformed,
    /// There is no such file, or none that is served.
    NotFound,
    /// The file system does not let this process read it.
    Forbidden,
    /// This process or host has no descriptor or memory left, or more to do than it can, for now.
    Exhausted,
    /// The file keeps changing, or the file system is broken.
    Failed,
}

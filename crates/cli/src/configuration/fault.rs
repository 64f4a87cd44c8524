//! A mistake in a configuration file, with its place.

use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

/// A mistake and the bytes of the file that it lies in.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Fault {
    pub(super) span: Range<usize>,
    pub(super) what: String,
    /// The value at fault: the names of its keys with dots between.
    pub(super) at: String,
    /// Other mistakes in the same value.
    pub(super) others: Vec<Fault>,
}

impl Fault {
    pub(super) fn new(span: Range<usize>, what: impl Into<String>) -> Self {
        Self { span, what: what.into(), at: String::new(), others: Vec::new() }
    }

    /// A mistake in a value.
    pub(super) fn at(value: &Spanned<DeValue<'_>>, what: impl Into<String>) -> Self {
        Self::new(value.span(), what)
    }

    /// Whether a mistake in the value of that name may be a consequence of this one: one is the
    /// other, or lies in it.
    pub(super) fn concerns(&self, at: &str) -> bool {
        let is_within = |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'));
        self.at == at || is_within(at, &self.at) || is_within(&self.at, at)
    }
}

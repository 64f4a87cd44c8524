//! Getting hold of a whole head: where it lies when it came whole, else from a buffer that collects
//! its parts.

use crate::fields::{FieldSlots, Fields, Slots};
use crate::scan::{HeadFault, Scanned, Scanner, Section};
use crate::{Bounds, Progress, lenient};

/// The part of a head that came so far. Empty, and without memory, as long as heads come whole.
#[derive(Debug)]
pub(crate) struct PartialHead {
    bytes: Vec<u8>,
    scanner: Scanner,
    section: Section,
    complete: bool,
}

/// Memory a reader keeps between heads. A typical head fits; the memory of a large one is given
/// back, so that many idle connections cannot each hold what one request needed.
const RETAINED_BYTES_MAX: usize = 2 << 10;

impl PartialHead {
    pub(crate) const fn new(section: Section) -> Self {
        Self { bytes: Vec::new(), scanner: Scanner::new(section), section, complete: false }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.scanner.at_start()
    }

    pub(crate) const fn retained_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The collected bytes.
    pub(crate) fn so_far(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets a head that was read to its end. That cannot happen at that end, since the head was
    /// lent out then.
    #[inline]
    pub(crate) fn forget_complete(&mut self) {
        if !self.complete {
            return;
        }
        self.complete = false;
        self.scanner = Scanner::new(self.section);
        self.bytes.clear();
        self.bytes.shrink_to(RETAINED_BYTES_MAX);
    }

    /// Reads a head with `parse`, which gives the head and its length if the bytes begin with a
    /// whole and faultless one.
    ///
    /// The event is the head and how many bytes it had.
    #[inline]
    pub(crate) fn read<'a, T>(
        &'a mut self,
        input: &'a [u8],
        slots: &'a mut FieldSlots<'a>,
        bounds: &Bounds,
        parse: impl Fn(&'a [u8], &'a mut Slots<'a>, &Bounds) -> Option<(T, usize)>,
    ) -> Result<Progress<(T, usize)>, HeadFault> {
        if self.is_empty() {
            let window = &input[..input.len().min(bounds.head_bytes_max as usize)];
            if let Some((head, length)) = parse(window, &mut slots.usual, bounds) {
                return Ok(Progress { consumed: length, event: Some((head, length)) });
            }
        }
        self.collect(input, &mut slots.collected, bounds, parse)
    }

    /// Goes on with a head that is not there as a whole, or has to be looked at more closely, and
    /// parses it once it is complete.
    #[cold]
    #[inline(never)]
    fn collect<'a, T>(
        &'a mut self,
        input: &'a [u8],
        slots: &'a mut Slots<'a>,
        bounds: &Bounds,
        parse: impl Fn(&'a [u8], &'a mut Slots<'a>, &Bounds) -> Option<(T, usize)>,
    ) -> Result<Progress<(T, usize)>, HeadFault> {
        if bounds.is_lenient {
            return self.collect_lenient(input, slots, bounds, parse);
        }
        let is_new = self.is_empty();
        let Some(consumed) = self.extend(input, bounds)? else {
            return Ok(Progress { consumed: input.len(), event: None });
        };
        if is_new && !self.scanner.has_folds() {
            return Err(HeadFault::Ambiguous);
        }
        if self.scanner.has_folds() {
            unfold(&mut self.bytes);
        }
        match parse(&self.bytes, slots, bounds) {
            Some((head, length)) if length == self.bytes.len() => {
                Ok(Progress { consumed, event: Some((head, length)) })
            }
            _ => Err(HeadFault::Ambiguous),
        }
    }

    /// The same for a head that is read as curl reads it.
    #[cold]
    fn collect_lenient<'a, T>(
        &'a mut self,
        input: &'a [u8],
        slots: &'a mut Slots<'a>,
        bounds: &Bounds,
        parse: impl Fn(&'a [u8], &'a mut Slots<'a>, &Bounds) -> Option<(T, usize)>,
    ) -> Result<Progress<(T, usize)>, HeadFault> {
        self.scanner.begin();
        let before = self.bytes.len();
        let room = (bounds.head_bytes_max as usize).saturating_sub(before);
        self.bytes.extend_from_slice(&input[..input.len().min(room)]);
        let Some(end) = lenient::end_of_head(&self.bytes, before) else {
            return if input.len() > room {
                Err(HeadFault::TooLarge)
            } else {
                Ok(Progress { consumed: input.len(), event: None })
            };
        };
        self.complete = true;
        self.bytes = lenient::mended(&self.bytes[..end])?;
        match parse(&self.bytes, slots, bounds) {
            Some((head, length)) if length == self.bytes.len() => {
                Ok(Progress { consumed: end - before, event: Some((head, length)) })
            }
            _ => Err(HeadFault::Ambiguous),
        }
    }

    /// Takes what belongs to the head; says how much that was once the head is complete.
    #[cold]
    fn extend(&mut self, input: &[u8], bounds: &Bounds) -> Result<Option<usize>, HeadFault> {
        let (length, complete) = match self.scanner.scan(input, bounds)? {
            Scanned::Partial => (input.len(), None),
            Scanned::Complete(length) => (length, Some(length)),
        };
        self.complete = complete.is_some();
        self.bytes.extend_from_slice(&input[..length]);
        Ok(complete)
    }
}

/// Replaces each obsolete line fold, with the whitespace around it, by as many spaces (RFC 9112,
/// 5.2), so that no length changes.
#[cold]
fn unfold(head: &mut [u8]) {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let mut at = 0;
    while at < head.len() {
        let (begin, mut folded) = (at, false);
        loop {
            if is_blank(head.get(at)) {
                at += 1;
            } else if head[at..].starts_with(b"\r\n") && is_blank(head.get(at + 2)) {
                folded = true;
                at += 3;
            } else {
                break;
            }
        }
        if folded {
            head[begin..at].fill(b' ');
        }
        at += 1;
    }
}

/// Whether a head that `httparse` accepted is also within the stricter rules of this crate: each
/// line ends in CRLF, and the start line is not too long.
///
/// A field name begins right behind a line end, so the line ends are found through the names,
/// without a second pass over the bytes.
#[inline]
pub(crate) fn is_strict(head: &[u8], fields: Fields<'_>, bounds: &Bounds) -> bool {
    let start_of = |name: &str| name.as_ptr().addr() - head.as_ptr().addr();
    let start_line_bytes = fields.0.first().map_or(head.len() - 2, |field| start_of(field.name));
    start_line_bytes <= bounds.start_line_bytes_max as usize
        && head.ends_with(b"\r\n\r\n")
        && fields.0.iter().all(|field| head[start_of(field.name) - 2] == b'\r')
}

//! The fields that requests share, on one connection: sent once, and referred to from then on.

use thalweg_wire::hpack::{ENTRY_CHARGE, Encoder, Indexing, SIZE_INITIAL};

use super::encoder::{Field, Head};

/// A connection's header compression, with the encoded heads of templates that have come twice.
#[derive(Debug)]
pub(super) struct Heads {
    encoder: Encoder,
    /// Bytes of the table that entries may still take. None is evicted, so that numbers hold.
    room: usize,
    cached: Vec<Cached>,
}

/// The encoded fields of a template: pseudo-fields, then the others.
#[derive(Debug, Default)]
struct Cached {
    /// The state of the table that they hold for.
    generation: Option<u64>,
    bytes: Vec<u8>,
    pseudo_len: usize,
}

impl Default for Heads {
    fn default() -> Self {
        Self { encoder: Encoder::new(SIZE_INITIAL), room: SIZE_INITIAL, cached: Vec::new() }
    }
}

impl Heads {
    /// Obeys the server's limit on the table.
    pub(super) fn limit(&mut self, size_max: usize) {
        if size_max < SIZE_INITIAL {
            self.room = if self.room == SIZE_INITIAL { size_max } else { 0 };
            self.encoder.limit(size_max);
        }
    }

    /// Appends the header block of a request with this template, whose own fields are `block`.
    pub(super) fn write(&mut self, template: usize, head: &Head, block: &[u8], out: &mut Vec<u8>) {
        if template >= self.cached.len() {
            self.cached.resize_with(template + 1, Cached::default);
        }
        let generation = self.encoder.generation();
        let cached = &self.cached[template];
        if cached.generation == Some(generation) {
            let (pseudo, fields) = cached.bytes.split_at(cached.pseudo_len);
            for part in [pseudo, block, fields] {
                out.extend_from_slice(part);
            }
            return;
        }
        self.encoder.begin(out);
        let start = out.len();
        head.pseudo.iter().for_each(|field| self.encode(field, out));
        let pseudo_end = out.len();
        out.extend_from_slice(block);
        let fields_start = out.len();
        head.fields.iter().for_each(|field| self.encode(field, out));
        if self.encoder.generation() == generation {
            let cached = &mut self.cached[template];
            cached.bytes.clear();
            cached.bytes.extend_from_slice(&out[start..pseudo_end]);
            cached.bytes.extend_from_slice(&out[fields_start..]);
            (cached.generation, cached.pseudo_len) = (Some(generation), pseudo_end - start);
        }
    }

    fn encode(&mut self, (name, value): &Field, out: &mut Vec<u8>) {
        let charge = name.len() + value.len() + ENTRY_CHARGE;
        let indexing = if charge <= self.room { Indexing::Yes } else { Indexing::No };
        let before = self.encoder.generation();
        self.encoder.encode(name, value, indexing, out);
        if self.encoder.generation() != before {
            self.room -= charge;
        }
    }
}

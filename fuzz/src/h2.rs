//! HTTP/2: connections of both roles, and header blocks.

use thalweg_wire::h2::{Config, Connection, Event, PREFACE, Role, Settings, WINDOW_INITIAL};
use thalweg_wire::hpack::{Decoder, Encoder, FieldList, Indexing, ListBounds, SIZE_INITIAL};

/// Streams that a peer may have open at once here.
const STREAMS_MAX: u32 = 8;

/// Bounds of header blocks.
const BOUNDS: ListBounds = ListBounds { charge_max: 4096, fields_max: 40 };

/// A connection that reads any frames: however they are cut, its events are the same, and what it
/// sends and keeps is bounded. The first byte is the role and the length of the pieces.
pub fn h2(data: &[u8]) {
    let [first, frames @ ..] = data else { return };
    let role = if first & 1 == 0 { Role::Server } else { Role::Client };
    let mut input = Vec::new();
    if role == Role::Server {
        input.extend_from_slice(PREFACE);
    }
    // SETTINGS without entries.
    input.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    input.extend_from_slice(frames);
    let whole = events(role, &input, input.len());
    let pieces = events(role, &input, usize::from(first >> 1) + 1);
    assert_eq!(whole, pieces);
}

/// The events of some input, one text each. Neighbouring pieces of a body are one.
fn events(role: Role, input: &[u8], piece: usize) -> Vec<String> {
    let settings = Settings { concurrent_streams_max: STREAMS_MAX, enable_push: false, ..Settings::INITIAL };
    let config = Config { settings, connection_window: WINDOW_INITIAL, list: BOUNDS };
    let mut out = Vec::new();
    let mut connection: Connection<u32> = Connection::new(role, config, &mut out);
    if role == Role::Client {
        for number in 0..4 {
            let stream = connection.open(number).expect("a stream");
            connection.headers(stream, &[0x82, 0x86, 0x84], true, &mut out);
        }
    }
    let mut list = FieldList::new(BOUNDS);
    let mut seen = Seen::default();
    for mut rest in input.chunks(piece.max(1)) {
        out.clear();
        loop {
            let progress = match connection.read(rest, &mut list, &mut out) {
                Ok(progress) => progress,
                Err(fault) => {
                    seen.add(fault.to_string());
                    return seen.finish();
                }
            };
            rest = &rest[progress.consumed..];
            let Some(event) = progress.event else { break };
            let ended = seen.note(&event);
            if let Event::Data { stream, bytes, .. } = event {
                connection.consume(stream, bytes.len() as u32, &mut out);
            }
            if let Some(stream) = ended {
                connection.release(stream, &mut out);
            }
        }
        assert!(rest.is_empty(), "a reader that wants more has taken all");
        assert!(connection.stream_count() <= STREAMS_MAX as usize + 1);
        assert!(out.len() <= 64 + 8 * piece.max(100), "{} bytes are sent for {piece}", out.len());
    }
    seen.finish()
}

/// Events as texts.
#[derive(Default)]
struct Seen {
    events: Vec<String>,
    body: Option<(u32, Vec<u8>, bool)>,
}

impl Seen {
    /// Notes an event. Returns the stream that it ends.
    fn note(&mut self, event: &Event<'_>) -> Option<u32> {
        match event {
            Event::Headers { stream, fields, ends } => {
                self.add(format!("{stream} {:?} {} {ends}", fields.iter().collect::<Vec<_>>(), fields.is_too_large()));
                ends.then_some(*stream)
            }
            Event::Data { stream, bytes, ends } => {
                match &mut self.body {
                    Some((of, body, end)) if of == stream && !*end => {
                        body.extend_from_slice(bytes);
                        *end = *ends;
                    }
                    _ => {
                        self.flush();
                        self.body = Some((*stream, bytes.to_vec(), *ends));
                    }
                }
                ends.then_some(*stream)
            }
            Event::Reset { stream, code, fault } => {
                self.add(format!("reset {stream} {code} {fault:?}"));
                Some(*stream)
            }
            event => {
                self.add(format!("{event:?}"));
                None
            }
        }
    }

    fn add(&mut self, event: String) {
        self.flush();
        self.events.push(event);
    }

    fn flush(&mut self) {
        if let Some((stream, body, ends)) = self.body.take() {
            self.events.push(format!("{stream} {body:?} {ends}"));
        }
    }

    fn finish(mut self) -> Vec<String> {
        self.flush();
        self.events
    }
}

/// Header blocks, each behind a byte with its length: what is decoded is within the bounds, and
/// encoding it again gives the same fields.
pub fn hpack(data: &[u8]) {
    let bounds = ListBounds { charge_max: 8192, fields_max: 50 };
    let mut decoder = Decoder::new(SIZE_INITIAL);
    let (mut encoder, mut again) = (Encoder::new(SIZE_INITIAL), Decoder::new(SIZE_INITIAL));
    let (mut list, mut decoded) = (FieldList::new(bounds), FieldList::new(bounds));
    let mut rest = data;
    while let [len, behind @ ..] = rest {
        let (block, behind) = behind.split_at(behind.len().min(usize::from(*len)));
        rest = behind;
        if decoder.decode(block, &mut list).is_err() {
            return;
        }
        assert!(list.byte_len() <= bounds.charge_max && list.iter().len() <= bounds.fields_max);
        let mut out = Vec::new();
        encoder.begin(&mut out);
        let lower: Vec<_> = list.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec())).collect();
        for (place, (name, value)) in lower.iter().enumerate() {
            let indexing = [Indexing::Yes, Indexing::No, Indexing::Never][(place + usize::from(*len)) % 3];
            encoder.encode(name, value, indexing, &mut out);
        }
        again.decode(&out, &mut decoded).expect("what was encoded can be decoded");
        assert!(decoded.iter().eq(lower.iter().map(|(name, value)| (&name[..], &value[..]))));
    }
}

//! The part of a message behind its head, the same for requests and replies: pieces of the input
//! until its end.

use crate::chunked::{ChunkEvent, ChunkFault, Decoder};
use crate::framing::BodyFraming;
use crate::{Bounds, Progress};

/// How far the reading of a body came.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    /// So many bytes are missing.
    Length(u64),
    Chunked(Decoder),
    UntilClose,
}

/// A piece of a body, or its end.
pub(crate) enum Piece<'a> {
    Data(&'a [u8]),
    End,
}

impl Body {
    pub(crate) const fn new(framing: BodyFraming) -> Self {
        match framing {
            BodyFraming::None => Self::Length(0),
            BodyFraming::Length(bytes) => Self::Length(bytes),
            BodyFraming::Chunked => Self::Chunked(Decoder::new()),
            BodyFraming::UntilClose => Self::UntilClose,
        }
    }

    #[inline]
    pub(crate) fn read<'a>(&mut self, input: &'a [u8], bounds: &Bounds) -> Result<Progress<Piece<'a>>, ChunkFault> {
        match self {
            Self::Length(0) => Ok(Progress { consumed: 0, event: Some(Piece::End) }),
            _ if input.is_empty() => Ok(Progress { consumed: 0, event: None }),
            Self::Length(missing) => {
                let length = usize::try_from(*missing).map_or(input.len(), |bytes| bytes.min(input.len()));
                *missing -= length as u64;
                Ok(Progress { consumed: length, event: Some(Piece::Data(&input[..length])) })
            }
            Self::UntilClose => Ok(Progress { consumed: input.len(), event: Some(Piece::Data(input)) }),
            Self::Chunked(decoder) => {
                let Progress { consumed, event } = decoder.read(input, bounds)?;
                let event = event.map(|event| match event {
                    ChunkEvent::Data(data) => Piece::Data(data),
                    ChunkEvent::End => Piece::End,
                });
                Ok(Progress { consumed, event })
            }
        }
    }
}

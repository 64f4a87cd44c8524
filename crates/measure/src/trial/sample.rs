//! A sample of a target's response: the name of the server, and the size of the response.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of the `Server` field that are kept.
const SERVER_BYTES_MAX: usize = 256;

/// The first good response of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Its `Server` field; empty if there was none.
    pub server: String,
    /// Length of its content in bytes.
    pub body_bytes: u64,
}

impl Sample {
    /// Keeps what is shown of a response. A peer may send anything: the text is bounded, and what a
    /// terminal might obey becomes a question mark.
    pub fn of(server: Option<&[u8]>, body_bytes: u64) -> Self {
        let server = server.unwrap_or_default();
        let kept = &server[..server.len().min(SERVER_BYTES_MAX)];
        let shown = kept.iter().map(|byte| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '?' });
        Sample { server: shown.collect(), body_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_cannot_make_the_text_long_or_dangerous() {
        assert_eq!(Sample::of(Some(b"nginx/1.22.1"), 512).server, "nginx/1.22.1");
        assert_eq!(Sample::of(Some(b"a\x1b[2J\xff\n"), 0).server, "a?[2J??");
        assert_eq!(Sample::of(Some(&[b'x'; 5000]), 0).server.len(), SERVER_BYTES_MAX);
        assert_eq!(Sample::of(None, 7), Sample { server: String::new(), body_bytes: 7 });
    }
}

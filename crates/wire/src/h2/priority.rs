//! Priorities of responses (RFC 9218).

/// The priority of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Priority {
    /// From 0, the most urgent, to 7, for the background.
    pub urgency: u8,
    /// Whether a part of the response is of use: such responses share the connection, others come
    /// one after the other.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// The priority of a response for which the client has signalled none: a client that knows
    /// nothing of priorities expects its responses to share the connection.
    pub const UNSIGNALLED: Self = Self { urgency: 3, incremental: true };

    /// The priority that a field or a frame names (RFC 9218, 4): a dictionary of RFC 8941, of which
    /// all unknown members and values out of range are ignored.
    #[must_use]
    pub fn read(value: &[u8]) -> Self {
        let mut priority = Self::default();
        for member in value.split(|&byte| byte == b',') {
            let member = member.trim_ascii();
            let (key, value) = match member.iter().position(|&byte| byte == b'=' || byte == b';') {
                Some(place) if member[place] == b'=' => (&member[..place], Some(&member[place + 1..])),
                Some(place) => (&member[..place], None),
                None => (member, None),
            };
            match (key, value.map(without_parameters)) {
                (b"u", Some([digit @ b'0'..=b'7'])) => priority.urgency = digit - b'0',
                (b"i", None | Some(b"?1")) => priority.incremental = true,
                (b"i", Some(b"?0")) => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

fn without_parameters(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|&byte| byte == b';').unwrap_or(value.len());
    value[..end].trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_name_priorities() {
        let cases: [(&str, u8, bool); 12] = [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i", 3, true),
            ("i=?1", 3, true),
            ("i=?0", 3, false),
            ("i;x=1,u=5;y", 5, true),
            ("u=8", 3, false),
            ("u=-1, i", 3, true),
            ("u", 3, false),
            ("U=1, foo=bar, u=2", 2, false),
            (",,=,u=", 3, false),
        ];
        for (text, urgency, incremental) in cases {
            assert_eq!(Priority::read(text.as_bytes()), Priority { urgency, incremental }, "{text:?}");
        }
    }
}

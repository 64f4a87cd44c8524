//! Times in documents and logs.

use thalweg_wire::date;

/// A time such as `2000-10-10T13:55:36Z`.
pub(crate) fn rfc3339(second: i64) -> String {
    const MONTHS: [&[u8]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let text = date::imf_fixdate(second);
    let month = 1 + MONTHS.iter().position(|month| *month == &text[8..11]).unwrap_or(0);
    let part = |range: std::ops::Range<usize>| String::from_utf8_lossy(&text[range]).into_owned();
    format!("{}-{month:02}-{}T{}Z", part(12..16), part(5..7), part(17..25))
}

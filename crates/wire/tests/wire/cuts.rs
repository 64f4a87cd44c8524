//! However the bytes are cut, the readers say the same; whatever the bytes are, they neither panic
//! nor disagree.

use proptest::prelude::*;
use thalweg_wire::{Bounds, RequestKind};

use crate::transcript;

/// Sound messages to be damaged: what is almost right reaches deeper than noise.
const REQUESTS: [&str; 5] = [
    "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "\r\nPOST / HTTP/1.1\r\nHost: x:80\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello\r\n",
    "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nT: u\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: [::1]\r\nA:\r\nB: \t c \t\r\nContent-Length: 0\r\n\r\n",
    "GET http://a/b HTTP/1.1\r\nHost: x\r\nConnection: close, te\r\nAccept: */*\r\n\r\n",
];

const RESPONSES: [&str; 5] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 304 \r\nContent-Length: 5\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nA: b\r\n\r\n",
    "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n5;a\r\nhello\r\n0\r\nT: u\r\n\r\n",
    "HTTP/1.0 404 Not Found\r\nConnection: keep-alive\r\n\r\nuntil the end",
    "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nother",
];

const DAMAGES: [&str; 14] = [
    "",
    "\r",
    "\n",
    "\r\n",
    " ",
    "\t",
    ":",
    ",",
    "0",
    "f",
    ";",
    "\0",
    "Content-Length: 1\r\n",
    "Transfer-Encoding: chunked\r\n",
];

/// Small enough that messages of test size reach every bound.
const TIGHT: Bounds = Bounds {
    head_bytes_max: 70,
    start_line_bytes_max: 24,
    fields_max: 3,
    chunk_line_bytes_max: 8,
    chunk_extension_bytes_max: 6,
    trailer_bytes_max: 9,
    empty_lines_max: 1,
    informational_max: 1,
    is_lenient: false,
};

fn damaged(sound: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let replacement = prop_oneof![
        4 => prop::sample::select(&DAMAGES[..]).prop_map(|text| text.as_bytes().to_vec()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    let damage = (any::<prop::sample::Index>(), 0usize..3, replacement);
    (prop::sample::select(sound), prop::collection::vec(damage, 0..4)).prop_map(|(text, damages)| {
        let mut bytes = text.as_bytes().to_vec();
        for (index, removed, replacement) in damages {
            let start = index.index(bytes.len() + 1);
            let end = bytes.len().min(start + removed);
            bytes.splice(start..end, replacement);
        }
        bytes
    })
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1usize..40, 1..6)
}

fn bounds() -> impl Strategy<Value = Bounds> {
    prop::sample::select(vec![Bounds::requests(), TIGHT])
}

fn kinds() -> impl Strategy<Value = Vec<RequestKind>> {
    let kinds = [RequestKind::Other, RequestKind::Head, RequestKind::Upgrade, RequestKind::Connect];
    prop::collection::vec(prop::sample::select(kinds.to_vec()), 0..4)
}

/// An accepted head has no line end but CRLF: nothing in it can be a line end to another recipient.
fn assert_lines_end_in_crlf(input: &[u8]) {
    let text = input.escape_ascii().to_string();
    let head = text.trim_start_matches("\\r\\n").split("\\r\\n\\r\\n").next().unwrap_or_default();
    let bare = head.replace("\\\\", "").replace("\\r\\n", "");
    assert!(!bare.contains("\\r") && !bare.contains("\\n"), "accepted {text}");
}

fn requests_do_not_depend_on_cuts(input: &[u8], lengths: &[usize], bounds: Bounds) {
    let whole = transcript::requests(input, &[], bounds);
    let bytewise = transcript::requests(input, &[1], bounds);
    let cut = transcript::requests(input, lengths, bounds);
    assert_eq!(whole.text(), bytewise.text());
    assert_eq!(whole.text(), cut.text());
    assert!(bytewise.retained_bytes <= 2 * bounds.head_bytes_max as usize);
    assert!(!whole.is_ambiguous());
    if whole.lines[0].contains(" host=") {
        assert_lines_end_in_crlf(input);
    }
}

fn responses_do_not_depend_on_cuts(input: &[u8], lengths: &[usize], bounds: Bounds, kinds: &[RequestKind]) {
    let whole = transcript::responses(input, &[], bounds, kinds);
    let bytewise = transcript::responses(input, &[1], bounds, kinds);
    let cut = transcript::responses(input, lengths, bounds, kinds);
    assert_eq!(whole.text(), bytewise.text());
    assert_eq!(whole.text(), cut.text());
    assert!(bytewise.retained_bytes <= 2 * bounds.head_bytes_max as usize);
    assert!(!whole.is_ambiguous());
    if whole.lines[0].starts_with("HTTP/") {
        assert_lines_end_in_crlf(input);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn damaged_requests(input in damaged(&REQUESTS), lengths in lengths(), bounds in bounds()) {
        requests_do_not_depend_on_cuts(&input, &lengths, bounds);
    }

    #[test]
    fn noise_as_requests(input in prop::collection::vec(any::<u8>(), 0..200), lengths in lengths()) {
        requests_do_not_depend_on_cuts(&input, &lengths, TIGHT);
    }

    #[test]
    fn damaged_responses(input in damaged(&RESPONSES), lengths in lengths(), bounds in bounds(), kinds in kinds()) {
        responses_do_not_depend_on_cuts(&input, &lengths, bounds, &kinds);
    }

    #[test]
    fn noise_as_responses(input in prop::collection::vec(any::<u8>(), 0..200), lengths in lengths(), kinds in kinds()) {
        responses_do_not_depend_on_cuts(&input, &lengths, TIGHT, &kinds);
    }
}

//! Bytes that an origin sends for what clients read.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use crate::support::{Origin, Original, PATIENCE, Stage, bytes, pattern, read};
use bytes::Bytes;
use thalweg_caching::{FieldLines, StoredFields};
use thalweg_tier::{
    Answer, BodyPiece, BoxFuture, Content, Upstream, UpstreamContent, UpstreamFailure, UpstreamRequest,
    UpstreamResponse,
};

const FRESH: (&str, &str) = ("Cache-Control", "max-age=3600");
const TAG: (&str, &str) = ("ETag", "\"one\"");
const MEBIBYTE: usize = 1 << 20;

/// An origin that tells how far each of its responses was read.
struct Watched {
    origin: Arc<Origin>,
    /// It answers ranges with the whole.
    has_no_parts: bool,
    ends: Mutex<Sender<usize>>,
}

struct WatchedContent {
    content: Box<dyn UpstreamContent>,
    sent: usize,
    ends: Sender<usize>,
}

impl Upstream for Watched {
    fn fetch(&self, mut request: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>> {
        Box::pin(async move {
            if self.has_no_parts {
                request.fields.remove("range");
            }
            let response = self.origin.fetch(request).await?;
            let ends = self.ends.lock().unwrap().clone();
            let content = Box::new(WatchedContent { content: response.content, sent: 0, ends });
            Ok(UpstreamResponse { content, ..response })
        })
    }
}

impl UpstreamContent for WatchedContent {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, Arc<str>>>> {
        Box::pin(async {
            let piece = self.content.next().await;
            self.sent += piece.as_ref().map_or(0, |piece| piece.as_ref().map_or(0, Bytes::len));
            piece
        })
    }
}

impl Drop for WatchedContent {
    fn drop(&mut self) {
        let _ = self.ends.send(self.sent);
    }
}

fn watched(has_no_parts: bool) -> (Stage, Receiver<usize>) {
    let (sender, ends) = channel();
    let origin = Arc::new(Origin::default());
    let watched = Watched { origin: Arc::clone(&origin), has_no_parts, ends: Mutex::new(sender) };
    (Stage::before(Arc::new(watched), origin), ends)
}

#[test]
fn a_suffix_and_several_ranges_fetch_little_more_than_they_ask_for() {
    let content = pattern(48 * MEBIBYTE, 1);
    let all = content.len() as u64;
    let cases: [(&str, &[(u64, u64)]); 4] = [
        ("bytes=-1", &[(all - 1, all)]),
        ("bytes=-3000000", &[(all - 3_000_000, all)]),
        ("bytes=5-9,30000000-30000009", &[(5, 10), (30_000_000, 30_000_010)]),
        ("bytes=-2,50000000-50000009", &[(all - 2, all), (50_000_000, 50_000_010)]),
    ];
    for (range, wanted) in cases {
        let stage = Stage::new();
        stage.origin.put("/big", Original::new(&[FRESH, TAG], content.clone()));
        let Answer::Object(object) = stage.ask("GET", "/big", &[("Range", range)]) else { panic!("{range}") };
        assert_eq!(object.length, all);
        let Content::Fragments(fragments) = object.content else { panic!("it is long") };
        let mut asked = 0;
        for &(first, end) in wanted {
            let found = read(fragments.clone().reader(first..end)).unwrap();
            assert!(found == content[first as usize..end as usize], "{range}");
            asked += end - first;
        }
        let sent = stage.tier.counts().origin_bytes;
        let most = asked + 2 * (wanted.len() * MEBIBYTE) as u64;
        assert!(sent <= most, "{range}: {sent} bytes for {asked}");
    }
}

/// An origin with ten bytes.
struct OfTenBytes;

impl Upstream for OfTenBytes {
    fn fetch(&self, request: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>> {
        let asked = request.fields.first("range").map(<[u8]>::to_vec).unwrap_or_default();
        let status = if asked == b"bytes=9000000-9000009,0-1" { 206 } else { 416 };
        let (length, content) = (Some(0), Box::new(Nothing));
        let mut fields = StoredFields::default();
        fields.push("Content-Type", b"multipart/byteranges; boundary=a");
        Box::pin(
            async move { Ok(UpstreamResponse { status, fields, length, content, version: None, is_peers: false }) },
        )
    }
}

struct Nothing;

impl UpstreamContent for Nothing {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, Arc<str>>>> {
        Box::pin(async { None })
    }
}

#[test]
fn several_ranges_whose_first_lies_behind_the_end_are_asked_for_as_they_are() {
    let stage = Stage::before(Arc::new(OfTenBytes), Arc::default());
    let check = |range: &str, expected: u16| match stage.ask("GET", "/a", &[("Range", range)]) {
        Answer::Response(response) => assert_eq!(response.status, expected, "{range}"),
        answer => panic!("{range}: {:?}", bytes(answer)),
    };
    check("bytes=9000000-9000009", 416);
    check("bytes=9000000-9000009,0-1", 206);
}

#[test]
fn a_fetch_ends_when_its_client_leaves() {
    for is_chunked in [false, true] {
        let (stage, ends) = watched(false);
        let mut original = Original::new(&[FRESH, TAG], pattern(64 * MEBIBYTE, 2));
        original.is_chunked = is_chunked;
        stage.origin.put("/big", original);
        match stage.get("/big") {
            Answer::Object(object) => {
                let Content::Fragments(fragments) = object.content else { panic!("it is long") };
                let mut reader = fragments.reader(0..object.length);
                let (sender, woken) = channel();
                while matches!(
                    reader.next(Box::new({
                        let sender = sender.clone();
                        move || sender.send(()).unwrap_or_default()
                    })),
                    BodyPiece::Pending
                ) {
                    woken.recv_timeout(PATIENCE).expect("a wake");
                }
            }
            answer => assert!(is_chunked, "{:?}", bytes(answer).map(|bytes| bytes.len())),
        }
        let sent = ends.recv_timeout(PATIENCE).expect("the fetch ends");
        assert!(sent < 48 * MEBIBYTE, "{sent} bytes were fetched");
    }
}

#[test]
fn a_range_of_an_object_whose_origin_sends_no_parts_waits_for_the_whole() {
    let (stage, ends) = watched(true);
    let content = pattern(16 * MEBIBYTE, 3);
    stage.origin.put("/big", Original::new(&[FRESH, TAG], content.clone()));
    let last = content.len() as u64 - 1;
    let Answer::Object(object) = stage.ask("GET", "/big", &[("Range", "bytes=-1")]) else { panic!("an object") };
    let Content::Fragments(fragments) = object.content else { panic!("it is long") };
    assert_eq!(read(fragments.reader(last..last + 1)).unwrap(), content[last as usize..]);
    assert_eq!(ends.recv_timeout(PATIENCE).unwrap(), content.len());
}

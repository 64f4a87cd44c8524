//! Several origins whose copies of an object have different validators.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::support::{Origin, Stage, bytes, pattern, read};
use bytes::Bytes;
use thalweg_origin::{GroupConfig, OriginConfig, OriginGroup, OriginKind};
use thalweg_tier::{Answer, BoxFuture, Content, Upstream, UpstreamFailure, UpstreamRequest, UpstreamResponse};

const MEBIBYTE: usize = 1 << 20;

/// A mirror: a server with one object.
struct Mirror {
    tag: &'static str,
    content: Bytes,
    is_up: AtomicBool,
    requests: AtomicUsize,
}

impl Mirror {
    fn start(tag: &'static str, content: Bytes) -> (Arc<Self>, OriginConfig) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let (is_up, requests) = (AtomicBool::new(true), AtomicUsize::new(0));
        let mirror = Arc::new(Self { tag, content, is_up, requests });
        let serving = Arc::clone(&mirror);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = serving.answer(&stream.unwrap());
            }
        });
        (mirror, OriginConfig::new(tag, OriginKind::Http { base }))
    }

    fn answer(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        let lines = BufReader::new(stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
        let lines: Vec<String> = lines.collect();
        if !self.is_up.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.requests.fetch_add(1, Ordering::SeqCst);
        let field = |name: &str| {
            let found =
                lines.iter().find_map(|line| line.split_once(": ").filter(|(own, _)| own.eq_ignore_ascii_case(name)));
            found.map(|(_, value)| value)
        };
        let (tag, all) = (format!("\"{}\"", self.tag), self.content.len());
        let range = field("range").filter(|_| field("if-range").is_none_or(|known| known == tag));
        let range = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let (status, first, end) = match range {
            Some((first, last)) => (
                "206 Partial Content",
                first.parse().unwrap(),
                last.parse().map_or(all, |last: usize| all.min(last + 1)),
            ),
            None => ("200 OK", 0, all),
        };
        write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\nETag: {tag}\r\nCache-Control: max-age=3600\r\n")?;
        if range.is_some() {
            write!(stream, "Content-Range: bytes {first}-{}/{all}\r\n", end - 1)?;
        }
        write!(stream, "Content-Length: {}\r\n\r\n", end - first)?;
        stream.write_all(&self.content[first..end])
    }

    fn set_up(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::SeqCst);
    }
}

/// The mirrors, which are opened on the threads of the tier.
#[derive(Default)]
struct Mirrors(OnceLock<OriginGroup>);

impl Upstream for Mirrors {
    fn fetch(&self, request: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>> {
        Upstream::fetch(self.0.get().expect("it is set"), request)
    }

    fn fetch_wanted<'a>(
        &'a self,
        request: UpstreamRequest,
        is_wanted: &'a (dyn Fn(&UpstreamResponse) -> bool + Send + Sync),
    ) -> BoxFuture<'a, Result<UpstreamResponse, UpstreamFailure>> {
        Upstream::fetch_wanted(self.0.get().expect("it is set"), request, is_wanted)
    }
}

#[test]
fn a_range_is_asked_of_the_mirror_that_has_the_version() {
    let (one, two) = (pattern(16 * MEBIBYTE, 1), pattern(16 * MEBIBYTE, 2));
    let (first, first_config) = Mirror::start("one", one.clone());
    let (second, second_config) = Mirror::start("two", two.clone());
    let mirrors = Arc::new(Mirrors::default());
    let stage = Stage::before(Arc::clone(&mirrors) as Arc<dyn Upstream>, Arc::new(Origin::default()));
    let group = {
        let _runtime = stage.tier.runtime().enter();
        OriginGroup::new(vec![first_config, second_config], GroupConfig::default()).unwrap()
    };
    assert!(mirrors.0.set(group).is_ok());
    let ask = |first: usize| stage.ask("GET", "/big", &[("Range", &format!("bytes={first}-{}", first + 9))]);
    let fragments = |answer: Answer| match answer {
        Answer::Object(object) => match object.content {
            Content::Fragments(fragments) => fragments,
            Content::Memory(_) => panic!("it is long"),
        },
        answer => panic!("no object: {:?}", bytes(answer)),
    };
    // The first mirror is away while the object is met.
    first.set_up(false);
    let reading = fragments(ask(0));
    first.set_up(true);
    for place in [3, 6, 9].map(|fragment| fragment * MEBIBYTE) {
        let range = place as u64..place as u64 + 10;
        assert!(read(reading.clone().reader(range.clone())).unwrap() == two[place..place + 10], "{place}");
        let again = fragments(ask(place + MEBIBYTE));
        assert!(read(again.reader(range)).unwrap() == two[place..place + 10], "{place}");
    }
    assert!(first.requests.load(Ordering::SeqCst) > 0, "it was asked and had another version");
    // Nobody has the version any more: who has got bytes is cut off, and others get the other one.
    second.set_up(false);
    let place = 13 * MEBIBYTE;
    let anew = fragments(ask(place));
    let range = place as u64..place as u64 + 10;
    assert!(read(anew.reader(range.clone())).unwrap() == one[place..place + 10]);
    assert!(read(reading.reader(range)).is_err());
}

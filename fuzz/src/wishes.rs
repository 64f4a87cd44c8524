//! A client's preferences of codings and digests, and checksum files.

use thalweg_formats::checksums::{Scope, find};
use thalweg_wire::coding::{AcceptEncoding, Coding};
use thalweg_wire::digest::{Algorithm, WantReprDigest, push_repr_digest};
use thalweg_wire::{Bounds, FieldSlots, RequestEvent, RequestReader};

use crate::lines::split_line;

/// Values of Accept-Encoding and Want-Repr-Digest, each ended by LF; all of them are given to both.
pub fn wishes(data: &[u8]) {
    let mut head = b"GET / HTTP/1.1\r\nHost: x\r\n".to_vec();
    for line in data.split(|&byte| byte == b'\n') {
        for name in ["Accept-Encoding: ", "Want-Repr-Digest: "] {
            head.extend_from_slice(&[name.as_bytes(), line, b"\r\n"].concat());
        }
    }
    head.extend_from_slice(b"\r\n");
    let (mut reader, mut slots) = (RequestReader::new(Bounds::requests()), FieldSlots::new());
    let Ok(progress) = reader.read(&head, &mut slots) else {
        return;
    };
    let Some(RequestEvent::Head(head)) = progress.event else {
        return;
    };
    let accept = AcceptEncoding::of(head.fields);
    let says = |text: &str| data.to_ascii_lowercase().windows(text.len()).any(|window| window == text.as_bytes());
    for coding in Coding::ALL {
        let quality = accept.quality(coding);
        assert!(quality <= 1000);
        assert!(quality == 0 || says(coding.name()) || says("*"), "{coding:?} is wanted by nobody");
    }
    assert!(accept.identity().is_none_or(|quality| quality <= 1000));
    assert!(accept.identity().is_some() || says("identity") || says("*"), "nothing is left, and nobody wanted that");
    let wanted = WantReprDigest::of(head.fields);
    for algorithm in Algorithm::ALL {
        let chosen = wanted.choose(|offered| offered == algorithm);
        assert!(chosen.is_none() || (chosen == Some(algorithm) && says(algorithm.key())));
    }
    assert_eq!(wanted.choose(|_| false), None);
}

/// A line with the name of a file, then a checksum file.
pub fn checksums(data: &[u8]) {
    let (name, text) = split_line(data);
    for algorithm in Algorithm::ALL {
        for scope in [Scope::Folder, Scope::OneFile] {
            let Some(digest) = find(text, name, algorithm, scope) else {
                continue;
            };
            assert_eq!(digest.len(), algorithm.digest_bytes());
            let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            let shown = text.to_ascii_lowercase();
            assert!(shown.windows(digits.len()).any(|window| window == digits.as_bytes()), "a digest from nowhere");
            // Written as a list of its own, it is found again; such a line has room for any name
            // without a line's end.
            let plain = !name.contains(&b'\r');
            let line = [digits.as_bytes(), b"  ", name, b"\n"].concat();
            assert!(
                !plain
                    || find(&line, name, algorithm, Scope::Folder) == Some(digest.clone())
                    || name.starts_with(b"./")
            );
            let mut field = Vec::new();
            push_repr_digest(&mut field, algorithm, &digest);
            assert!(field.iter().all(u8::is_ascii_graphic));
        }
    }
}

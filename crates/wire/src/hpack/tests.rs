//! Encoder and decoder against the RFC's examples and each other.

use super::*;

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, DecodeError> {
    let mut list = FieldList::default();
    decoder.decode(block, &mut list)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("ASCII");
    Ok(list.iter().map(|(name, value)| (text(name), text(value))).collect())
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16).expect("a byte");
    digits.chunks(2).map(byte).collect()
}

/// RFC 7541, C.3, C.4, C.5 and C.6: three messages on one connection, each with the other's table.
#[test]
fn the_examples_of_the_rfc() {
    let requests: [&[(&str, &str)]; 3] = [
        &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")],
        &[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "www.example.com"),
            ("cache-control", "no-cache"),
        ],
        &[
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
        ],
    ];
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let huffman = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for blocks in [plain, huffman] {
        let mut decoder = Decoder::new(SIZE_INITIAL);
        for (block, fields) in blocks.iter().zip(requests) {
            let expected: Vec<_> = fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            assert_eq!(decode(&mut decoder, &bytes(block)), Ok(expected));
        }
    }
    let mut encoder = Encoder::new(SIZE_INITIAL);
    for (block, fields) in huffman.iter().zip(requests) {
        let mut out = Vec::new();
        encoder.begin(&mut out);
        for (name, value) in fields {
            encoder.encode(name.as_bytes(), value.as_bytes(), Indexing::Yes, &mut out);
        }
        assert_eq!(out, bytes(block));
    }
}

#[test]
fn a_table_that_evicts_stays_the_same_on_both_sides() {
    let (mut encoder, mut decoder) = (Encoder::new(256), Decoder::new(SIZE_INITIAL));
    for round in 0..500_u32 {
        let fields: Vec<(String, String)> = (0..round % 7)
            .map(|place| (format!("name-{}", (round + place) % 5), "v".repeat(((round * 31 + place) % 120) as usize)))
            .collect();
        let mut out = Vec::new();
        encoder.begin(&mut out);
        for (place, (name, value)) in fields.iter().enumerate() {
            let indexing = [Indexing::Yes, Indexing::No, Indexing::Never][(round as usize + place) % 3];
            encoder.encode(name.as_bytes(), value.as_bytes(), indexing, &mut out);
        }
        if round == 250 {
            encoder.limit(100);
        }
        assert_eq!(decode(&mut decoder, &out), Ok(fields), "round {round}");
    }
}

#[test]
fn stateless_blocks_leave_the_tables_as_they_are() {
    let mut out = Vec::new();
    for (name, value) in [(":status", "200"), (":status", "429"), ("etag", "\"5e-1\""), ("x-name", "value")] {
        encode_stateless(name.as_bytes(), value.as_bytes(), &mut out);
    }
    assert_eq!(out[0], 0x88);
    let mut decoder = Decoder::new(0);
    let fields = decode(&mut decoder, &out).expect("a block");
    assert_eq!(fields[1], (":status".into(), "429".into()));
    assert_eq!(fields[3], ("x-name".into(), "value".into()));
}

#[test]
fn invalid_blocks_are_refused() {
    let cases = [
        ("80", DecodeError::NoSuchEntry(0)),
        ("be", DecodeError::NoSuchEntry(62)),
        ("7e 01 61", DecodeError::NoSuchEntry(62)),
        ("ff ff ff ff ff ff", DecodeError::NumberTooLarge),
        ("40", DecodeError::Truncated),
        ("40 03 61", DecodeError::Truncated),
        ("40 01 61 05 61", DecodeError::Truncated),
        ("40 81 00 01 61", DecodeError::Huffman),
        ("82 20", DecodeError::TableSize),
        ("3f e2 1f", DecodeError::TableSize),
        ("20 20 20", DecodeError::TableSize),
    ];
    for (block, error) in cases {
        assert_eq!(decode(&mut Decoder::new(SIZE_INITIAL), &bytes(block)), Err(error), "{block}");
    }
    let mut lowered = Decoder::new(SIZE_INITIAL);
    lowered.set_size_max(0);
    assert_eq!(decode(&mut lowered, &bytes("82")), Err(DecodeError::TableSize), "a change of the size is due");
    let mut obeyed = Decoder::new(SIZE_INITIAL);
    obeyed.set_size_max(0);
    assert_eq!(decode(&mut obeyed, &bytes("20 82")).map(|fields| fields.len()), Ok(1));
}

/// RFC 9113, 8.2.3: nobody but HTTP/2 knows of crumbs.
#[test]
fn crumbs_of_a_cookie_are_joined() {
    let check = |fields: &[(&str, &str)], expected: &[(&str, &str)]| {
        let mut block = Vec::new();
        fields.iter().for_each(|(name, value)| encode_stateless(name.as_bytes(), value.as_bytes(), &mut block));
        // The list is used anew.
        let mut list = FieldList::default();
        for _ in 0..2 {
            Decoder::new(SIZE_INITIAL).decode(&block, &mut list).expect("a block");
            let expected = expected.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            assert!(list.iter().eq(expected), "{fields:?}: {list:?}");
        }
    };
    check(&[("a", "1"), ("cookie", "a=1"), ("b", "2")], &[("a", "1"), ("cookie", "a=1"), ("b", "2")]);
    check(
        &[("cookie", "a=1"), ("b", "2"), ("cookie", "b=2"), ("cookie", "c=3"), ("c", "3")],
        &[("cookie", "a=1; b=2; c=3"), ("b", "2"), ("c", "3")],
    );
    check(&[("cookie", ""), ("cookie", "")], &[("cookie", "; ")]);
    check(&[("set-cookie", "a"), ("set-cookie", "b")], &[("set-cookie", "a"), ("set-cookie", "b")]);
}

/// The charge is that of the lines of HTTP/1, where a cookie is one of them.
#[test]
fn a_head_has_the_same_size_in_both_versions() {
    let check = |fields: &[(&str, &str)], bytes: usize| {
        let mut block = Vec::new();
        fields.iter().for_each(|(name, value)| encode_stateless(name.as_bytes(), value.as_bytes(), &mut block));
        for (charge_max, is_too_large) in [(bytes, false), (bytes - 1, true)] {
            let mut list = FieldList::new(ListBounds { charge_max, fields_max: 3 });
            Decoder::new(SIZE_INITIAL).decode(&block, &mut list).expect("a block");
            assert_eq!(list.is_too_large(), is_too_large, "{fields:?} within {charge_max}");
        }
    };
    check(&[("host", "a"), ("b", "2")], "host: a\r\nb: 2\r\n".len());
    check(&[(":path", "/a")], "/a".len() + 4);
    let crumbs = [("cookie", "a=1"), ("cookie", "b"), ("cookie", ""), ("cookie", "c"), ("cookie", "d")];
    check(&crumbs, "cookie: a=1; b; ; c; d\r\n".len());
    assert_eq!(ListBounds { charge_max: 16384, fields_max: 100 }.list_size_max(), 16384 + 2800);
}

/// A block of 4 KiB that refers to an entry of 4 KiB again and again names 16 MiB of fields.
#[test]
fn a_bomb_takes_no_more_memory_than_the_bounds_say() {
    let mut block = vec![0x40, 0x01, b'a'];
    integer::write(0, 7, 4000, &mut block);
    block.extend_from_slice(&[b'x'; 4000]);
    block.extend_from_slice(&[0xbe; 4096]);
    let bounds = ListBounds::default();
    let mut list = FieldList::new(bounds);
    Decoder::new(SIZE_INITIAL).decode(&block, &mut list).expect("a valid block");
    assert!(list.is_too_large());
    assert!(list.byte_len() <= bounds.charge_max && list.iter().len() <= 4);
    let mut many = FieldList::new(bounds);
    Decoder::new(0).decode(&[0x82; 101], &mut many).expect("a valid block");
    assert!(many.is_too_large() && many.iter().len() == 100);
}

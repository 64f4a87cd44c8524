//! Statements of proxies about clients: PROXY headers, and the fields of requests.

use std::net::{IpAddr, Ipv4Addr};

use thalweg_wire::forwarded::ClientField;
use thalweg_wire::{Bounds, FieldSlots, RequestEvent, RequestReader, proxy_protocol};

/// Most prefixes of an input that are looked at.
const PREFIXES_MAX: usize = 300;

/// The beginning of a connection: what is read of a part of it holds for all of it.
pub fn proxy_header(data: &[u8]) {
    let whole = proxy_protocol::read(data);
    for end in 0..data.len().min(PREFIXES_MAX) {
        match proxy_protocol::read(&data[..end]) {
            Ok(None) => {}
            decided => assert_eq!(decided, whole, "{end} bytes"),
        }
    }
    if let Ok(Some((_, bytes))) = whole {
        assert!(bytes <= data.len() && bytes <= proxy_protocol::PROXY_HEADER_BYTES_MAX);
    }
}

/// The value of a field that a client has written: whatever it is, the address that a trusted
/// proxy writes behind it is the client's.
pub fn forwarded(data: &[u8]) {
    let proxy = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    let client = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    for (field, written) in [
        (ClientField::XForwardedFor, "192.0.2.1, 10.0.0.1"),
        (ClientField::Forwarded, "for=192.0.2.1, for=\"10.0.0.1:80\";by=\"[::1]\""),
    ] {
        let beginning = format!("GET / HTTP/1.1\r\nHost: h\r\n{}: ", field.name());
        let head = [beginning.as_bytes(), data, b", ", written.as_bytes(), b"\r\n\r\n"].concat();
        let mut reader = RequestReader::new(Bounds::requests());
        let mut slots = FieldSlots::new();
        let Ok(progress) = reader.read(&head, &mut slots) else { continue };
        // The data may be the end of the head itself.
        if let Some(RequestEvent::Head(request)) = progress.event
            && progress.consumed == head.len()
            && request.fields.all(field.name()).count() == 1
        {
            let named = field.client(request.fields, |address| address == proxy);
            assert_eq!(named.map(|named| named.address), Some(client), "{}", data.escape_ascii());
        }
    }
}

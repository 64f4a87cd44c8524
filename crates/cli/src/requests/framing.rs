//! Fields of the user that contradict how a request is framed: a server would wait for a body that
//! never comes, or take the rest of one for the next request.

/// Checks that no field says another length, coding or host than the requests have. `body_bytes` is
/// the length of the body, if all requests have the same.
///
/// # Errors
/// The first one that does, and advice.
pub(super) fn ensure_agrees(fields: &[(String, String)], body_bytes: Option<usize>) -> Result<(), String> {
    for (position, (name, value)) in fields.iter().enumerate() {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        let is_second = fields[..position].iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(name));
        if is("Transfer-Encoding") {
            return Err(format!(
                "'{name}: {value}': bodies are sent with their length, and not in a transfer coding; leave the field \
                 out"
            ));
        }
        if is_second && (is("Host") || is("Content-Length")) {
            return Err(format!(
                "'{name}: {value}' is the second {name}, and servers refuse such requests; leave one of them out"
            ));
        }
        if is("Content-Length") && value.parse() != Ok(body_bytes.unwrap_or(usize::MAX)) {
            let has = match body_bytes {
                None => "each request has a length of its own".to_owned(),
                Some(0) => "the requests have no body".to_owned(),
                Some(bytes) => format!("the body has {bytes} bytes"),
            };
            return Err(format!("'{name}: {value}': {has}; leave the field out, it is made from the body"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server waited for the rest of a body until the run timed out, and the result was about the
    /// server.
    #[test]
    fn a_field_that_contradicts_the_framing_is_refused() {
        let check = |fields: &[(&str, &str)], body_bytes: Option<usize>, part: Option<&str>| {
            let fields: Vec<(String, String)> =
                fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            match (ensure_agrees(&fields, body_bytes), part) {
                (Ok(()), None) => {}
                (Err(message), Some(part)) => assert!(message.contains(part), "{fields:?}: {message}"),
                (found, _) => panic!("{fields:?}: {found:?}"),
            }
        };
        check(&[("Host", "a"), ("Accept", "b"), ("Accept", "c")], Some(0), None);
        check(&[("Host", "a"), ("host", "b")], Some(0), Some("is the second host"));
        check(&[("content-length", "5")], Some(3), Some("the body has 3 bytes; leave the field out"));
        check(&[("Content-Length", "5")], Some(0), Some("no body"));
        check(&[("Content-Length", "5")], None, Some("a length of its own"));
        check(&[("Content-Length", "-1")], Some(3), Some("3 bytes"));
        check(&[("Content-Length", "3")], Some(3), None);
        check(&[("Content-Length", "3"), ("Content-Length", "3")], Some(3), Some("second"));
        check(&[("Transfer-Encoding", "chunked")], Some(3), Some("transfer coding"));
    }
}

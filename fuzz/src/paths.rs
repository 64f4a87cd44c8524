//! Request targets and what becomes of their paths.

use thalweg_wire::Method;
use thalweg_wire::target::{Target, relative_path};

/// A request target as it is sent.
pub fn target(data: &[u8]) {
    check_path(data);
    for method in [Method::Get, Method::Options, Method::Connect] {
        if let Ok(target) = Target::parse(method, data) {
            assert!(!data.contains(&b'#'));
            if let Some(path) = target.path() {
                assert!(path.starts_with(b"/") && !path.contains(&b'?'));
                check_path(path);
            }
            if let Target::Absolute { authority, .. } | Target::Authority(authority) = target {
                assert!(!authority.is_empty() && !authority.contains(['@', '/', ' ']));
            }
        }
    }
}

fn check_path(path: &[u8]) {
    let mut out = b"left over".to_vec();
    let Ok(shape) = relative_path(path, &mut out) else {
        assert!(out.is_empty(), "a refused path left something");
        return;
    };
    assert!(out.len() < path.len().max(1), "a decoded path cannot grow");
    assert!(!out.contains(&0));
    if out.is_empty() {
        assert!(shape.trailing_slash, "the root is a directory");
        return;
    }
    for name in out.split(|&byte| byte == b'/') {
        assert!(!matches!(name, b"" | b"." | b".."), "a name that is none, or leads elsewhere");
    }
    // The result, encoded again, means the same: nothing is decoded twice.
    let mut encoded: Vec<u8> = Vec::new();
    for name in out.split(|&byte| byte == b'/') {
        encoded.push(b'/');
        encoded.extend(name.iter().flat_map(|byte| format!("%{byte:02X}").into_bytes()));
    }
    let mut again = Vec::new();
    assert!(relative_path(&encoded, &mut again).is_ok_and(|shape| !shape.trailing_slash));
    assert_eq!(out, again);
}

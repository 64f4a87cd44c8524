//! The dynamic share of a load like SPECweb99's: which requests it has, and how many of each kind.
//!
//! They have the popularity of the static ones, since SPECweb99 draws the file first. Each names
//! its file and the file's size in its query, so that the server behind the path needs no tree; see
//! `origin`.

use thalweg_load::{PackError, PackedRequests, RequestList, RequestParts};
use thalweg_trees::TreeFile;
use thalweg_wire::Version;

use super::requests::{base_path, whole};
use super::settings::{SuiteError, SuiteSettings};
use crate::target::Target;

/// A kind of dynamic requests.
struct DynamicKind {
    /// The last segment of its path.
    name: &'static str,
    method: &'static str,
    /// Its share of all requests.
    share: f64,
    /// Whether it shows the cookie of a user, for the rotation of advertisements.
    has_cookie: bool,
}

/// SPECweb99's mix of dynamic requests: 30 % of all.
const KINDS: [DynamicKind; 4] = [
    DynamicKind { name: "get", method: "GET", share: 0.1245, has_cookie: false },
    DynamicKind { name: "ad", method: "GET", share: 0.126, has_cookie: true },
    DynamicKind { name: "cgi", method: "GET", share: 0.0015, has_cookie: false },
    DynamicKind { name: "post", method: "POST", share: 0.048, has_cookie: true },
];

/// The cookie of a user: a number, and the advertisement that was shown last.
const COOKIE: (&str, &str) = ("Cookie", "my_cookie=user_id=10001&last_ad=20");

/// Static and dynamic requests by their shares; the dynamic ones go beneath `path`.
///
/// # Errors
/// A path or a field of the settings cannot be written.
pub(super) fn requests(
    files: &[TreeFile],
    path: &str,
    target: &Target,
    version: Version,
    settings: &SuiteSettings,
) -> Result<RequestList, SuiteError> {
    let mut requests = PackedRequests::new(&target.authority, version, &settings.fields, b"");
    let base = base_path(target);
    let cookie = [(COOKIE.0.to_owned(), COOKIE.1.to_owned())];
    let mut weights = Vec::new();
    let mut push = |parts: &RequestParts<'_>, file: &TreeFile, share: f64| {
        weights.push(file.weight * share);
        let added = requests.push(parts, Some(&whole(file.size)), None);
        let refused = |source: PackError| SuiteError::Request { path: parts.target.to_owned(), source };
        added.map(drop).map_err(refused)
    };
    for file in files {
        let target = format!("{base}{}", file.path);
        push(&RequestParts { method: "GET", target: &target, fields: &[], body: b"" }, file, static_share())?;
        for kind in &KINDS {
            let target = format!("{}/{}?file={}&bytes={}", path.trim_end_matches('/'), kind.name, file.path, file.size);
            let body = format!("urlroot={base}&file={}&client=10001", file.path);
            let fields = if kind.has_cookie { &cookie[..] } else { &[] };
            let body = if kind.method == "POST" { body.as_bytes() } else { b"" };
            push(&RequestParts { method: kind.method, target: &target, fields, body }, file, kind.share)?;
        }
    }
    let list = RequestList::from(requests.finish(None));
    Ok(list.weighted(weights).expect("the weights of a tree are shares"))
}

/// The share of static requests.
fn static_share() -> f64 {
    1.0 - KINDS.iter().map(|kind| kind.share).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_specweb99() {
        assert!((static_share() - 0.7).abs() < 1e-12);
        let of = |name: &str| KINDS.iter().find(|kind| kind.name == name).unwrap().share;
        assert_eq!([of("get"), of("ad"), of("cgi"), of("post")], [0.1245, 0.126, 0.0015, 0.048]);
    }

    #[test]
    fn each_file_has_a_request_of_each_kind() {
        let tree = thalweg_trees::TreeSettings { seed: 1, load: Some(1.0), ..Default::default() };
        let tree = thalweg_trees::Tree::new(thalweg_trees::TreeName::SpecWeb99, &tree).unwrap();
        let target = Target::resolve("http://127.0.0.1:81/tree", None).unwrap();
        let settings = SuiteSettings::new(vec![0]);
        let list = requests(tree.files(), "/dynamic", &target, Version::Http11, &settings).unwrap();
        assert_eq!(list.len(), tree.files().len() * (1 + KINDS.len()));
    }
}

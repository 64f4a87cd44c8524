//! One page of a bucket's listing (ListObjectsV2).

use std::time::SystemTime;

use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Url;

use super::xml;
use crate::listing::Entry;

/// A page.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Page {
    pub(super) entries: Vec<Entry>,
    /// The folder exists: something has its prefix, be it an empty object of its name.
    pub(super) is_there: bool,
    /// The token of the next page.
    pub(super) next: Option<String>,
}

#[derive(Default)]
struct Object {
    key: String,
    size: Option<u64>,
    modified: Option<SystemTime>,
    etag: Option<Vec<u8>>,
}

/// Reads the page of a prefix that was asked for with `token`.
pub(super) fn read(bytes: &[u8], prefix: &str, token: Option<&str>) -> Result<Page, String> {
    let (mut objects, mut prefixes) = (Vec::new(), Vec::new());
    let (mut object, mut next, mut is_truncated, mut is_encoded) = (Object::default(), None, None, false);
    let mut is_listing = false;
    xml::visit(bytes, |path, text| match path {
        ["ListBucketResult"] => is_listing = true,
        ["ListBucketResult", "EncodingType"] => is_encoded = text.trim() == "url",
        ["ListBucketResult", "IsTruncated"] => is_truncated = Some(text.trim() == "true"),
        ["ListBucketResult", "NextContinuationToken"] => next = Some(text.to_owned()),
        ["ListBucketResult", "CommonPrefixes", "Prefix"] => prefixes.push(text.to_owned()),
        ["ListBucketResult", "Contents"] => objects.push(std::mem::take(&mut object)),
        ["ListBucketResult", "Contents", "Key"] => object.key = text.to_owned(),
        ["ListBucketResult", "Contents", "Size"] => object.size = text.trim().parse().ok(),
        ["ListBucketResult", "Contents", "ETag"] => object.etag = Some(quoted(text.trim())),
        ["ListBucketResult", "Contents", "LastModified"] => {
            object.modified = text.trim().parse::<Timestamp>().ok().map(SystemTime::from);
        }
        _ => {}
    })?;
    if !is_listing {
        return Err("it is no ListBucketResult".into());
    }
    let next = next.filter(|next| is_truncated != Some(false) && !next.is_empty());
    if is_truncated == Some(true) && next.is_none() {
        return Err("it is truncated, and has no token for the rest".into());
    }
    if next.is_some() && next.as_deref() == token {
        return Err("its continuation is the page itself".into());
    }
    let decoded = |text: &str| if is_encoded { decoded(text) } else { text.to_owned() };
    let is_there = !objects.is_empty() || !prefixes.is_empty();
    let files = objects.into_iter().filter_map(|object| {
        let key = decoded(&object.key);
        let name = key.strip_prefix(prefix).filter(|name| is_name(name))?;
        let Object { size, modified, etag, .. } = object;
        Some(Entry { name: name.into(), is_folder: false, size, modified, etag })
    });
    let folders = prefixes.iter().filter_map(|folder| {
        let key = decoded(folder);
        let name = key.strip_prefix(prefix)?.strip_suffix('/').filter(|name| is_name(name))?;
        Some(Entry { name: name.into(), is_folder: true, size: None, modified: None, etag: None })
    });
    Ok(Page { entries: files.chain(folders).collect(), is_there, next })
}

/// Whether a path could lead to an entry of that name.
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

/// An entity tag with its quotes, which some servers leave out.
fn quoted(etag: &str) -> Vec<u8> {
    if etag.starts_with('"') || etag.starts_with("W/") { etag.into() } else { format!("\"{etag}\"").into() }
}

/// Decodes a key as forms are encoded: some servers write a space as `+`, and all a plus as `%2B`.
fn decoded(text: &str) -> String {
    let spaces = text.replace('+', " ");
    match percent_decode_str(&spaces).decode_utf8() {
        Ok(decoded) => decoded.into_owned(),
        Err(_) => text.to_owned(),
    }
}

/// RFC 3986, 2.3: all but the unreserved characters.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A URL with a query, for anonymous requests.
pub(super) fn with_query(url: &Url, query: &[(&str, &str)]) -> Url {
    let mut url = url.clone();
    let pair = |(name, value): &(&str, &str)| format!("{name}={}", utf8_percent_encode(value, ENCODED));
    let query: Vec<_> = query.iter().map(pair).collect();
    url.set_query((!query.is_empty()).then(|| query.join("&")).as_deref());
    url
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn page(inner: &str) -> String {
        format!("<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{inner}</ListBucketResult>")
    }

    #[test]
    fn a_page_has_files_and_folders() {
        let text = page(
            "<IsTruncated>true</IsTruncated><NextContinuationToken>t&amp;2</NextContinuationToken>\
             <EncodingType>url</EncodingType>\
             <Contents><Key>a/</Key><Size>0</Size></Contents>\
             <Contents><Key>a/one+two%2Bthree</Key><LastModified>1994-11-06T08:49:37.000Z</LastModified>\
             <ETag>&quot;abc&quot;</ETag><Size>12</Size><Owner><ID>x</ID></Owner></Contents>\
             <Contents><Key>a/plain</Key><ETag>def</ETag></Contents>\
             <CommonPrefixes><Prefix>a/sub/</Prefix></CommonPrefixes>\
             <CommonPrefixes><Prefix>a//</Prefix></CommonPrefixes><CommonPrefixes><Prefix>a/../</Prefix></CommonPrefixes>",
        );
        let page = read(text.as_bytes(), "a/", None).unwrap();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let file = Entry {
            name: b"plain".into(),
            is_folder: false,
            size: None,
            modified: None,
            etag: Some(b"\"def\"".into()),
        };
        let expected = [
            Entry {
                name: b"one two+three".into(),
                size: Some(12),
                modified: Some(modified),
                etag: Some(b"\"abc\"".into()),
                ..file.clone()
            },
            file.clone(),
            Entry { name: b"sub".into(), is_folder: true, etag: None, ..file },
        ];
        assert_eq!(page.entries, expected);
        assert_eq!((page.is_there, page.next.as_deref()), (true, Some("t&2")));
    }

    #[test]
    fn pages_that_would_not_end_are_refused() {
        let check = |text: &str, token: Option<&str>, expected: Result<Option<&str>, &str>| {
            let outcome = read(text.as_bytes(), "", token).map(|page| page.next);
            match (&outcome, expected) {
                (Ok(next), Ok(expected)) => assert_eq!(next.as_deref(), expected, "{text}"),
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
                _ => panic!("{text}: {outcome:?}"),
            }
        };
        let token = "<NextContinuationToken>t</NextContinuationToken>";
        check(&page(""), None, Ok(None));
        check(&page(&format!("{token}<IsTruncated>false</IsTruncated>")), None, Ok(None));
        check(&page(&format!("{token}<IsTruncated>true</IsTruncated>")), None, Ok(Some("t")));
        check(&page(&format!("{token}<IsTruncated>true</IsTruncated>")), Some("t"), Err("the page itself"));
        check(&page("<IsTruncated>true</IsTruncated>"), None, Err("no token"));
        check("<html></html>", None, Err("no ListBucketResult"));
    }

    #[test]
    fn an_anonymous_query_is_encoded() {
        let url = Url::parse("http://a/b/").unwrap();
        assert_eq!(
            with_query(&url, &[("delimiter", "/"), ("prefix", "a b+")]).as_str(),
            "http://a/b/?delimiter=%2F&prefix=a%20b%2B"
        );
        assert_eq!(with_query(&url, &[]).as_str(), "http://a/b/");
    }
}

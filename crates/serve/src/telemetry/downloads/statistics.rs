//! Statistics of the stream of records: which files were downloaded, and how many different ones.

use std::collections::BTreeMap;

use thalweg_wire::Method;
use thalweg_wire::target::{Target, relative_path};

use super::popular::{Popular, Popularity};
use super::unique::Unique;
use crate::telemetry::record::Record;

/// Of one day.
#[derive(Debug, Default)]
pub(crate) struct DownloadStatistics {
    /// The files that were downloaded, by the number of their mount.
    pub(crate) unique: BTreeMap<u16, Unique>,
    /// The most popular, by their name with the number of their mount behind it: files of several
    /// sites may have the same name.
    popular: Popular,
    /// Room for a name.
    name: Vec<u8>,
}

impl DownloadStatistics {
    /// Looks at a page of records.
    pub(crate) fn add_records(&mut self, mut records: &[u8]) {
        while let Some(record) = Record::take(&mut records) {
            if record.end.is_download {
                self.count(&record);
            }
        }
    }

    /// Counts a download under the name that all spellings of a file share.
    fn count(&mut self, record: &Record<'_>) {
        let Some(request) = record.request else { return };
        let (Ok(Target::Origin { path, .. }) | Ok(Target::Absolute { path, .. })) =
            Target::parse(Method::Get, request.target)
        else {
            return;
        };
        let Ok(shape) = relative_path(path, &mut self.name) else { return };
        self.name.insert(0, b'/');
        if shape.trailing_slash && self.name.len() > 1 {
            self.name.push(b'/');
        }
        self.unique.entry(record.mount).or_default().insert(&self.name);
        self.name.extend_from_slice(&record.mount.to_be_bytes());
        self.popular.add(&self.name, record.end.body_bytes);
    }

    /// The first so many of the most popular files: mount, name and popularity.
    pub(crate) fn top_files(&self, count: usize) -> Vec<(u16, &[u8], Popularity)> {
        let files = self.popular.top(count).into_iter();
        let files = files.filter_map(|(key, popularity)| {
            let (name, mount) = key.split_last_chunk()?;
            Some((u16::from_be_bytes(*mount), name, popularity))
        });
        files.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::record::{End, Request, client_of};

    #[test]
    fn spellings_of_a_file_are_one_file_and_only_downloads_count() {
        let mut page = Vec::new();
        let targets = ["/a.iso", "//a.iso?x", "/b/../a.iso", "http://h/%61.iso", "/a%2", "/pub/", "/", "*"];
        for (target, is_download) in targets.into_iter().map(|target| (target, true)).chain([("/other", false)]) {
            let request = Request {
                method: b"GET",
                target: target.as_bytes(),
                version: thalweg_wire::Version::Http11,
                host: None,
                referer: None,
                agent: None,
            };
            let end = End { body_bytes: 10, is_download, is_complete: true, duration_us: 1 };
            let record = Record {
                client: client_of(None),
                second: 1,
                request: Some(request),
                tls: None,
                certificate: None,
                status: 200,
                mount: 4,
                end,
            };
            record.write(&mut page);
        }
        let mut statistics = DownloadStatistics::default();
        statistics.add_records(&page);
        assert_eq!(statistics.unique[&4].estimate(), 3);
        let top: Vec<_> =
            statistics.top_files(9).into_iter().map(|(_, name, it)| (name, it.downloads, it.bytes)).collect();
        assert_eq!(top, [(&b"/a.iso"[..], 4, 40), (b"/", 1, 10), (b"/pub/", 1, 10)]);
    }
}

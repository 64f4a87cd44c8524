//! The figures as metrics, in the two formats that Prometheus reads: its own text format 0.0.4 and
//! OpenMetrics 1.0.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::document::{CertificateFigures, State, Status, TlsFigures};
use super::families::Out;
use super::tier_metrics;

/// A format of metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// Prometheus' text format 0.0.4, which every reader of metrics knows.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format for a request with these Accept fields (RFC 9110, 12.5.1): OpenMetrics for
    /// clients that name it with at least the weight of text, text for all others.
    pub(super) fn for_accept<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Self {
        let (mut text, mut any_text, mut open) = (None, 0.0_f32, 0.0_f32);
        for range in fields.flat_map(|value| value.split(|&byte| byte == b',')) {
            let Ok(range) = str::from_utf8(range) else { continue };
            let mut parts = range.split(';').map(|part| part.trim_matches([' ', '\t']));
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut quality, mut version) = (1.0_f32, None);
            for (key, value) in parts.filter_map(|part| part.split_once('=')) {
                match key.to_ascii_lowercase().as_str() {
                    "q" => quality = value.parse().ok().filter(|quality| (0.0..=1.0).contains(quality)).unwrap_or(0.0),
                    "version" => version = Some(value.trim_matches('"')),
                    _ => {}
                }
            }
            match (name.as_str(), version) {
                ("application/openmetrics-text", None | Some("1.0.0")) => open = open.max(quality),
                ("text/plain", None | Some("0.0.4")) => text = Some(quality.max(text.unwrap_or_default())),
                ("text/*" | "*/*", _) => any_text = any_text.max(quality),
                _ => {}
            }
        }
        if open > 0.0 && open >= text.unwrap_or(any_text) { Self::OpenMetrics } else { Self::Text }
    }

    /// The media type of the format.
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The metrics.
pub(super) fn metrics(status: Status, format: Format) -> String {
    let mut registry = Registry::with_prefix("thalweg");
    registry.register_collector(Box::new(Figures(status)));
    let mut text = String::new();
    text::encode(&mut text, &registry).expect("a string takes everything");
    match format {
        Format::OpenMetrics => text,
        Format::Text => to_text_format(&text),
    }
}

/// Writes OpenMetrics as the text format 0.0.4 has it. Samples are the same in both. A family is
/// called as its samples are, so that the suffix of counters and of the version belongs to its
/// name; units and the end are not marked; the version is a gauge, since there is no other kind for
/// it; quotes are not escaped in explanations.
fn to_text_format(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = "";
    for line in open_metrics.lines() {
        let mut comment = line.strip_prefix("# ").unwrap_or_default().splitn(3, ' ');
        match (comment.next(), comment.next(), comment.next()) {
            (Some("HELP"), Some(_), Some(says)) => help = says,
            (Some("TYPE"), Some(family), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    _ => ("", kind),
                };
                let help = help.replace("\\\"", "\"");
                text.push_str(&format!("# HELP {family}{suffix} {help}\n# TYPE {family}{suffix} {kind}\n"));
            }
            (Some("UNIT" | "EOF"), ..) => {}
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[derive(Debug)]
struct Figures(Status);

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(status) = self;
        let out = &mut Out(&mut encoder);
        let build = [("version", status.version)];
        let mut family = out.0.encode_descriptor("build", "The server's version", None, MetricType::Info)?;
        family.encode_info(&build)?;
        out.gauge("uptime", "Time since the start", Some(Unit::Seconds), status.uptime_s as u64)?;
        let draining = u64::from(status.state == State::Draining);
        out.gauge("draining", "1 while no new connections are accepted", None, draining)?;
        out.gauge("connections_open", "Connections open now", None, status.now.connections)?;
        out.counter("connections", "Connections accepted", None, status.total.connections)?;
        let turned_away = status.total.turned_away;
        out.counter(
            "connections_turned_away",
            "Connections refused because no connection slot was free",
            None,
            turned_away,
        )?;
        let denied = status.total.connections_denied;
        out.counter("connections_denied", "Connections closed because of their client's network", None, denied)?;
        let help =
            "Requests that were not answered: denied by their client's network (403), or too many of one client (429)";
        let refused = [
            ([("reason", "network")], status.total.requests_denied),
            ([("reason", "rate")], status.total.requests_limited),
        ];
        out.counters("requests_refused", help, None, refused)?;
        out.counter("connections_shed", "Idle connections closed to free a connection slot", None, status.total.shed)?;
        let help = "Responses that were reset because their file changed while it was sent";
        out.counter("files_changed_while_sent", help, None, status.total.files_changed_while_sent)?;
        out.counter("http2_requests", "Requests that came by HTTP/2", None, status.total.requests_http2)?;
        let responses = &status.total.responses;
        out.counters(
            "responses",
            "Final responses by status class",
            None,
            [
                ([("class", "2xx")], responses.ok),
                ([("class", "3xx")], responses.moved),
                ([("class", "4xx")], responses.refused),
                ([("class", "5xx")], responses.failed),
            ],
        )?;
        if let Some(tls) = &status.tls {
            encode_tls(out, tls)?;
        }
        if let Some(certificate) = &status.certificate {
            encode_certificate(out, certificate)?;
        }
        let log = &status.log;
        out.counters(
            "access_log_lines",
            "Lines of the access log: written, or lost because the file could not be written",
            None,
            [([("outcome", "written")], log.lines_written), ([("outcome", "lost")], log.lines_lost)],
        )?;
        let help = "Requests missing in the access log and the statistics because the log thread fell behind";
        out.counter("log_records_dropped", help, None, log.records_dropped)?;
        let watch = &status.watch;
        out.gauge("watched_folders", "Folders that are watched for changes now", None, watch.folders)?;
        out.counter("watch_events", "Changes of folders reported by the kernel", None, watch.events)?;
        let help = "Overflows of the kernel's event queue, after which every file is checked again";
        out.counter("watch_overflows", help, None, watch.overflows)?;
        out.counter("watch_refusals", "Folders that the kernel refused to watch", None, watch.refused)?;
        if let Some(tier) = &status.disk_cache {
            tier_metrics::encode(tier, out)?;
        }
        self.encode_loops(out)?;
        self.encode_mounts(out)
    }
}

fn encode_tls(out: &mut Out<'_, '_>, tls: &TlsFigures) -> fmt::Result {
    let versions = [([("version", "TLSv1.2")], tls.handshakes.tls12), ([("version", "TLSv1.3")], tls.handshakes.tls13)];
    out.counters("tls_handshakes", "TLS handshakes completed, by version", None, versions)?;
    out.counter("tls_handshakes_resumed", "TLS handshakes that resumed a session", None, tls.resumed)?;
    out.counter("tls_handshakes_failed", "TLS handshakes that failed", None, tls.failed)?;
    let help = "TLS handshakes ended because too many were in progress";
    out.counter("tls_handshakes_shed", help, None, tls.shed)
}

fn encode_certificate(out: &mut Out<'_, '_>, certificate: &CertificateFigures) -> fmt::Result {
    if let Some(second) = certificate.expires_second.and_then(|second| u64::try_from(second).ok()) {
        let help = "End of the validity of the certificate that was obtained by ACME, since 1970-01-01 UTC";
        out.gauge("certificate_expiry_timestamp_seconds", help, None, second)?;
    }
    let help = "Whether the last attempt to obtain a certificate by ACME has failed";
    out.gauge("certificate_failing", help, None, u64::from(certificate.failure.is_some()))
}

impl Figures {
    fn encode_loops(&self, out: &mut Out<'_, '_>) -> fmt::Result {
        let names: Vec<String> = self.0.loops.iter().map(|one| one.loop_index.to_string()).collect();
        let of = |value: fn(&super::document::LoopStatus) -> u64| {
            names.iter().zip(&self.0.loops).map(move |(name, one)| ([("core", name.as_str())], value(one)))
        };
        out.counters("core_requests", "Requests by loop", None, of(|one| one.requests))?;
        out.counters("core_sent", "Bytes of responses by loop", Some(Unit::Bytes), of(|one| one.bytes))?;
        out.gauges("core_connections_open", "Connections open now by loop", None, of(|one| one.connections))?;
        let help = "Look-ups that opened a file, or checked it again because of its age or a change";
        out.counters("cache_misses", help, None, of(|one| one.cache_misses))?;
        out.gauges("cache_entries", "Cached files by loop", None, of(|one| one.cache_entries))?;
        out.gauges(
            "cache_size",
            "Bytes of heads and small files in memory by loop",
            Some(Unit::Bytes),
            of(|one| one.cache_bytes),
        )
    }

    fn encode_mounts(&self, out: &mut Out<'_, '_>) -> fmt::Result {
        let of = |value: fn(&super::document::Mount) -> u64| {
            self.0.mounts.iter().map(move |mount| ([("mount", &*mount.mount)], value(mount)))
        };
        out.counters("requests", "Requests by mount", None, of(|mount| mount.requests))?;
        out.counters("sent", "Bytes of responses by mount", Some(Unit::Bytes), of(|mount| mount.bytes))?;
        out.counters("downloads", "Complete downloads by mount", None, of(|mount| mount.downloads))?;
        out.gauges("downloads_under_way", "Downloads in progress by mount", None, of(|mount| mount.downloads_now))?;
        let help = "Distinct files downloaded today (UTC) by mount, within 2 %";
        out.gauges("unique_files_today", help, None, of(|mount| mount.today.unique_files))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use thalweg_tier::Counts;

    use super::*;
    use crate::config::{ServerConfig, SiteConfig};
    use crate::content::tier_figures::{
        OriginFigures, OriginState, TierFigures, TierMount, VolumeFigures, VolumeState,
    };
    use crate::telemetry::metrics::collector::tests::collector;

    /// Checks the text as strictly as promtool does where it matters here, and gives name and
    /// labels their value.
    fn parse(text: &str) -> BTreeMap<String, f64> {
        let mut samples = BTreeMap::new();
        let (mut types, mut helps) = (BTreeMap::new(), BTreeSet::new());
        let body = text.strip_suffix("# EOF\n").expect("the end is marked");
        for line in body.lines() {
            let is_name =
                |name: &str| !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
            if let Some(comment) = line.strip_prefix("# ") {
                let [keyword, name, rest] = comment.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
                assert!(is_name(name), "{line}");
                match keyword {
                    "TYPE" => assert_eq!(types.insert(name, rest), None, "{line}: twice"),
                    "HELP" => assert!(helps.insert(name), "{line}: twice"),
                    "UNIT" => assert!(name.ends_with(rest), "{line}"),
                    _ => panic!("{line}"),
                }
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            assert!(is_name(name) && name.starts_with("thalweg_"), "{line}");
            assert!(labels.ends_with('}'), "{line}");
            let family = ["_total", "_info"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
            let kind = types[family];
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(helps.contains(family), "{line}");
            assert_eq!(samples.insert(series.to_owned(), value.parse().unwrap()), None, "{line}: twice");
        }
        samples
    }

    /// Checks the text format 0.0.4: each family with its HELP and TYPE before its samples, all of
    /// it together, and named as they are.
    fn parse_text(text: &str) -> BTreeMap<String, f64> {
        let mut samples = BTreeMap::new();
        let mut families = BTreeSet::new();
        let mut lines = text.strip_suffix('\n').expect("the last line ends").lines().peekable();
        while let Some(line) = lines.next() {
            let (family, help) = line.strip_prefix("# HELP ").expect(line).split_once(' ').expect(line);
            assert!(families.insert(family) && !help.is_empty(), "{line}");
            let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {family} ")).expect(line);
            assert!(matches!(kind, "counter" | "gauge"), "{line}: {kind}");
            assert_eq!(kind == "counter", family.ends_with("_total"), "{line}");
            while let Some(sample) = lines.next_if(|line| !line.starts_with('#')) {
                let (series, value) = sample.rsplit_once(' ').expect(sample);
                assert_eq!(series.split('{').next(), Some(family), "{sample}");
                assert_eq!(samples.insert(series.to_owned(), value.parse().unwrap()), None, "{sample}: twice");
            }
        }
        samples
    }

    fn tier() -> TierFigures {
        let mount = "odd\"/".to_owned();
        let counts = Counts { held_hits: 7, served_bytes: 9, ..Counts::default() };
        let origin = OriginFigures {
            mount: mount.clone(),
            origin: "o".to_owned(),
            state: OriginState::Down,
            requests: 1,
            responses: 2,
            failures: vec![("refused".to_owned(), 3)],
            bytes: 4,
            connections: 5,
            connections_idle: 6,
            connections_opened: 7,
            requests_under_way: 8,
            requests_waiting: 9,
        };
        let volume = VolumeFigures {
            volume: "/a".to_owned(),
            state: VolumeState::Lost,
            reason: None,
            size_bytes: 10,
            filled_bytes: 9,
            damaged: 8,
            unwritten: 7,
            failures: 6,
            oldest_s: Some(77),
        };
        TierFigures {
            total: counts.into(),
            mounts: vec![TierMount { mount, shares: counts.into() }],
            origins: vec![origin],
            volumes: vec![volume],
            cycle_s: None,
        }
    }

    #[test]
    fn openmetrics_is_for_those_who_ask_for_it() {
        #[track_caller]
        fn check(accept: &[&str], expected: Format) {
            assert_eq!(Format::for_accept(accept.iter().map(|value| value.as_bytes())), expected, "{accept:?}");
        }
        check(&[], Format::Text);
        check(&["*/*"], Format::Text);
        check(&["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"], Format::Text);
        check(&["application/openmetrics-text"], Format::OpenMetrics);
        check(&["Application/OpenMetrics-Text; Version=\"1.0.0\" , text/plain;q=0.5"], Format::OpenMetrics);
        check(&["text/plain", "application/openmetrics-text;q=0.5"], Format::Text);
        check(&["application/openmetrics-text;q=0.2,*/*;q=0.1"], Format::OpenMetrics);
        check(&["application/openmetrics-text;q=0"], Format::Text);
        check(&["application/openmetrics-text;version=0.0.1"], Format::Text);
        check(&["application/openmetrics-text;q=x", "\u{e9}"], Format::Text);
        // As Prometheus 2.50 and 3.0 send it.
        check(
            &["application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
               text/plain;version=0.0.4;q=0.3,*/*;q=0.2"],
            Format::OpenMetrics,
        );
        check(
            &["application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=1.0.0;\
               escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"],
            Format::OpenMetrics,
        );
    }

    #[test]
    fn all_figures_are_there_once_and_in_the_format() {
        let (mut collector, registry, _) = collector();
        let mut config = ServerConfig::new("/srv", Vec::<std::net::SocketAddr>::new());
        config.sites.push(SiteConfig { names: vec!["odd\"\\\nname".to_owned()], ..SiteConfig::new("/b") });
        registry.adopt(&config);
        collector.advance(thalweg_sys::Instant::from_ns(1), 1_000_000);
        let mut status = collector.status(1_000_007);
        status.total.responses.refused = 12;
        status.total.requests_limited = 5;
        status.total.requests_denied = 6;
        status.total.connections_denied = 8;
        status.mounts[0].bytes = u64::MAX;
        status.loops[1].cache_misses = 3;
        status.total.files_changed_while_sent = 2;
        status.watch.folders = 17;
        status.watch.refused = 4;
        status.disk_cache = Some(tier());
        let text = parse_text(&metrics(status.clone(), Format::Text));
        let samples = parse(&metrics(status, Format::OpenMetrics));
        assert_eq!(text, samples, "both formats say the same");
        for (series, value) in [
            (concat!("thalweg_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}"), 1.0),
            ("thalweg_uptime_seconds", 7.0),
            ("thalweg_responses_total{class=\"4xx\"}", 12.0),
            ("thalweg_requests_refused_total{reason=\"rate\"}", 5.0),
            ("thalweg_requests_refused_total{reason=\"network\"}", 6.0),
            ("thalweg_connections_denied_total", 8.0),
            ("thalweg_sent_bytes_total{mount=\"/\"}", u64::MAX as f64),
            ("thalweg_downloads_under_way{mount=\"odd\\\"\\\\\\nname/\"}", 0.0),
            ("thalweg_cache_misses_total{core=\"1\"}", 3.0),
            ("thalweg_files_changed_while_sent_total", 2.0),
            ("thalweg_watched_folders", 17.0),
            ("thalweg_watch_refusals_total", 4.0),
            ("thalweg_disk_cache_requests_total{mount=\"odd\\\"/\",outcome=\"held_hit\"}", 7.0),
            ("thalweg_disk_cache_requests_total{mount=\"odd\\\"/\",outcome=\"failed\"}", 0.0),
            ("thalweg_disk_cache_served_bytes_total{mount=\"odd\\\"/\"}", 9.0),
            ("thalweg_disk_cache_volume_up{volume=\"/a\"}", 0.0),
            ("thalweg_disk_cache_volume_oldest_timestamp_seconds{volume=\"/a\"}", 77.0),
            ("thalweg_origin_up{mount=\"odd\\\"/\",origin=\"o\"}", 0.0),
            ("thalweg_origin_failures_total{mount=\"odd\\\"/\",origin=\"o\",kind=\"refused\"}", 3.0),
        ] {
            assert_eq!(samples.get(series), Some(&value), "{series} in {samples:#?}");
        }
    }
}

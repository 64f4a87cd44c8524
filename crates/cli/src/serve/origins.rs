//! Origins as the settings of a server have them.

use std::path::Path;

use thalweg_origin::{
    Credentials, Keys, Limits, OriginConfig, OriginKind, Prefix, Protocol, Reach, S3Config, Times, Trust,
};
use thalweg_serve::{Forwarding, Network, OriginConfig as OriginSettings, OriginProtocol, without_user};
use thalweg_tier::{HttpOrigin, OriginPlace, RedirectHost, Redirects, RequestFields};
use url::Url;

use super::cluster::OriginFiles;

/// An origin as its settings have it.
pub(super) fn origin_of(settings: &OriginSettings, weight: u32, files: &OriginFiles) -> Result<OriginConfig, String> {
    let kind = match settings {
        OriginSettings { url: Some(base), .. } => OriginKind::Http { base: url(base)? },
        OriginSettings { s3: Some(s3), .. } => OriginKind::S3(S3Config {
            endpoint: url(&s3.endpoint)?,
            bucket: s3.bucket.clone(),
            region: s3.region.clone(),
            prefix: s3.prefix.clone(),
            path_style: !s3.virtual_host,
            credentials: match &s3.credentials {
                None => Credentials::Anonymous,
                Some(path) => Credentials::Fixed(keys_of(path, files.get(path).map_or(&[][..], Vec::as_slice))?),
            },
        }),
        OriginSettings { tree: Some(root), .. } => OriginKind::Tree { root: root.clone() },
        _ => return Err(format!("{:?} has no place", settings.name)),
    };
    let mut origin = OriginConfig::new(&settings.name, kind);
    origin.weight = weight;
    origin.protocol = match settings.protocol {
        OriginProtocol::Auto => Protocol::Auto,
        OriginProtocol::Http1 => Protocol::Http1,
        OriginProtocol::Http2 => Protocol::Http2,
    };
    origin.host.clone_from(&settings.host);
    origin.fields = fields_of(settings, files)?;
    origin.fields_removed = lower(&settings.request_headers.remove);
    origin.fields_passed = settings.request_headers.pass.as_deref().map(lower);
    if let Some(pem) = settings.ca.as_ref().and_then(|path| files.get(path)) {
        origin.trust = Trust::Pem(pem.clone());
    }
    origin.times = times_of(settings);
    origin.limits = limits_of(settings);
    Ok(origin)
}

fn lower(names: &[String]) -> Vec<String> {
    names.iter().map(|name| name.to_ascii_lowercase()).collect()
}

/// The keys in a file: the identifier, the secret, and perhaps the token of a session.
fn keys_of(path: &Path, text: &[u8]) -> Result<Keys, String> {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    match (lines.next(), lines.next()) {
        (Some(key), Some(secret)) => {
            Ok(Keys { key: key.to_owned(), secret: secret.to_owned(), token: lines.next().map(str::to_owned) })
        }
        _ => Err(format!("{} does not have the ID of an access key and its secret, one line each", path.display())),
    }
}

/// The fields that are added to requests.
fn fields_of(settings: &OriginSettings, files: &OriginFiles) -> Result<Vec<(String, String)>, String> {
    let mut fields = settings.request_headers.set.clone();
    for (name, path) in &settings.request_headers.files {
        let text = files.get(path).map_or(&[][..], Vec::as_slice);
        let value = str::from_utf8(text).map(str::trim).ok().filter(|value| !value.is_empty());
        let value = value.filter(|value| !value.contains(char::is_control));
        let refusal = || format!("{} does not have the value of {name} in one line", path.display());
        fields.push((name.clone(), value.ok_or_else(refusal)?.to_owned()));
    }
    let is_set = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let credentials = settings.url_credentials().filter(|_| !is_set);
    fields.extend(credentials.map(|credentials| ("Authorization".to_owned(), credentials)));
    Ok(fields)
}

/// The URL without its user.
fn url(text: &str) -> Result<Url, String> {
    let text = without_user(text);
    Url::parse(&text).map_err(|error| format!("{text:?} is not a URL: {error}"))
}

/// The way in which answers of an HTTP origin are shown at the path of a mount; `None` for others.
pub(super) fn http_of(settings: &OriginSettings, mount: &str) -> Result<Option<HttpOrigin>, String> {
    let Some(base) = settings.url.as_deref().map(url).transpose()? else { return Ok(None) };
    let place = OriginPlace::new(&base, settings.host.as_deref(), mount);
    let redirects = (settings.follow_redirects > 0).then(|| {
        let hosts = settings.redirect_hosts.iter().filter_map(|host| RedirectHost::parse(host)).collect();
        let mut other = OriginConfig::new(format!("{} by a redirect", settings.name), OriginKind::Http { base });
        (other.times, other.limits) = (times_of(settings), limits_of(settings));
        other.reach = Reach::Public(settings.redirect_networks.iter().filter_map(prefix).collect());
        Redirects::new(settings.follow_redirects, hosts, other)
    });
    Ok(Some(HttpOrigin { place, rewrites: settings.rewrite_redirects, redirects }))
}

fn prefix(network: &Network) -> Option<Prefix> {
    match network {
        Network::Prefix(network) => Some(Prefix { address: network.addr(), bits: network.prefix_len() }),
        Network::Unix => None,
    }
}

/// The fields of requests that stand apart. Credentials that no origin gets do not make a response
/// that of their sender.
pub(super) fn request_fields(forwarding: &Forwarding, origins: &[OriginSettings]) -> RequestFields {
    let boxed = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect::<Vec<Box<str>>>();
    let mut dropped = boxed(&forwarding.drop_headers);
    if !origins.iter().any(OriginSettings::passes_authorization) {
        dropped.push("Authorization".into());
    }
    RequestFields { dropped, key: boxed(&forwarding.key_headers) }
}

fn times_of(settings: &OriginSettings) -> Times {
    let (connect, head, between_bytes) = (settings.connect_time, settings.head_time, settings.idle_time);
    Times { connect, resolve: settings.resolve_time, head, between_bytes, ..Times::default() }
}

fn limits_of(settings: &OriginSettings) -> Limits {
    Limits {
        connections_max: settings.connections_max,
        idle_max: settings.idle_connections_max,
        requests_max: settings.requests_max,
        ..Limits::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_lines_of_a_file() {
        let keys = |text: &str| keys_of(Path::new("/key"), text.as_bytes());
        let read = keys("ID\n\n secret \ntoken\n").unwrap();
        assert_eq!((&*read.key, &*read.secret, read.token.as_deref()), ("ID", "secret", Some("token")));
        assert_eq!(keys("ID\nsecret").unwrap().token, None);
        assert!(keys("ID").unwrap_err().contains("/key does not have"));
    }

    #[test]
    fn fields_come_from_settings_files_and_the_user_of_the_url() {
        let mut settings =
            OriginSettings { url: Some("https://user:password@o.example/a".to_owned()), ..OriginSettings::new("o") };
        let files: OriginFiles =
            [("/auth".into(), b"Bearer secret\n".to_vec()), ("/empty".into(), b" \n".to_vec())].into();
        let origin = origin_of(&settings, 1, &files).unwrap();
        let of_url = ("Authorization".to_owned(), "Basic dXNlcjpwYXNzd29yZA==".to_owned());
        assert_eq!(origin.fields, [of_url]);
        assert!(matches!(&origin.kind, OriginKind::Http { base } if base.as_str() == "https://o.example/a"));
        settings.request_headers.set = vec![("X".to_owned(), "1".to_owned())];
        settings.request_headers.files = vec![("authorization".to_owned(), "/auth".into())];
        let fields = origin_of(&settings, 1, &files).unwrap().fields;
        let shown: Vec<_> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(shown, ["X: 1", "authorization: Bearer secret"]);
        settings.request_headers.files[0].1 = "/empty".into();
        let refusal = origin_of(&settings, 1, &files).unwrap_err();
        assert!(refusal.contains("/empty does not have the value of authorization"), "{refusal}");
    }

    #[test]
    fn credentials_that_no_origin_gets_are_dropped() {
        let origin = |url: &str| OriginSettings { url: Some(url.to_owned()), ..OriginSettings::new("o") };
        let bucket = OriginSettings::new("b");
        let own = origin("https://user@o.example/");
        let forwarding = Forwarding { drop_headers: vec!["Cookie".to_owned()], ..Forwarding::default() };
        let check = |origins: &[OriginSettings], expected: &[&str]| {
            let dropped = request_fields(&forwarding, origins).dropped;
            assert_eq!(dropped.iter().map(|name| &**name).collect::<Vec<_>>(), expected);
        };
        check(&[origin("https://o.example/"), own.clone()], &["Cookie"]);
        check(&[own, bucket], &["Cookie", "Authorization"]);
    }
}

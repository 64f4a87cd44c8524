//! Purging by an operator, over the status listener: which objects a request names, and the answer.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use thalweg_observe::remote::Token;
use thalweg_serve::{ForwardedPlaces, ForwardedTarget, PurgeAnswer, PurgeAnswered, ServerConfig};
use thalweg_tier::{Purge, PurgeKind, Tier};
use url::form_urlencoded;

use crate::exit::Failure;

/// Most things that a request names.
const NAMED_MAX: usize = 1000;

/// The answers to requests to purge.
pub(super) struct Purging {
    token: Token,
    places: ForwardedPlaces,
    /// The names of the mounts with origins in keys of the store, in the order of their numbers.
    names: Vec<String>,
}

/// A request to purge: in JSON, or made of the values of a form.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Order {
    url: Texts,
    prefix: Texts,
    group: Texts,
    mount: Texts,
    soft: bool,
}

/// One text or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Several(Vec<String>),
}

/// A purge, and what it answers of the request.
struct Named {
    purge: Purge,
    /// Such as `url`, and its value.
    by: (&'static str, String),
    mount: String,
}

/// Why a request is not carried out.
#[derive(Debug)]
struct Refusal {
    status: u16,
    why: String,
}

/// The file with the token.
pub(super) fn token_file(config: &ServerConfig) -> Option<&Path> {
    config.status.as_ref()?.purge_token.as_deref()
}

/// The file with the token for reading.
pub(super) fn read_token_file(config: &ServerConfig) -> Option<&Path> {
    config.status.as_ref()?.read_token.as_deref()
}

/// The token in the bytes of a file, which a key of the status listener names.
///
/// # Errors
/// It is no token.
pub(super) fn token_of(path: &Path, key: &str, bytes: &[u8]) -> Result<Token, Failure> {
    let origin = format!("the content of {}, which status.{key} names,", path.display());
    Token::new(&String::from_utf8_lossy(bytes), &origin).map_err(Failure::usage)
}

impl Purging {
    /// That of a configuration, if it names a file with a token, which has these bytes; `names` are
    /// those of its mounts with origins.
    ///
    /// # Errors
    /// The token is none.
    pub(super) fn of(config: &ServerConfig, names: Vec<String>, token: Option<&[u8]>) -> Result<Option<Self>, Failure> {
        let Some(path) = token_file(config) else { return Ok(None) };
        let token = token_of(path, "purge_token", token.unwrap_or_default())?;
        Ok(Some(Self { token, places: ForwardedPlaces::of(config), names }))
    }

    /// Whether the value of a field `Authorization` shows the token.
    pub(super) fn allows(&self, authorization: &[u8]) -> bool {
        self.token.is_shown_by(authorization)
    }

    /// Carries a request out. It is answered when all is purged that it names.
    pub(super) fn carry_out(&self, tier: &Arc<Tier>, content_type: &str, body: &[u8], answered: PurgeAnswered) {
        let (order, named) = match Order::parse(content_type, body).and_then(|order| Ok((self.named(&order)?, order))) {
            Ok((named, order)) => (order, named),
            Err(Refusal { status, why }) => return answered(PurgeAnswer { status, body: error_of(&why) }),
        };
        let kind = if order.soft { PurgeKind::Soft } else { PurgeKind::Hard };
        let purges = named.iter().map(|named| named.purge.clone()).collect();
        tier.purge_all(purges, kind, move |purged| {
            answered(match purged {
                Ok(counts) => PurgeAnswer { status: 200, body: report(order.soft, &named, &counts) },
                Err(error) => PurgeAnswer { status: 503, body: error_of(&error.to_string()) },
            });
        });
    }

    /// The purges that a request comes to.
    fn named(&self, order: &Order) -> Result<Vec<Named>, Refusal> {
        let mut all = Vec::new();
        let mut add = |what: &'static str, by: &str, found: Vec<Named>| {
            if found.is_empty() {
                let why = format!("no mount with origins has the {what} {by:?}");
                return Err(Refusal { status: 404, why });
            }
            all.extend(found);
            Ok(())
        };
        let at = |what: &'static str, by: &str, found: Vec<ForwardedTarget>| -> Vec<Named> {
            let named = found.into_iter().map(|ForwardedTarget { mount, target }| {
                let mount = self.names[mount].clone();
                let name = format!("{}{target}", mount.trim_end_matches('/')).into_boxed_str();
                let purge = if what == "url" { Purge::Name(name) } else { Purge::Prefix(name) };
                Named { purge, by: (what, by.to_owned()), mount }
            });
            named.collect()
        };
        for url in order.url.all() {
            add("url", url, at("url", url, self.places.objects(url)))?;
        }
        for prefix in order.prefix.all() {
            add("prefix", prefix, at("prefix", prefix, self.places.below(prefix)))?;
        }
        let groups = order.group.all();
        if !groups.is_empty() && order.mount.all().is_empty() {
            return Err(Refusal::malformed("a group is one of a mount: name the mount, too"));
        }
        for place in order.mount.all() {
            let mounts: Vec<&String> = self.places.mounts(place).into_iter().map(|index| &self.names[index]).collect();
            let whole = |mount: &&String| {
                let (purge, by) = (Purge::Mount(mount.as_str().into()), ("mount", place.clone()));
                Named { purge, by, mount: (*mount).clone() }
            };
            let of_group = |mount: &&String, group: &String| {
                let purge = Purge::Group { mount: mount.as_str().into(), group: group.as_str().into() };
                Named { purge, by: ("group", group.clone()), mount: (*mount).clone() }
            };
            let found: Vec<Named> = match groups {
                [] => mounts.iter().map(whole).collect(),
                groups => {
                    mounts.iter().flat_map(|mount| groups.iter().map(move |group| of_group(mount, group))).collect()
                }
            };
            add("mount", place, found)?;
        }
        match all.len() {
            0 => Err(Refusal::malformed("nothing is named: expected url, prefix, mount, or group and mount")),
            count if count > NAMED_MAX => Err(Refusal::malformed(format!("more than {NAMED_MAX} things are named"))),
            _ => Ok(all),
        }
    }
}

impl Refusal {
    fn malformed(why: impl Into<String>) -> Self {
        Self { status: 400, why: why.into() }
    }
}

impl Order {
    fn parse(content_type: &str, body: &[u8]) -> Result<Self, Refusal> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match media_type.as_str() {
            "application/json" => serde_json::from_slice(body)
                .map_err(|error| Refusal::malformed(format!("the body is no JSON as it is expected: {error}"))),
            "application/x-www-form-urlencoded" | "" => Self::of_form(body),
            other => {
                let why = format!("the body is {other:?}; expected application/json or a form");
                Err(Refusal { status: 415, why })
            }
        }
    }

    fn of_form(body: &[u8]) -> Result<Self, Refusal> {
        let mut order = Self::default();
        for (name, value) in form_urlencoded::parse(body) {
            let texts = match &*name {
                "url" => &mut order.url,
                "prefix" => &mut order.prefix,
                "group" => &mut order.group,
                "mount" => &mut order.mount,
                "soft" => {
                    order.soft = match &*value {
                        "" | "1" | "true" => true,
                        "0" | "false" => false,
                        _ => return Err(Refusal::malformed(format!("soft is {value:?}; expected true or false"))),
                    };
                    continue;
                }
                _ => {
                    let why = format!("there is no {name:?}; expected url, prefix, group, mount or soft");
                    return Err(Refusal::malformed(why));
                }
            };
            texts.push(value.into_owned());
        }
        Ok(order)
    }
}

impl Default for Texts {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Texts {
    fn all(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Several(texts) => texts,
        }
    }

    fn push(&mut self, text: String) {
        if let Self::Several(texts) = self {
            texts.push(text);
        }
    }
}

/// The answer to a request that was carried out.
fn report(is_soft: bool, named: &[Named], counts: &[u64]) -> String {
    let purged: Vec<Value> = named
        .iter()
        .zip(counts)
        .map(|(Named { purge, by: (what, by), mount }, count)| {
            let mut row = json!({ *what: by, "mount": mount, "purges": count });
            if let Purge::Name(name) | Purge::Prefix(name) = purge {
                row["name"] = json!(name);
            }
            row
        })
        .collect();
    json!({ "schema": "thalweg.purge/1", "soft": is_soft, "purged": purged }).to_string() + "\n"
}

fn error_of(why: &str) -> String {
    json!({ "error": why }).to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use thalweg_serve::{ListenAddr, MountConfig, MountOrigin};

    use super::*;

    fn purging() -> Purging {
        let mut config = ServerConfig::new("", Vec::<ListenAddr>::new());
        config.sites[0].names = vec!["a.example".to_owned()];
        let mut mount = MountConfig::new("/debian/", "");
        mount.forwarding.origins = vec![MountOrigin::new("o")];
        config.sites[0].mounts = vec![mount];
        let token = Token::new("0123456789abcdef", "test").unwrap();
        Purging { token, places: ForwardedPlaces::of(&config), names: vec!["a.example/debian/".to_owned()] }
    }

    fn purges(content_type: &str, body: &str) -> Result<(Vec<Purge>, bool), (u16, String)> {
        let order = Order::parse(content_type, body.as_bytes());
        let named = order.and_then(|order| Ok((purging().named(&order)?, order.soft)));
        named
            .map(|(named, is_soft)| (named.into_iter().map(|named| named.purge).collect(), is_soft))
            .map_err(|Refusal { status, why }| (status, why))
    }

    #[test]
    fn requests_in_json_and_forms_name_the_same() {
        let name = |name: &str| name.to_owned().into_boxed_str();
        let mount = name("a.example/debian/");
        let expected = vec![
            Purge::Name(name("a.example/debian/x?y=1")),
            Purge::Prefix(name("a.example/debian/dists/")),
            Purge::Group { mount: mount.clone(), group: name("g h") },
        ];
        let form = "url=http%3A%2F%2Fa.example%2Fdebian%2Fx%3Fy%3D1&prefix=%2Fdebian%2Fdists%2F&group=g+h&mount=/debian/&soft=1";
        let text = r#"{"url": ["http://a.example/debian/x?y=1"], "prefix": "/debian/dists/", "group": "g h",
                       "mount": "/debian", "soft": true}"#;
        assert_eq!(purges("application/x-www-form-urlencoded", form), Ok((expected.clone(), true)));
        assert_eq!(purges("", form), Ok((expected.clone(), true)));
        assert_eq!(purges("Application/JSON; charset=utf-8", text), Ok((expected, true)));
        assert_eq!(purges("", "mount=a.example/debian/"), Ok((vec![Purge::Mount(mount)], false)));
    }

    #[test]
    fn what_cannot_be_carried_out_is_refused_with_the_reason() {
        let check = |content_type: &str, body: &str, status: u16, part: &str| {
            let (told, why) = purges(content_type, body).expect_err(body);
            assert!(told == status && why.contains(part), "{body}: {told} {why}");
        };
        check("", "", 400, "nothing is named");
        check("", "soft=yes&url=/debian/x", 400, "expected true or false");
        check("", "uri=/x", 400, "there is no \"uri\"");
        check("", "group=g", 400, "name the mount");
        check("", "url=/other/x", 404, "has the url \"/other/x\"");
        check("", "url=http://a.example/x", 404, "no mount with origins");
        check("", "mount=/", 404, "has the mount");
        check("", "prefix=/x&url=/debian/x", 404, "has the prefix");
        check("text/plain", "url=/debian/x", 415, "text/plain");
        check("application/json", "{\"url\": 1}", 400, "no JSON as it is expected");
        check("application/json", "{\"uri\": \"/x\"}", 400, "uri");
        check("", &"url=/debian/x&".repeat(NAMED_MAX + 1), 400, "more than 1000");
    }

    #[test]
    fn a_token_is_long_enough_and_its_file_is_named_if_not() {
        let wrong = token_of(Path::new("/etc/token"), "purge_token", b"short\n").unwrap_err().line();
        assert!(wrong.contains("/etc/token") && wrong.contains("at least 16"), "{wrong}");
        assert!(token_of(Path::new("/etc/token"), "purge_token", b"0123456789abcdef\n").is_ok());
        assert!(purging().allows(b"Bearer 0123456789abcdef") && !purging().allows(b"Bearer 0123456789abcdeX"));
    }
}

//! One order: its authorizations, its certificate.

use std::io;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeHandle, ChallengeStatus, ChallengeType, Identifier,
    NewOrder, Order, OrderStatus,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use crate::authority::Authority;
use crate::challenge::{Challenge, ChallengeKind};
use crate::challenge_certificate::challenge_certificate;
use crate::host::Host;
use crate::problem::{Problem, printable};
use crate::refusal::{detail, refusal};

/// The longest wait for an authority to verify the challenges of an order, and to issue a
/// certificate.
const PATIENCE: Duration = Duration::from_secs(300);

/// The first wait before an order is looked at again, and the longest, unless the authority says
/// otherwise.
const POLL_FIRST: Duration = Duration::from_millis(250);
const POLL_MAX: Duration = Duration::from_secs(10);

/// A new order for these names; it replaces a certificate (RFC 9773, 5) if the authority takes
/// that.
pub(crate) fn new_order(
    authority: &Authority,
    account: &Account,
    names: &[String],
    replaced: Option<CertificateIdentifier<'static>>,
) -> Result<Order, Problem> {
    let names: Vec<_> = names.iter().cloned().map(Identifier::Dns).collect();
    let order = |request: &NewOrder<'_>| authority.call("the order", || pollster::block_on(account.new_order(request)));
    if let Some(replaced) = replaced {
        match order(&NewOrder::new(&names).replaces(replaced)) {
            // That certificate may be replaced already, or have been ordered by another account.
            Err(Problem::Refused { .. } | Problem::Malformed { .. } | Problem::Unavailable { .. }) => {}
            result => return result,
        }
    }
    order(&NewOrder::new(&names))
}

/// A new key in PEM.
pub(crate) fn new_key() -> String {
    KeyPair::generate().expect("the system has randomness").serialize_pem()
}

/// An order that is being carried out.
pub(crate) struct Process<'a> {
    pub(crate) authority: &'a Authority,
    pub(crate) host: &'a mut dyn Host,
    /// The kinds of challenges, the preferred one first.
    pub(crate) kinds: &'a [ChallengeKind],
    pub(crate) order: Order,
}

impl Process<'_> {
    /// Carries it out from wherever it is, to its certificate: the order's URL, and a chain in PEM.
    pub(crate) fn finish(mut self, names: &[String], key_pem: &str) -> Result<(String, String), Problem> {
        if self.status() == OrderStatus::Pending {
            let mut answered = Vec::new();
            let verified = self.verify(&mut answered);
            for challenge in &answered {
                // One that stays answers a question that nobody asks any more.
                let _ = self.host.withdraw(challenge);
            }
            verified?;
        }
        if self.status() == OrderStatus::Ready {
            let request = signing_request(names, key_pem)?;
            let Self { authority, order, .. } = &mut self;
            authority.call("the certificate's request", || pollster::block_on(order.finalize_csr(request.as_ref())))?;
        }
        if matches!(self.status(), OrderStatus::Ready | OrderStatus::Processing) {
            self.wait("the certificate", |status| matches!(status, OrderStatus::Ready | OrderStatus::Processing))?;
        }
        self.ensure_valid()?;
        let Self { authority, order, .. } = &mut self;
        let chain = authority.call("the certificate", || pollster::block_on(order.certificate()))?;
        let url = self.order.url().to_owned();
        match chain {
            Some(chain) => Ok((url, chain)),
            None => Err(Problem::Malformed { url, error: "it has no certificate".into() }),
        }
    }

    fn status(&mut self) -> OrderStatus {
        self.order.state().status
    }

    /// Answers the challenges, and waits until the authority has verified them. Those in `answered`
    /// are to be withdrawn, however this ends.
    fn verify(&mut self, answered: &mut Vec<Challenge>) -> Result<(), Problem> {
        self.fetch_authorizations()?;
        let Self { authority, host, kinds, order } = self;
        let mut authorizations = order.authorizations();
        while let Some(authorization) = pollster::block_on(authorizations.next()) {
            let mut authorization = authority.call_result("the authorization", authorization)?;
            if authorization.status != AuthorizationStatus::Pending {
                continue;
            }
            let name = authorization.identifier().to_string();
            let offered = |kind: &&ChallengeKind| {
                authorization.challenges.iter().any(|challenge| challenge.r#type == type_of(**kind))
            };
            let Some(kind) = kinds.iter().find(offered).copied() else {
                let offered: Vec<_> =
                    authorization.challenges.iter().map(|challenge| type_name(&challenge.r#type)).collect();
                return Err(Problem::NoChallenge { name, offered: printable(&offered.join(", ")) });
            };
            let mut challenge = authorization.challenge(type_of(kind)).expect("it is offered");
            // The token becomes a part of URLs (RFC 8555, 8.3).
            if !challenge.token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
                let (url, error) = (challenge.url.clone(), "the challenge's token is malformed".into());
                return Err(Problem::Malformed { url, error });
            }
            let (answer, taken) = give_answer(*host, &name, kind, &challenge);
            answered.push(answer);
            taken.map_err(|error| Problem::Host { what: "a challenge", error: error.to_string() })?;
            if challenge.status == ChallengeStatus::Pending {
                let ready = authority.call("the challenge", || pollster::block_on(challenge.set_ready()));
                ready.map_err(|problem| match problem {
                    Problem::Refused { detail, .. } => Problem::Challenge { name, kind, detail },
                    problem => problem,
                })?;
            }
        }
        self.wait("the verification", |status| status == OrderStatus::Pending)?;
        self.ensure_valid()
    }

    /// Gets the state of all authorizations, which the order then keeps.
    fn fetch_authorizations(&mut self) -> Result<(), Problem> {
        let Self { authority, order, .. } = self;
        authority.call("the authorizations", || {
            let mut authorizations = order.authorizations();
            while let Some(authorization) = pollster::block_on(authorizations.next()) {
                authorization?;
            }
            Ok(())
        })
    }

    /// Waits while the order's status is one of `waiting`.
    fn wait(&mut self, operation: &'static str, waiting: impl Fn(OrderStatus) -> bool) -> Result<(), Problem> {
        let begun = Instant::now();
        let mut pause = POLL_FIRST;
        loop {
            let Self { authority, order, .. } = self;
            authority.call(operation, || pollster::block_on(order.refresh()).map(drop))?;
            if !waiting(self.status()) {
                return Ok(());
            }
            let suggested = self.authority.retry_after().and_then(|at| at.duration_since(SystemTime::now()).ok());
            let next = suggested.unwrap_or(pause).clamp(POLL_FIRST, POLL_MAX * 3);
            if begun.elapsed() + next > PATIENCE {
                let url = self.order.url().into();
                return Err(Problem::Slow { url, operation, seconds: begun.elapsed().as_secs() });
            }
            thread::sleep(next);
            pause = (pause * 3 / 2).min(POLL_MAX);
        }
    }

    /// The problem of an order that has become invalid.
    fn ensure_valid(&mut self) -> Result<(), Problem> {
        if self.status() != OrderStatus::Invalid {
            return Ok(());
        }
        self.fetch_authorizations()?;
        let Self { authority, order, .. } = self;
        let mut authorizations = order.authorizations();
        while let Some(authorization) = pollster::block_on(authorizations.next()) {
            let authorization = authority.call_result("the authorization", authorization)?;
            let failed = authorization.challenges.iter().find_map(|challenge| {
                let kind = kind_of(&challenge.r#type)?;
                challenge.error.as_ref().map(|error| (kind, detail(error)))
            });
            if let Some((kind, detail)) = failed {
                return Err(Problem::Challenge { name: authorization.identifier().to_string(), kind, detail });
            }
        }
        let url = self.order.url().to_owned();
        Err(match &self.order.state().error {
            Some(error) => refusal(error, "the order", &url, None),
            None => Problem::Malformed { url, error: "the order is invalid, and it does not say why".into() },
        })
    }
}

/// Has the host answer a challenge. Returns what to withdraw, and whether the host has taken it.
fn give_answer(
    host: &mut dyn Host,
    name: &str,
    kind: ChallengeKind,
    challenge: &ChallengeHandle<'_>,
) -> (Challenge, io::Result<()>) {
    let key_authorization = challenge.key_authorization();
    match kind {
        ChallengeKind::Http01 => {
            let taken = host.http_challenge(&challenge.token, key_authorization.as_str());
            (Challenge::Http { token: challenge.token.clone() }, taken)
        }
        ChallengeKind::TlsAlpn01 => {
            let certificate = challenge_certificate(name, key_authorization.digest().as_ref());
            let taken = certificate
                .map_err(io::Error::other)
                .and_then(|(chain, key)| host.alpn_challenge(name, chain.as_bytes(), key.as_bytes()));
            (Challenge::Alpn { name: name.into() }, taken)
        }
    }
}

fn type_of(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
    }
}

fn kind_of(kind: &ChallengeType) -> Option<ChallengeKind> {
    match kind {
        ChallengeType::Http01 => Some(ChallengeKind::Http01),
        ChallengeType::TlsAlpn01 => Some(ChallengeKind::TlsAlpn01),
        _ => None,
    }
}

fn type_name(kind: &ChallengeType) -> &str {
    match kind {
        ChallengeType::Http01 => "http-01",
        ChallengeType::Dns01 => "dns-01",
        ChallengeType::TlsAlpn01 => "tls-alpn-01",
        ChallengeType::DeviceAttest01 => "device-attest-01",
        ChallengeType::Unknown(name) => name,
        _ => "another one",
    }
}

/// A request for a certificate (RFC 2986) with these names and no subject.
fn signing_request(names: &[String], key_pem: &str) -> Result<impl AsRef<[u8]>, Problem> {
    let refused = |error: rcgen::Error| Problem::Settings(format!("a certificate cannot be requested: {error}"));
    let key = KeyPair::from_pem(key_pem).map_err(refused)?;
    let mut params = CertificateParams::new(names).map_err(refused)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(&key).map_err(refused)?.der().to_vec())
}

//! The keys of TLS.

use thalweg_serve::{AcmeChallenge, AcmeConfig, CertificateFiles, ClientCertificateMode, TlsConfig};
use thalweg_tls::{Selection, Version};

use super::form::{BOOL, COUNT, MAYBE_DAYS, MAYBE_PATH, MAYBE_TEXT, MAYBE_TIME, Named, PATH, TEXT, TEXTS, name, names};
use super::listen_form::LISTEN;
use super::visitor::Keys;

pub(super) fn tls<K: Keys>(keys: &mut K, tls: &mut TlsConfig) {
    keys.value(
        "listen",
        "Addresses that speak TLS, besides those of `listen`, which then speak plain HTTP. Without any, all TCP \
         addresses of `listen` speak TLS.",
        &LISTEN.like("[\"0.0.0.0:443\", \"[::]:443\"]"),
        &mut tls.listen,
    );
    keys.value(
        "self_signed",
        "Make a certificate at the start, for the names of all sites and the addresses. No client trusts it.",
        &BOOL,
        &mut tls.self_signed,
    );
    keys.value(
        "auto",
        "Obtain a certificate by ACME, and renew it. A self-signed one stands in until there is one (certificates.md).",
        &BOOL,
        &mut tls.auto,
    );
    keys.value(
        "hosts",
        "Host names of that certificate; the names of all sites if there are none.",
        &TEXTS.like("[\"mirror.example.org\"]"),
        &mut tls.hosts,
    );
    negotiation(keys, &mut tls.selection);
    clients(keys, tls);
    keys.value(
        "handshakes_max",
        "Maximum handshakes in progress on each loop. Beyond it the oldest one ends for a new one.",
        &COUNT,
        &mut tls.handshakes_max,
    );
    keys.value(
        "handshake_time",
        "Maximum time for a handshake; limits.head_time if not set.",
        &MAYBE_TIME.like("\"10s\""),
        &mut tls.handshake_time,
    );
    // A table of its own ends the keys before it.
    keys.table("acme", "How a certificate is obtained by ACME.", &mut tls.acme, acme);
    keys.tables(
        "certificate",
        "A certificate. Clients get the one whose names match the name that they ask for, and the first one \
         otherwise. Several certificates with the same names are for keys of several types.",
        &mut tls.certificates,
        CertificateFiles::default,
        certificate,
    );
}

/// Versions, groups and suites.
fn negotiation<K: Keys>(keys: &mut K, selection: &mut Selection) {
    keys.value("version_min", "Lowest version: \"1.2\" or \"1.3\".", &name("\"1.2\""), &mut selection.version_min);
    keys.value("version_max", "Highest version.", &name("\"1.3\""), &mut selection.version_max);
    keys.value(
        "groups",
        "Groups of the key exchange, the preferred one first; by default X25519MLKEM768, X25519, secp256r1, secp384r1.",
        &TEXTS.like("[\"X25519MLKEM768\", \"X25519\"]"),
        &mut selection.groups,
    );
    keys.value(
        "suites",
        "Cipher suites, the preferred one first; by default all of TLS 1.3, and those of TLS 1.2 with forward \
         secrecy and authenticated encryption.",
        &TEXTS.like("[\"TLS_AES_256_GCM_SHA384\", \"TLS_AES_128_GCM_SHA256\"]"),
        &mut selection.suites,
    );
}

/// Clients: their certificates, their sessions, and those that do not speak TLS.
fn clients<K: Keys>(keys: &mut K, tls: &mut TlsConfig) {
    keys.value(
        "client_certificates",
        "Certificates of clients: \"none\", \"optional\" to verify those that are sent, or \"required\".",
        &name("\"none\""),
        &mut tls.client_certificates,
    );
    keys.value(
        "client_authorities",
        "File with the authorities that issue the certificates of clients.",
        &MAYBE_PATH.like("\"/etc/thalweg/clients.pem\""),
        &mut tls.client_authorities,
    );
    keys.value(
        "tickets",
        "Let clients resume sessions by tickets. Their keys change every 6 hours and are kept over an upgrade.",
        &BOOL,
        &mut tls.tickets,
    );
    keys.value(
        "redirect",
        "Redirect all requests over plain HTTP to the first address that speaks TLS.",
        &BOOL,
        &mut tls.redirect,
    );
    keys.value(
        "hsts_days",
        "Days for which browsers use TLS alone for this host (Strict-Transport-Security).",
        &MAYBE_DAYS,
        &mut tls.hsts,
    );
}

fn acme<K: Keys>(keys: &mut K, acme: &mut AcmeConfig) {
    keys.value(
        "directory",
        "URL of the certification authority's directory; by default that of Let's Encrypt.",
        &TEXT.like("\"https://acme-v02.api.letsencrypt.org/directory\""),
        &mut acme.directory,
    );
    keys.value(
        "contact",
        "Mail address that the authority may write to.",
        &MAYBE_TEXT.like("\"admin@example.org\""),
        &mut acme.contact,
    );
    keys.value(
        "roots",
        "File with the certificates that the directory's own certificate is verified by, for a private authority; by \
         default those that this host trusts.",
        &MAYBE_PATH.like("\"/etc/thalweg/authority.pem\""),
        &mut acme.roots,
    );
    keys.value(
        "challenges",
        "Challenges that the server answers, the preferred one first: \"http-01\" on port 80, \"tls-alpn-01\" on \
         port 443. By default those whose port is listened on.",
        &names("[\"http-01\", \"tls-alpn-01\"]"),
        &mut acme.challenges,
    );
    keys.value(
        "state",
        "Folder for account, key and certificate; by default $STATE_DIRECTORY/acme, /var/lib/thalweg/acme for a \
         server that root starts, or ~/.local/state/thalweg/acme.",
        &MAYBE_PATH.like("\"/var/lib/thalweg/acme\""),
        &mut acme.state,
    );
}

fn certificate<K: Keys>(keys: &mut K, files: &mut CertificateFiles) {
    keys.required(
        "chain",
        "Certificate of the server, followed by those of its issuers.",
        &PATH.like("\"/etc/thalweg/example.org.pem\""),
        &mut files.chain,
    );
    keys.required(
        "key",
        "Its private key, without a passphrase. The user that the server runs as has to be able to read it for a reload.",
        &PATH.like("\"/etc/thalweg/example.org.key\""),
        &mut files.key,
    );
}

impl Named for Version {
    const NAMES: &'static [(&'static str, Self)] = &[("1.2", Self::Tls12), ("1.3", Self::Tls13)];
}

impl Named for ClientCertificateMode {
    const NAMES: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("optional", Self::Optional), ("required", Self::Required)];
}

impl Named for AcmeChallenge {
    const NAMES: &'static [(&'static str, Self)] = &[("http-01", Self::Http01), ("tls-alpn-01", Self::TlsAlpn01)];
}

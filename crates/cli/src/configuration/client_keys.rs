//! The keys that the server, sites, mounts and rules have alike: networks of clients, rates of
//! their requests, redirects and rewrites.

use thalweg_serve::{NetworkLists, RequestLimit, Routing, ServerConfig};

use super::form::{COUNT_32, MAYBE_STATUS, MAYBE_TEXT, NETWORKS, REQUEST_RATE, name};
use super::visitor::Keys;

pub(super) fn networks<K: Keys>(keys: &mut K, networks: &mut NetworkLists) {
    keys.value(
        "allow",
        "Networks of clients to serve, as addresses and prefixes; \"unix\" means Unix sockets. If there are any, \
         clients in no other network are refused. The most specific network of `allow` and `deny` decides.",
        &NETWORKS,
        &mut networks.allow,
    );
    keys.value("deny", "Networks of clients to refuse.", &NETWORKS, &mut networks.deny);
}

pub(super) fn trusted_proxies<K: Keys>(keys: &mut K, server: &mut ServerConfig) {
    keys.value(
        "trusted_proxies",
        "Networks of proxies that are believed when they name the client of a request or of a connection; \"unix\" \
         means Unix sockets. Limits of requests, networks, logs and redirects are then by that client.",
        &NETWORKS.like("[\"10.0.0.0/8\", \"unix\"]"),
        &mut server.trusted_proxies,
    );
    keys.value(
        "client_field",
        "Field in which they name it, \"X-Forwarded-For\" or \"Forwarded\" (RFC 7239). Origins are told of clients in \
         the same field; such fields of others are removed.",
        &name("\"X-Forwarded-For\""),
        &mut server.client_field,
    );
}

pub(super) fn request_limit<K: Keys>(keys: &mut K, limit: &mut RequestLimit) {
    keys.value(
        "requests_per_client",
        "Maximum rate of the requests of one client, such as \"10/s\", \"100/min\" or \"1000/h\"; others get 429.",
        &REQUEST_RATE,
        &mut limit.rate,
    );
    keys.value(
        "requests_burst",
        "Requests that a client may make at once; 0 means those of two seconds, at least 10.",
        &COUNT_32,
        &mut limit.burst,
    );
}

pub(super) fn redirect<K: Keys>(keys: &mut K, routing: &mut Routing) {
    keys.value(
        "redirect",
        "Address to redirect all requests to: a URL, or a path of the site. {path} is the rest of the requested path, \
         {folder} that of its folder, {query} the query with its question mark.",
        &MAYBE_TEXT.like("\"https://new.example.org/{path}{query}\""),
        &mut routing.redirect,
    );
    keys.value(
        "redirect_status",
        "Status of the redirect: 301, 302, 303, 307 or 308; 302 if not set, which clients do not keep.",
        &MAYBE_STATUS,
        &mut routing.redirect_status,
    );
}

pub(super) fn routing<K: Keys>(keys: &mut K, routing: &mut Routing) {
    redirect(keys, routing);
    keys.value(
        "rewrite",
        "Path of the site to serve instead of the requested one, with {path} and {folder} as in `redirect`. In both, \
         {*} is the text that the * of `files` stands for.",
        &MAYBE_TEXT.like("\"/new/{path}\""),
        &mut routing.rewrite,
    );
}

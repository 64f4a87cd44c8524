//! The keys of the status listener.

use thalweg_serve::StatusConfig;

use super::form::{ADDRESS, MAYBE_PATH, TEXTS};
use super::visitor::Keys;

pub(super) fn status<K: Keys>(keys: &mut K, status: &mut StatusConfig) {
    keys.required("listen", "Address to listen on.", &ADDRESS, &mut status.listen);
    keys.value(
        "allowed_hosts",
        "Host names that requests may use, besides localhost, the name of this host and IP addresses. Other \
         names get 421, so that no web page can read the figures through a browser on this host.",
        &TEXTS,
        &mut status.allowed_hosts,
    );
    keys.value(
        "state",
        "File that keeps the daily figures across restarts.",
        &MAYBE_PATH.like("\"/var/lib/thalweg/state\""),
        &mut status.state,
    );
    keys.value(
        "purge_token",
        "File with the token that a client has to show to purge what is cached of origins: at least 16 visible ASCII \
         characters. Without it, nobody can purge over the network.",
        &MAYBE_PATH.like("\"/etc/thalweg/purge-token\""),
        &mut status.purge_token,
    );
    keys.value(
        "read_token",
        "File with the token that a client has to show to list what the disk cache has (`thalweg cache ls --server`): at \
         least 16 visible ASCII characters. The token for purges allows it, too.",
        &MAYBE_PATH.like("\"/etc/thalweg/read-token\""),
        &mut status.read_token,
    );
}

//! The catalog: sites, their mounts and rules, and checking them.

pub(crate) mod access;
pub(crate) mod check;
pub(crate) mod error;
pub(crate) mod forwarding;
mod forwarding_faults;
pub(crate) mod host;
pub(crate) mod networks;
pub(crate) mod places;
pub(crate) mod proxies;
pub(crate) mod routing;
pub(crate) mod rules;
pub(crate) mod site;
mod template;
mod tls_faults;

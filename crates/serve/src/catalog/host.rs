//! Names of hosts, as configurations and requests have them.

/// The key in the table of hosts: without a dot at the end, in lower case, and without the asterisk
/// in front.
pub(crate) fn host_key(name: &str) -> Box<[u8]> {
    let name = name.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(name);
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase().into_bytes().into()
}

/// A host without its port. The colons of an address in brackets belong to it.
pub(crate) fn without_port(host: &[u8]) -> &[u8] {
    let brackets_end = if host.starts_with(b"[") { host.iter().position(|&byte| byte == b']') } else { None };
    let from = brackets_end.unwrap_or(0);
    let colon = host[from..].iter().position(|&byte| byte == b':');
    colon.map_or(host, |colon| &host[..from + colon])
}

//! The forms of addresses to listen on.

use std::path::Path;

use thalweg_serve::ListenAddr;
use toml::de::DeValue;
use toml::{Spanned, Value};

use super::fault::Fault;
use super::form::{BOOL, Form, entries, list, text};
use crate::options::parse_listen;

pub(super) const LISTEN: Form<Vec<ListenAddr>> = Form {
    example: "[\"0.0.0.0:80\", \"[::]:80\"]",
    read: |value, folder| list(value, |value| listen_address(value, folder)),
    write: |addresses| Some(addresses.iter().map(ToString::to_string).collect::<Vec<_>>().into()),
};

/// Addresses to listen on, and those among them whose connections begin with a PROXY header.
pub(super) struct Listening {
    pub(super) addresses: Vec<ListenAddr>,
    pub(super) with_proxy_protocol: Vec<ListenAddr>,
}

/// The same, each a text or a table of it and whether it has PROXY headers.
pub(super) const LISTENING: Form<Listening> = Form {
    example: LISTEN.example,
    read: |value, folder| {
        let listed = list(value, |value| listen_entry(value, folder))?;
        let with_proxy_protocol = listed.iter().filter(|(_, is_proxied)| *is_proxied);
        let with_proxy_protocol = with_proxy_protocol.map(|(address, _)| address.clone()).collect();
        Ok(Listening { with_proxy_protocol, addresses: listed.into_iter().map(|(address, _)| address).collect() })
    },
    write: |listening| {
        let entry = |address: &ListenAddr| match listening.with_proxy_protocol.contains(address) {
            false => Value::from(address.to_string()),
            true => {
                let entries = [("address", address.to_string().into()), ("proxy_protocol", true.into())];
                Value::Table(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }
        };
        Some(listening.addresses.iter().map(entry).collect::<Vec<_>>().into())
    },
};

fn listen_address(value: &Spanned<DeValue<'_>>, folder: &Path) -> Result<ListenAddr, Fault> {
    match parse_listen(text(value)?).map_err(|what| Fault::at(value, what))? {
        ListenAddr::Unix(path) => Ok(ListenAddr::Unix(folder.join(path))),
        tcp @ ListenAddr::Tcp(_) => Ok(tcp),
    }
}

fn listen_entry(value: &Spanned<DeValue<'_>>, folder: &Path) -> Result<(ListenAddr, bool), Fault> {
    if value.get_ref().as_table().is_none() {
        return Ok((listen_address(value, folder)?, false));
    }
    let (mut address, mut is_proxied) = (None, false);
    for (name, entry) in entries(value)? {
        match name.get_ref().as_ref() {
            "address" => address = Some(listen_address(entry, folder)?),
            "proxy_protocol" => is_proxied = (BOOL.read)(entry, folder)?,
            other => {
                return Err(Fault::at(entry, format!("unknown key `{other}`; known keys are address, proxy_protocol")));
            }
        }
    }
    let example = "`address` is missing; expected for example { address = \"0.0.0.0:80\", proxy_protocol = true }";
    Ok((address.ok_or_else(|| Fault::at(value, example))?, is_proxied))
}

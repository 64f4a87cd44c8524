//! The account at the authority, and its file.

use instant_acme::{Account, AccountCredentials, NewAccount};
use serde::{Deserialize, Serialize};

use crate::authority::Authority;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::state::StateDirectory;

pub(crate) const FILE: &str = "account.json";

/// The file of the account.
#[derive(Serialize, Deserialize)]
struct Stored {
    directory: String,
    contact: Vec<String>,
    credentials: AccountCredentials,
}

/// The stored account at the directory of the settings, `None` if there is none. Its contact is
/// brought up to date.
pub(crate) fn stored_account(
    authority: &Authority,
    state: &StateDirectory,
    settings: &Settings,
) -> Result<Option<Account>, Problem> {
    let read = || state.read_value::<Stored>(FILE);
    let Some(stored) = read()?.filter(|stored| stored.directory == settings.directory) else { return Ok(None) };
    let account = pollster::block_on(authority.accounts().from_credentials(stored.credentials));
    let account = authority.call_result("the account", account)?;
    if stored.contact != settings.contact {
        update_contact(authority, &account, settings)?;
        if let Some(stored) = read()? {
            state.write_value(FILE, &Stored { contact: settings.contact.clone(), ..stored })?;
        }
    }
    Ok(Some(account))
}

/// A new account, which is stored. The operator agrees to the terms of service by using the client.
pub(crate) fn new_account(
    authority: &Authority,
    state: &StateDirectory,
    settings: &Settings,
) -> Result<Account, Problem> {
    let contact: Vec<_> = settings.contact.iter().map(String::as_str).collect();
    let request = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
    let (account, credentials) = authority.call("a new account", || {
        pollster::block_on(authority.accounts().create(&request, settings.directory.clone(), None))
    })?;
    let (directory, contact) = (settings.directory.clone(), settings.contact.clone());
    state.write_value(FILE, &Stored { directory, contact, credentials })?;
    Ok(account)
}

/// Removes the file of the account.
pub(crate) fn forget_account(state: &StateDirectory) -> Result<(), Problem> {
    state.remove(FILE)
}

/// Whether the authority still accepts requests of this account. Authorities refuse those of a
/// deactivated one as `unauthorized` (RFC 8555, 7.3.6), which has other causes too.
pub(crate) fn check_account(authority: &Authority, account: &Account, settings: &Settings) -> Result<(), Problem> {
    update_contact(authority, account, settings).map_err(|problem| match problem {
        Problem::Refused { kind, detail, .. } if kind == "unauthorized" => Problem::AccountGone { detail },
        problem => problem,
    })
}

fn update_contact(authority: &Authority, account: &Account, settings: &Settings) -> Result<(), Problem> {
    let contact: Vec<_> = settings.contact.iter().map(String::as_str).collect();
    authority.call("the contact of the account", || pollster::block_on(account.update_contacts(&contact)))
}

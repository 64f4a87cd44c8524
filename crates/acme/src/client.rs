//! The client: which step is due, and what follows from its outcome.

use std::fmt;
use std::mem;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use instant_acme::{Account, CertificateIdentifier, OrderStatus};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::account::{self, check_account, forget_account, new_account, stored_account};
use crate::authority::Authority;
use crate::certificate::{self, StoredCertificate};
use crate::challenge::ChallengeKind;
use crate::failures::Failures;
use crate::host::Host;
use crate::order::{Process, new_key, new_order};
use crate::problem::Problem;
use crate::random::share;
use crate::renewal::{RenewalPlan, Suggestion};
use crate::report::{Reason, Report};
use crate::settings::Settings;
use crate::state::StateDirectory;

const RENEWAL: &str = "renewal.json";
const ORDER: &str = "order.json";
const FAILURES: &str = "failures.json";

/// An ACME client for one certificate, which owns its state directory.
pub struct Client {
    settings: Settings,
    state: StateDirectory,
    authority: Authority,
    certificate: Option<StoredCertificate>,
    plan: Option<RenewalPlan>,
    failures: Option<Failures>,
    /// The host has not taken the certificate yet.
    to_install: bool,
    /// Reports for which there was no host yet.
    unreported: Vec<Report>,
}

/// The file of an order that was begun: with its key, the certificate can still be fetched after
/// the process was killed.
#[derive(Serialize, Deserialize)]
struct BegunOrder {
    directory: String,
    names: Vec<String>,
    url: String,
    key_pem: String,
}

impl Client {
    /// The files of a state directory that have keys.
    #[must_use]
    pub fn secret_files(state: &Path) -> [PathBuf; 3] {
        [account::FILE, certificate::FILE, ORDER].map(|name| state.join(name))
    }

    /// Opens the state directory, which is created if there is none, and locks it for as long as
    /// the client lives. Nothing is sent.
    ///
    /// # Errors
    /// The settings make no sense, another process uses the directory, or it cannot be written.
    pub fn open(settings: Settings) -> Result<Self, Problem> {
        let settings = settings.checked()?;
        let authority = Authority::new(settings.roots.as_deref())?;
        let state = StateDirectory::open(&settings.state)?;
        let mut client = Self {
            settings,
            state,
            authority,
            certificate: None,
            plan: None,
            failures: None,
            to_install: false,
            unreported: Vec::new(),
        };
        client.certificate = client.read_certificate();
        client.failures = client.read(FAILURES).map(Failures::restarted);
        client.plan = client.read(RENEWAL);
        Ok(client)
    }

    /// The certificate that the state directory has, for use from the start on. It may be for other
    /// names than those of the settings, or have expired; then a step orders a new one.
    pub fn stored_certificate(&self) -> Option<&StoredCertificate> {
        self.certificate.as_ref()
    }

    /// Does what is due at `now`, if anything: creates an account, orders or renews a certificate
    /// and has it installed, or asks when the authority suggests to renew. It blocks meanwhile, for
    /// some minutes at most. Failures are reported to the host.
    ///
    /// Returns when to call it next. An earlier call does no harm.
    pub fn step(&mut self, host: &mut dyn Host, now: SystemTime) -> SystemTime {
        self.report_damage(host);
        if let Some(retry) = self.failures.as_ref().and_then(|failures| failures.wait(&self.settings, now)) {
            return retry;
        }
        let attempt = self.attempt(host, now);
        self.report_damage(host);
        attempt.unwrap_or_else(|problem| self.note_failure(host, problem, now))
    }

    fn attempt(&mut self, host: &mut dyn Host, now: SystemTime) -> Result<SystemTime, Problem> {
        self.install(host)?;
        self.ask_if_due(host, now);
        if let Some(reason) = self.reason(now) {
            self.obtain(host, reason, now)?;
        }
        let plan = self.current_plan(now);
        Ok(plan.renewal().min(plan.next_question()))
    }

    /// Why a certificate is to be ordered at `now`; `None` if it is not.
    fn reason(&mut self, now: SystemTime) -> Option<Reason> {
        let Some(certificate) = &self.certificate else { return Some(Reason::First) };
        if certificate.names != self.settings.names || certificate.directory != self.settings.directory {
            return Some(Reason::SettingsChanged);
        }
        (self.current_plan(now).renewal() <= now).then_some(Reason::Due)
    }

    /// The plan of the certificate's renewal. There must be a certificate.
    fn current_plan(&mut self, now: SystemTime) -> &mut RenewalPlan {
        let certificate = self.certificate.as_ref().expect("only a certificate has a plan");
        let plan = self.plan.take().filter(|plan| plan.is_of(certificate));
        self.plan.insert(plan.unwrap_or_else(|| RenewalPlan::new(certificate, now, share())))
    }

    /// Obtains a certificate, stores it, and has it installed.
    fn obtain(&mut self, host: &mut dyn Host, reason: Reason, now: SystemTime) -> Result<(), Problem> {
        let (account, certificate) = match self.order(host, reason, false) {
            Err(Problem::AccountGone { .. }) => {
                forget_account(&self.state)?;
                self.state.remove(ORDER)?;
                self.order(host, reason, true)?
            }
            result => result?,
        };
        self.state.write(certificate::FILE, &certificate.to_file())?;
        self.state.remove(ORDER)?;
        self.state.remove(FAILURES)?;
        self.failures = None;
        self.certificate = Some(certificate);
        self.to_install = true;
        let installed = self.install(host);
        self.ask(&account, now);
        let renewal = self.store_plan(now);
        if let Some(certificate) = &self.certificate {
            let (names, expires) = (certificate.names.clone(), certificate.not_after);
            host.report(&Report::Obtained { names, expires, renewal });
        }
        installed
    }

    /// The account, and a certificate from it by one of the kinds of challenges.
    fn order(
        &mut self,
        host: &mut dyn Host,
        reason: Reason,
        replaces_lost: bool,
    ) -> Result<(Account, StoredCertificate), Problem> {
        let account = match self.stored_account()? {
            Some(account) => account,
            None => {
                let account = new_account(&self.authority, &self.state, &self.settings)?;
                host.report(&Report::AccountCreated { url: account.id().into(), replaces_lost });
                account
            }
        };
        let mut kinds = self.settings.challenges.clone();
        for _ in 1..kinds.len() {
            match self.order_by(host, &account, &kinds, reason) {
                Err(problem @ Problem::Challenge { .. }) => {
                    kinds.rotate_left(1);
                    let expires = self.certificate.as_ref().map(|certificate| certificate.not_after);
                    host.report(&Report::NextChallenge { problem, kind: kinds[0], expires });
                }
                result => return Ok((account, result?)),
            }
        }
        let certificate = self.order_by(host, &account, &kinds, reason)?;
        Ok((account, certificate))
    }

    /// A certificate by the first of these kinds of challenges that is offered.
    fn order_by(
        &mut self,
        host: &mut dyn Host,
        account: &Account,
        kinds: &[ChallengeKind],
        reason: Reason,
    ) -> Result<StoredCertificate, Problem> {
        let names = self.settings.names.clone();
        let (order, key_pem) = match self.continued_order(account)? {
            Some((order, begun)) => {
                host.report(&Report::Ordering { names: names.clone(), reason: Reason::Continued });
                (order, begun.key_pem)
            }
            None => {
                host.report(&Report::Ordering { names: names.clone(), reason });
                self.begin_order(account)?
            }
        };
        let process = Process { authority: &self.authority, host, kinds, order };
        let directory = &self.settings.directory;
        let result = process.finish(&names, &key_pem).and_then(|(url, chain)| {
            let certificate = StoredCertificate::new(directory, &chain, &key_pem).and_then(|certificate| {
                let is_complete = certificate.names == names;
                is_complete.then_some(certificate).ok_or_else(|| "the certificate is for other names".into())
            });
            certificate.map_err(|error| Problem::Malformed { url, error })
        });
        // After other problems, the order is continued by the next attempt.
        if let Err(
            Problem::Challenge { .. }
            | Problem::NoChallenge { .. }
            | Problem::Refused { .. }
            | Problem::Malformed { .. },
        ) = result
        {
            self.state.remove(ORDER)?;
        }
        result
    }

    /// The order that was begun, if the authority still has it, with what is stored of it.
    fn continued_order(&mut self, account: &Account) -> Result<Option<(instant_acme::Order, BegunOrder)>, Problem> {
        let Some(begun) = self.read::<BegunOrder>(ORDER) else { return Ok(None) };
        let is_current = begun.directory == self.settings.directory && begun.names == self.settings.names;
        let is_used = self.certificate.as_ref().is_some_and(|used| used.key_pem == begun.key_pem.as_bytes());
        if !is_current || is_used {
            return Ok(None);
        }
        match self.authority.call("the order", || pollster::block_on(account.order(begun.url.clone()))) {
            Ok(mut order) => {
                let is_open = order.state().status != OrderStatus::Invalid;
                Ok(is_open.then_some((order, begun)))
            }
            Err(Problem::Refused { .. } | Problem::Malformed { .. }) => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// A new order, with its key.
    fn begin_order(&self, account: &Account) -> Result<(instant_acme::Order, String), Problem> {
        let replaced = self.certificate.as_ref().filter(|used| used.directory == self.settings.directory);
        let replaced = replaced.and_then(identifier);
        let order = new_order(&self.authority, account, &self.settings.names, replaced);
        if let Err(Problem::Refused { kind, .. }) = &order
            && kind == "unauthorized"
        {
            check_account(&self.authority, account, &self.settings)?;
        }
        let order = order?;
        let begun = BegunOrder {
            directory: self.settings.directory.clone(),
            names: self.settings.names.clone(),
            url: order.url().into(),
            key_pem: new_key(),
        };
        self.state.write_value(ORDER, &begun)?;
        Ok((order, begun.key_pem))
    }

    /// Has the host install the certificate, if it has not.
    fn install(&mut self, host: &mut dyn Host) -> Result<(), Problem> {
        if let Some(certificate) = self.certificate.as_ref().filter(|_| self.to_install) {
            host.install(&certificate.names, &certificate.chain_pem, &certificate.key_pem)
                .map_err(|error| Problem::Host { what: "a certificate", error: error.to_string() })?;
            self.to_install = false;
        }
        Ok(())
    }

    /// Asks the authority when to renew, if it is time for that. No answer leaves the plan as it
    /// is.
    fn ask_if_due(&mut self, host: &mut dyn Host, now: SystemTime) {
        if self.certificate.is_none() || self.reason(now).is_some() || self.current_plan(now).next_question() > now {
            return;
        }
        let before = self.current_plan(now).renewal();
        let explanation = match self.stored_account() {
            Ok(Some(account)) => self.ask(&account, now),
            Ok(None) | Err(_) => {
                self.current_plan(now).no_suggestion(now);
                None
            }
        };
        let renewal = self.store_plan(now);
        if renewal != before {
            host.report(&Report::RenewalMoved { renewal, explanation });
        }
    }

    /// Stores the plan, without which a restart makes another one. Returns when to renew.
    fn store_plan(&mut self, now: SystemTime) -> SystemTime {
        let plan = self.current_plan(now).clone();
        if let Err(problem) = self.state.write_value(RENEWAL, &plan) {
            self.unreported.push(Report::Damaged { problem });
        }
        plan.renewal()
    }

    /// Asks the authority when to renew (RFC 9773, 4.1). Returns the page that explains it.
    fn ask(&mut self, account: &Account, now: SystemTime) -> Option<String> {
        let suggestion = self.certificate.as_ref().and_then(identifier).and_then(|identifier| {
            let answer = || pollster::block_on(account.renewal_info(&identifier));
            let (info, age) = self.authority.call("the renewal's time", answer).ok()?;
            let window = (info.suggested_window.start.into(), info.suggested_window.end.into());
            (window.0 < window.1).then_some(Suggestion { window, age, explanation: info.explanation_url })
        });
        let plan = self.current_plan(now);
        match suggestion {
            Some(suggestion) => {
                plan.suggest(&suggestion, now, share());
                suggestion.explanation
            }
            None => {
                plan.no_suggestion(now);
                None
            }
        }
    }

    /// Stores and reports a failure. Returns when the next attempt is.
    fn note_failure(&mut self, host: &mut dyn Host, problem: Problem, now: SystemTime) -> SystemTime {
        let failures = Failures::after(self.failures.as_ref(), &self.settings, &problem, now, share());
        let retry = failures.retry();
        let stored = self.state.write_value(FAILURES, &failures);
        self.failures = Some(failures);
        let expires = self.certificate.as_ref().map(|certificate| certificate.not_after);
        let is_of_state = matches!(problem, Problem::State { .. });
        host.report(&Report::Failed { problem, retry, expires });
        if let Err(problem) = stored
            && !is_of_state
        {
            host.report(&Report::Damaged { problem });
        }
        retry
    }

    fn stored_account(&mut self) -> Result<Option<Account>, Problem> {
        match stored_account(&self.authority, &self.state, &self.settings) {
            Err(problem @ Problem::State { .. }) => {
                self.unreported.push(Report::Damaged { problem });
                Ok(None)
            }
            result => result,
        }
    }

    fn read_certificate(&mut self) -> Option<StoredCertificate> {
        let read = StoredCertificate::read(&self.settings.state);
        self.or_report(read)
    }

    /// The value of a file, `None` if there is none or it is damaged.
    fn read<T: DeserializeOwned>(&mut self, file: &str) -> Option<T> {
        let value = self.state.read_value(file);
        self.or_report(value)
    }

    fn report_damage(&mut self, host: &mut dyn Host) {
        for report in mem::take(&mut self.unreported) {
            host.report(&report);
        }
    }

    fn or_report<T>(&mut self, read: Result<Option<T>, Problem>) -> Option<T> {
        read.unwrap_or_else(|problem| {
            self.unreported.push(Report::Damaged { problem });
            None
        })
    }
}

/// The certificate in questions about its renewal (RFC 9773, 4.1). One whose authority has no key
/// identifier has none.
fn identifier(certificate: &StoredCertificate) -> Option<CertificateIdentifier<'static>> {
    CertificateIdentifier::try_from(&certificate.own()).ok().map(CertificateIdentifier::into_owned)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("settings", &self.settings).field("plan", &self.plan).finish_non_exhaustive()
    }
}

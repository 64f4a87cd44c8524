//! The keys of session tickets: shared by all loops, rotated by time, and passed on to a process
//! that takes over.
//!
//! A ticket is `name of the key (16) | nonce (12) | encrypted state | tag (16)`, under AES-256-GCM
//! with the name and a context as associated data. Tickets of the present and of the previous key
//! are taken, if they were made in the same context: a session that began when no certificate was
//! required of clients must not be resumed when one is.

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;

/// How long a key makes tickets.
const ROTATION: Duration = Duration::from_secs(6 * 3600);

/// How long a ticket is valid: a key is the present one, and then the previous one.
const LIFETIME_S: u32 = 12 * 3600;

const NAME_BYTES: usize = 16;
const KEY_BYTES: usize = 32;

/// A larger ticket is none of ours; a client certificate may be in one.
const TICKET_BYTES_MAX: usize = 16 << 10;

/// Keys that make and take the tickets of one context.
pub(crate) struct ContextTickets {
    keys: TicketKeys,
    context: [u8; SHA256_OUTPUT_LEN],
}

/// The keys of session tickets. Clones share them.
#[derive(Clone)]
pub struct TicketKeys(Arc<RwLock<Keys>>);

struct Keys {
    present: Key,
    previous: Option<Key>,
}

struct Key {
    name: [u8; NAME_BYTES],
    secret: [u8; KEY_BYTES],
    aead: LessSafeKey,
    /// In seconds since 1970-01-01 UTC.
    begun: u64,
}

impl TicketKeys {
    /// New keys.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn new() -> io::Result<Self> {
        let present = Key::new(unix_seconds())?;
        Ok(Self(Arc::new(RwLock::new(Keys { present, previous: None }))))
    }

    /// The keys as bytes, for a process that takes over. They are secret.
    pub fn export(&self) -> Vec<u8> {
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = Vec::new();
        for key in [Some(&keys.present), keys.previous.as_ref()].into_iter().flatten() {
            bytes.extend_from_slice(&key.begun.to_be_bytes());
            bytes.extend_from_slice(&key.name);
            bytes.extend_from_slice(&key.secret);
        }
        bytes
    }

    /// Replaces the keys by those that another process has exported; `false` if they are
    /// malformed, which leaves the keys as they were.
    pub fn import(&self, bytes: &[u8]) -> bool {
        let keys = bytes.chunks_exact(8 + NAME_BYTES + KEY_BYTES);
        if !keys.remainder().is_empty() {
            return false;
        }
        let mut keys = keys.map(Key::of_bytes);
        let (Some(Some(present)), previous) = (keys.next(), keys.next()) else { return false };
        let mut ours = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *ours = Keys { present, previous: previous.flatten() };
        true
    }

    /// The tickets of a context.
    pub(crate) fn of_context(self, context: &[u8]) -> ContextTickets {
        let digest = digest(&SHA256, context);
        let context = digest.as_ref().try_into().expect("SHA-256 has this length");
        ContextTickets { keys: self, context }
    }

    /// Begins a new key if the present one is old. Without randomness the old one stays.
    fn rotate(&self, now: u64) {
        let is_due = |keys: &Keys| now.saturating_sub(keys.present.begun) >= ROTATION.as_secs();
        if !is_due(&self.0.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut keys = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if is_due(&keys)
            && let Ok(key) = Key::new(now)
        {
            let previous = std::mem::replace(&mut keys.present, key);
            // A key that was not used for a day makes no ticket valid.
            let is_valid = now.saturating_sub(previous.begun) < u64::from(LIFETIME_S);
            keys.previous = is_valid.then_some(previous);
        }
    }
}

impl ContextTickets {
    fn seal(&self, plain: &[u8], now: u64) -> Option<Vec<u8>> {
        self.keys.rotate(now);
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let keys = self.keys.0.read().unwrap_or_else(PoisonError::into_inner);
        let key = &keys.present;
        let mut ticket = Vec::with_capacity(NAME_BYTES + NONCE_LEN + plain.len() + AES_256_GCM.tag_len());
        ticket.extend_from_slice(&key.name);
        ticket.extend_from_slice(&nonce);
        ticket.extend_from_slice(plain);
        let state = &mut ticket[NAME_BYTES + NONCE_LEN..];
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key.aead.seal_in_place_separate_tag(nonce, self.aad(key.name), state).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn open(&self, ticket: &[u8], now: u64) -> Option<Vec<u8>> {
        if ticket.len() > TICKET_BYTES_MAX {
            return None;
        }
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let keys = self.keys.0.read().unwrap_or_else(PoisonError::into_inner);
        let is_valid = |key: &&Key| key.name == *name && now.saturating_sub(key.begun) < u64::from(LIFETIME_S);
        let key = [Some(&keys.present), keys.previous.as_ref()].into_iter().flatten().find(is_valid)?;
        let mut state = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain_bytes = key.aead.open_in_place(nonce, self.aad(*name), &mut state).ok()?.len();
        state.truncate(plain_bytes);
        Some(state)
    }

    fn aad(&self, name: [u8; NAME_BYTES]) -> Aad<[u8; NAME_BYTES + SHA256_OUTPUT_LEN]> {
        let mut data = [0; NAME_BYTES + SHA256_OUTPUT_LEN];
        data[..NAME_BYTES].copy_from_slice(&name);
        data[NAME_BYTES..].copy_from_slice(&self.context);
        Aad::from(data)
    }
}

impl Key {
    fn new(now: u64) -> io::Result<Self> {
        let mut bytes = [0; NAME_BYTES + KEY_BYTES];
        rand::fill(&mut bytes).map_err(|_| io::Error::other("the system has no randomness"))?;
        let whole = [&now.to_be_bytes()[..], &bytes].concat();
        Ok(Self::of_bytes(&whole).expect("the parts are as long as they have to be"))
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (begun, rest) = bytes.split_first_chunk()?;
        let (name, rest) = rest.split_first_chunk()?;
        let secret: [u8; KEY_BYTES] = rest.try_into().ok()?;
        let aead = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &secret).ok()?);
        Some(Self { name: *name, secret, aead, begun: u64::from_be_bytes(*begun) })
    }
}

impl ProducesTickets for ContextTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME_S
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain, unix_seconds())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.open(ticket, unix_seconds())
    }
}

impl fmt::Debug for ContextTickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContextTickets")
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKeys")
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_taken_until_the_key_after_the_next_one() {
        let keys = TicketKeys::new().unwrap().of_context(b"");
        let start = unix_seconds();
        let ticket = keys.seal(b"state", start).unwrap();
        assert_eq!(keys.open(&ticket, start).as_deref(), Some(&b"state"[..]));
        let later = start + ROTATION.as_secs();
        let next = keys.seal(b"next", later).unwrap();
        assert_ne!(ticket[..NAME_BYTES], next[..NAME_BYTES]);
        assert_eq!(keys.open(&ticket, later).as_deref(), Some(&b"state"[..]));
        keys.seal(b"third", later + ROTATION.as_secs()).unwrap();
        assert_eq!(keys.open(&ticket, later + ROTATION.as_secs()), None);
        assert_eq!(keys.open(&next, later + ROTATION.as_secs()).as_deref(), Some(&b"next"[..]));
    }

    #[test]
    fn keys_go_over_to_another_process() {
        let (keys, others) = (TicketKeys::new().unwrap(), TicketKeys::new().unwrap());
        let now = unix_seconds();
        let of = |keys: &TicketKeys, context: &[u8]| keys.clone().of_context(context);
        let ticket = of(&keys, b"one").seal(b"state", now).unwrap();
        assert_eq!(of(&others, b"one").open(&ticket, now), None);
        assert!(!others.import(&keys.export()[1..]) && !others.import(b""));
        assert!(others.import(&keys.export()));
        assert_eq!(of(&others, b"one").open(&ticket, now).as_deref(), Some(&b"state"[..]));
        assert_eq!(of(&others, b"another").open(&ticket, now), None);
    }

    #[test]
    fn altered_and_cut_tickets_are_refused() {
        let keys = TicketKeys::new().unwrap().of_context(b"");
        let now = unix_seconds();
        let ticket = keys.seal(b"state", now).unwrap();
        for at in 0..ticket.len() {
            let mut altered = ticket.clone();
            altered[at] ^= 1;
            assert_eq!(keys.open(&altered, now), None, "byte {at}");
            assert_eq!(keys.open(&ticket[..at], now), None, "length {at}");
        }
        assert_eq!(keys.open(&vec![0; TICKET_BYTES_MAX + 1], now), None);
    }
}

//! The error log: messages to the operator about what has happened, where, and what to do about it.
//! One line each.
//!
//! Logging a message never waits: messages go through the log thread's queue, and are lost when it
//! is full, which the next message reports. Of messages about the same topic one a minute is
//! written, with the number of those that were dropped.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_sys::{Instant, clock};

use super::queue::Message;
use crate::config::Level;
use crate::telemetry::timestamp::rfc3339;

/// The time that a topic rests after a message.
const REST_NS: u64 = 60_000_000_000;

/// The error log. Cheap to clone, for any thread.
#[derive(Clone, Debug)]
pub struct ErrorLog {
    to: SyncSender<Message>,
    /// The least severe [`Level`] that is logged, by its number.
    level: Arc<AtomicU8>,
    topics: Arc<Mutex<Topics>>,
}

impl ErrorLog {
    pub(crate) fn new(to: SyncSender<Message>, level: Level) -> Self {
        Self { to, level: Arc::new(AtomicU8::new(level as u8)), topics: Arc::default() }
    }

    /// Says what is at least so severe from now on, here and at all clones.
    pub(super) fn set_level(&self, level: Level) {
        self.level.store(level as u8, Relaxed);
    }

    fn says(&self, level: Level) -> bool {
        level as u8 <= self.level.load(Relaxed)
    }

    /// Says something that happens rarely, such as the start of the server.
    pub fn say(&self, level: Level, text: impl Display) {
        if self.says(level) {
            // A full queue: there is no better place for it.
            let _ = self.to.try_send(Message::Note(line(clock::unix_seconds(), level, &text)));
        }
    }

    /// Logs an event that may happen often: once a minute for each topic. `text` is called only if
    /// the message will be written.
    pub fn say_once_a_minute<T: Display>(&self, level: Level, topic: &'static str, text: impl FnOnce() -> T) {
        if !self.says(level) {
            return;
        }
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(suppressed) = topics.admit(topic, Instant::now()) else { return };
        drop(topics);
        match suppressed {
            0 => self.say(level, text()),
            _ => self.say(level, format_args!("{} ({suppressed} more since the last message)", text())),
        }
    }
}

/// The line of a message. Control characters, which a file's name may well have, are escaped.
fn line(second: u64, level: Level, text: &impl Display) -> Vec<u8> {
    let mut line = format!("{} {}: ", rfc3339(i64::try_from(second).unwrap_or(i64::MAX)), level.name());
    for character in text.to_string().chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line.push('\n');
    line.into_bytes()
}

/// The time of the last message of each topic, and the number of dropped ones. Topics are names in
/// the source, so there are few.
#[derive(Debug, Default)]
struct Topics(HashMap<&'static str, Topic>);

#[derive(Debug)]
struct Topic {
    said: Instant,
    suppressed: u64,
}

impl Topics {
    /// Whether a message may be logged, and then the number of messages dropped since the last one.
    fn admit(&mut self, topic: &'static str, now: Instant) -> Option<u64> {
        match self.0.get_mut(topic) {
            Some(topic) if now.ns_since(topic.said) < REST_NS => {
                topic.suppressed += 1;
                None
            }
            Some(topic) => {
                topic.said = now;
                Some(std::mem::take(&mut topic.suppressed))
            }
            None => {
                self.0.insert(topic, Topic { said: now, suppressed: 0 });
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_topic_rests_for_a_minute() {
        let mut topics = Topics::default();
        let at = |ns| Instant::from_ns(ns);
        assert_eq!(topics.admit("full", at(5)), Some(0));
        assert_eq!(topics.admit("full", at(6)), None);
        assert_eq!(topics.admit("gone", at(6)), Some(0));
        assert_eq!(topics.admit("full", at(4 + REST_NS)), None);
        assert_eq!(topics.admit("full", at(5 + REST_NS)), Some(2));
        assert_eq!(topics.admit("full", at(5 + 2 * REST_NS)), Some(0));
    }

    #[test]
    fn a_message_is_one_line() {
        let text = line(971_211_336, Level::Warning, &"cannot open a\nb\u{1b}[31m");
        assert_eq!(text, b"2000-10-10T20:55:36Z warning: cannot open a\\nb\\u{1b}[31m\n");
    }

    #[test]
    fn only_what_matters_is_said_and_a_full_queue_does_not_wait() {
        let (to, from) = mpsc::sync_channel(2);
        let log = ErrorLog::new(to, Level::Warning);
        log.say(Level::Notice, "started");
        for index in 0..5 {
            log.say(Level::Error, index);
        }
        log.say_once_a_minute(Level::Error, "topic", || "text");
        assert_eq!(from.try_iter().count(), 2);
        log.clone().set_level(Level::Notice);
        log.say(Level::Notice, "stopped");
        assert_eq!(from.try_iter().count(), 1);
    }
}

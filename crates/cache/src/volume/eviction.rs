//! The cursor's step to its next stripe, after S3-FIFO (Yang and others, SOSP 2023): fragments that
//! were hit in probation move to the main area and the others to the ghost list; in the main area,
//! those that were hit get a second chance, up to a share of the stripe. Everything else in the
//! stripe is given up by the step itself.

use super::{
    reader::{Reading, Waiting},
    state::{Item, Open, Volume, Writer},
    writer::Blocked,
};
use crate::{
    cursor::{MAIN, PROBATION},
    directory,
    error::Error,
    key::{Key, Part, PartHash},
    record::record_bytes,
    segment::{Entry, Summary},
};

/// A fragment in a stripe that is about to be overwritten.
struct Candidate {
    key: Key,
    part: Part,
    entry: directory::Entry,
    place: u64,
}

impl Volume {
    /// Steps to the next stripe of an area that no reader holds, and leaves room for `bytes` and an
    /// entry in it. The open segment has been written.
    pub(super) fn advance(&self, writer: &mut Writer, area: usize, bytes: u64) -> Result<(), Blocked> {
        self.note_distance(writer);
        let mut count = writer.open[area].count + 1;
        loop {
            self.check_distance(writer, area, count)?;
            let stripe = self.index().log.rings[area].stripe(count);
            let free = {
                let _index = self.index();
                self.leases.is_free(stripe)
            };
            if free && self.take_stripe(writer, area, (count, stripe), bytes)? {
                return Ok(());
            }
            self.index().statistics.skipped_stripes += 1;
            count += 1;
        }
    }

    /// Begins to write a stripe, after saving from it what is worth it; whether no reader had come
    /// to it by then.
    fn take_stripe(
        &self,
        writer: &mut Writer,
        area: usize,
        (count, stripe): (u64, u32),
        bytes: u64,
    ) -> Result<bool, Blocked> {
        let candidates = self.candidates(area, stripe);
        let survivors = if area == PROBATION {
            self.promote(writer, candidates)?;
            Vec::new()
        } else {
            self.survivors(candidates, bytes)
        };
        let mut index = self.index();
        if !self.leases.is_free(stripe) {
            return Ok(false);
        }
        index.log.rings[area].head = count;
        index.sweep(area);
        index.stripe_times[stripe as usize] = 0;
        writer.open[area] = Open::at(count, 0, self.geometry.summary_bytes);
        for item in survivors {
            index.statistics.second_chances += 1;
            self.put(writer, &mut index, area, item);
        }
        Ok(true)
    }

    /// The living fragments of a stripe, in the order in which they were written.
    fn candidates(&self, area: usize, stripe: u32) -> Vec<Candidate> {
        let (log, id) = (self.index().log, self.geometry.id);
        let count = log.count_of(area, stripe);
        let mut candidates = Vec::new();
        let mut start = 0;
        let mut block = vec![0; self.geometry.summary_bytes as usize];
        while start + self.geometry.summary_bytes <= self.geometry.stripe_bytes {
            let offset = self.geometry.stripe_offset(stripe) + u64::from(start);
            if let Err(error) = self.medium.read_at(&mut block, offset) {
                self.failed(Error::reading(error));
                break;
            }
            let summary = Summary::decode(&block, id).filter(|summary| summary.place == log.place(area, count, start));
            let Some(summary) = summary else { break };
            let index = self.index();
            for entry in &summary.entries {
                let Entry::Record { key, part, sequence, offset, .. } = *entry else { continue };
                let Some(entry) = index.living(PartHash::of(key, part)) else { continue };
                let is_here = entry.offset_units == log.offset_units(area, count, offset);
                if is_here && !index.purges.covers_key(key, sequence) {
                    candidates.push(Candidate { key, part, entry, place: log.place(area, count, offset) });
                }
            }
            start += summary.bytes;
        }
        candidates
    }

    /// Moves those of probation that were hit to the main area, and enters the others into the
    /// ghost list. Where a checkpoint comes in between, what has moved is no candidate any more.
    fn promote(&self, writer: &mut Writer, candidates: Vec<Candidate>) -> Result<(), Blocked> {
        let (hit, cold): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|candidate| candidate.entry.hits >= self.settings.promoting_hits);
        let saved: Vec<_> = hit.iter().filter_map(|candidate| self.saved(candidate, 0)).collect();
        for item in saved {
            self.make_room(writer, MAIN, record_bytes(item.body.len()))?;
            let mut index = self.index();
            index.statistics.promoted += 1;
            self.put(writer, &mut index, MAIN, item);
        }
        let mut index = self.index();
        cold.iter().for_each(|candidate| index.ghost.insert(PartHash::of(candidate.key, candidate.part)));
        Ok(())
    }

    /// Fragments of the main area that get a second chance: the ones with the most hits first, as
    /// far as their share of the stripe goes.
    fn survivors(&self, mut candidates: Vec<Candidate>, reserved_bytes: u64) -> Vec<Item> {
        candidates.retain(|candidate| candidate.entry.hits > 0);
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.entry.hits));
        let stripe_bytes = u64::from(self.geometry.stripe_bytes - self.geometry.summary_bytes);
        let share = self.settings.second_chance_share.clamp(0.0, 1.0);
        let mut room = ((stripe_bytes as f64 * share) as u64).min(stripe_bytes - reserved_bytes);
        let mut entries = Summary::capacity(self.geometry.summary_bytes) - 1;
        let mut chosen = Vec::new();
        for candidate in candidates {
            let bytes = u64::from(candidate.entry.size_units) * 512;
            if bytes <= room && entries > 0 {
                room -= bytes;
                entries -= 1;
                chosen.extend(self.saved(&candidate, candidate.entry.hits - 1));
            }
        }
        chosen
    }

    /// Reads a fragment before its stripe is overwritten; none if it is damaged or purged.
    fn saved(&self, candidate: &Candidate, hits: u8) -> Option<Item> {
        match self.read_record(candidate.entry, candidate.place, true, Waiting::Allowed) {
            Ok(Reading::Whole(header, body)) => {
                let asked = header.key == candidate.key && header.part == candidate.part;
                (asked && !self.index().purges.covers(&header)).then_some(Item {
                    key: header.key,
                    part: header.part,
                    description: header.description,
                    stored_s: header.stored_s,
                    body: body.into(),
                    body_checksum: header.body_checksum,
                    first_sequence: Some(header.first_sequence),
                    hits,
                })
            }
            Ok(Reading::Damaged) => {
                self.index().statistics.damaged += 1;
                None
            }
            Ok(Reading::Unwritten | Reading::Head(_) | Reading::Waits) => {
                self.index().statistics.unwritten += 1;
                None
            }
            Err(error) => {
                self.failed(error);
                None
            }
        }
    }
}

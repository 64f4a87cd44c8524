//! Objects in fragments: each fragment is in the store, in a fill under way, or has to be fetched
//! again, which works as long as the origin has the same version.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use thalweg_cache::{Description, Key, Part, Pieces};
use thalweg_caching::{Continuation, FieldLines, StoredFields, Validation, Version, continuation, goes_on_unread};

use crate::activity::{AHEAD_MAX, Activity, ReaderPlace};
use crate::counters::Counters;
use crate::entries::InUse;
use crate::fill::{Fill, FillFailure, FillTarget};
use crate::mounted::Mounted;
use crate::shared::Shared;
use crate::store::{FRAGMENT_BYTES, Found};
use crate::upstream::{BoxFuture, UpstreamContent, UpstreamRequest, UpstreamResponse};

/// So many fragments behind the wanted one are looked up, so that what is stored is not fetched.
const LOOKED_UP_MAX: u64 = 64;

/// An object in fragments.
pub(crate) struct Fragmented {
    pub(crate) shared: Arc<Shared>,
    pub(crate) key: Key,
    pub(crate) length: u64,
    pub(crate) description: Description,
    source: Source,
    activity: Arc<Activity>,
}

/// The origin of an object, to fetch a part of it again.
pub(crate) struct Source {
    pub(crate) mount: Arc<Mounted>,
    /// The key of the head that names the object.
    pub(crate) object: Key,
    pub(crate) entry: InUse,
    pub(crate) target: Box<str>,
    /// The fields of the request that it answers, without conditions and ranges.
    pub(crate) fields: StoredFields,
    /// The version, if the object has a strong validator.
    pub(crate) version: Option<Version>,
}

/// The place of a fragment that a reader wants.
pub(crate) enum FragmentSource {
    Found(Found),
    Fill(Arc<Fill>),
}

impl Fragmented {
    pub(crate) fn new(shared: &Arc<Shared>, key: Key, length: u64, source: Source) -> Arc<Self> {
        let activity = shared.bodies.enter(key);
        let groups = [source.mount.group(), 0, 0, 0];
        let description = Description { version: 0, object_bytes: length, groups };
        Arc::new(Self { shared: Arc::clone(shared), key, length, description, source, activity })
    }

    /// Bytes of a fragment.
    pub(crate) fn bytes_of(&self, number: u32) -> u64 {
        let start = u64::from(number) * FRAGMENT_BYTES;
        self.length.saturating_sub(start).min(FRAGMENT_BYTES)
    }

    /// Counts bytes that a reader took.
    pub(crate) fn count_served(&self, bytes: u64) {
        Counters::add(&self.source.mount.counters.served_bytes, bytes);
    }

    /// Adds a reader of some bytes, for which fills go on.
    pub(crate) fn add_reader(&self, range: &Range<u64>) -> Arc<ReaderPlace> {
        self.activity.add_reader(range.start, range.end)
    }

    pub(crate) fn remove_reader(&self, place: &Arc<ReaderPlace>) {
        self.activity.remove_reader(place);
    }

    /// The origin has answered a range with the whole.
    pub(crate) fn note_no_parts(&self) {
        self.activity.has_no_parts.store(true, Ordering::Relaxed);
    }

    /// A fill that has a byte, or will have it soon.
    pub(crate) fn fill_at(&self, position: u64) -> Option<Arc<Fill>> {
        let of_part = self.source.mount.upstream.part_bytes().map(|part| (part / FRAGMENT_BYTES) as u32);
        let has_no_parts = self.activity.has_no_parts.load(Ordering::Relaxed);
        let near = if has_no_parts { u32::MAX } else { AHEAD_MAX };
        let ahead = |fill: &Fill| of_part.filter(|_| fill.is_stored() && !has_no_parts).unwrap_or(near);
        self.activity.fills().iter().find(|fill| fill.covers(position, ahead(fill))).cloned()
    }

    /// Begins a fill with content that begins at `position`, where a fragment does.
    pub(crate) fn begin(self: &Arc<Self>, position: u64, end: u64, response: UpstreamResponse) -> Arc<Fill> {
        let fill = Fill::new(position, end, self.is_stored_here(&response));
        self.run(fill, Some(response.content))
    }

    /// Begins a fill, which asks the origin if there is no content yet.
    fn run(self: &Arc<Self>, fill: Fill, content: Option<Box<dyn UpstreamContent>>) -> Arc<Fill> {
        let fill = Arc::new(fill);
        self.activity.fills().push(Arc::clone(&fill));
        let (object, running) = (Arc::clone(self), Arc::clone(&fill));
        self.shared.runtime.spawn(async move {
            running.run(&*object, content).await;
            object.activity.fills().retain(|other| !Arc::ptr_eq(other, &running));
        });
        fill
    }

    /// Finds the fragment with the byte at `position` for a reader that reads up to `end`, or
    /// begins to fetch it. Nobody waits for the origin here: a fill is there before its origin
    /// answers, and all that read it get its failure.
    pub(crate) async fn source_of(self: &Arc<Self>, position: u64, end: u64) -> Result<FragmentSource, Arc<str>> {
        let number = crate::fill::number_of(position);
        if let Some(found) = self.find(number).await {
            return Ok(FragmentSource::Found(found));
        }
        let part_bytes = self.source.mount.upstream.part_bytes();
        if let Some(waiter) = part_bytes.and_then(|part| self.source.entry.fetches.under_way(position / part)) {
            // A request of this server asks a peer, or the origin, for the same part.
            waiter.outcome().await;
        }
        let _alone = self.activity.starts.lock().await;
        // It may have come while this reader waited.
        if let Some(fill) = self.fill_at(position) {
            return Ok(FragmentSource::Fill(fill));
        }
        if let Some(found) = self.find(number).await {
            return Ok(FragmentSource::Found(found));
        }
        self.check_version().await?;
        if self.activity.has_no_parts.load(Ordering::Relaxed) {
            return Ok(FragmentSource::Fill(self.run(Fill::new(0, self.length, true), None)));
        }
        let start = u64::from(number) * FRAGMENT_BYTES;
        let next = self.activity.fills().iter().filter_map(|fill| fill.position()).filter(|at| *at > position).min();
        let wanted = end.next_multiple_of(FRAGMENT_BYTES).min(self.length);
        let end = next.map_or(wanted, |next| wanted.min(next.next_multiple_of(FRAGMENT_BYTES)));
        let end = part_bytes.map_or(end, |part| end.min((start / part + 1) * part));
        let end = self.first_stored(number, end).await.unwrap_or(end);
        Ok(FragmentSource::Fill(self.run(Fill::new(start, end, true), None)))
    }

    /// The offset of the first fragment behind this one, and before `end`, that the store has.
    async fn first_stored(&self, number: u32, end: u64) -> Option<u64> {
        let numbers = u64::from(number) + 1..end.div_ceil(FRAGMENT_BYTES);
        for number in numbers.take(LOOKED_UP_MAX as usize) {
            if self.find(number as u32).await.is_some() {
                return Some(number * FRAGMENT_BYTES);
            }
        }
        None
    }

    /// A whole fragment that is in the store.
    pub(crate) async fn find(&self, number: u32) -> Option<Found> {
        let looked_up = self.shared.store.lookup(self.key, Part::fragment(number)).await;
        let found = self.shared.found(looked_up)?;
        (found.len() as u64 == self.bytes_of(number)).then_some(found)
    }

    /// The same on a thread that must not wait, if that is possible.
    pub(crate) fn find_now(&self, number: u32) -> Option<Found> {
        let found = self.shared.store.lookup_now(self.key, Part::fragment(number))?;
        (found.len() as u64 == self.bytes_of(number)).then_some(found)
    }

    /// The version, as far as parts of it can still be had.
    async fn check_version(&self) -> Result<&Version, Arc<str>> {
        if self.activity.has_changed.load(Ordering::Relaxed) {
            return Err(self.changed());
        }
        let Some(version) = &self.source.version else {
            self.shared.forget(self.source.object).await;
            return Err("the object has no strong validator, so that it cannot be fetched in parts".into());
        };
        Ok(version)
    }

    fn changed(&self) -> Arc<str> {
        format!("{} has changed at the origin", self.source.target).into()
    }

    /// Asks the origin for a part of this version.
    async fn fetch_range(&self, start: u64, end: u64) -> Result<UpstreamResponse, FillFailure> {
        let version = self.check_version().await?;
        let Source { mount, target, fields, .. } = &self.source;
        let mut fields = fields.clone();
        fields.push("Range", format!("bytes={start}-{}", end - 1).as_bytes());
        let mut if_range = Vec::new();
        version.validator.push_if_range(&mut if_range);
        fields.push("If-Range", &if_range);
        let request = UpstreamRequest { method: "GET".into(), target: target.clone(), fields, content: Bytes::new() };
        let found = |response: &UpstreamResponse| {
            continuation(version, start, response.status, &response.fields, response.length)
        };
        let is_wanted = |response: &UpstreamResponse| matches!(found(response), Continuation::Bytes);
        let response = mount.fetch_wanted(request, &is_wanted).await.map_err(FillFailure::Unanswered)?;
        match found(&response) {
            Continuation::Bytes => Ok(response),
            Continuation::Whole => {
                self.note_no_parts();
                Err("the origin does not send parts of the object".into())
            }
            Continuation::Changed => {
                if !self.activity.has_changed.swap(true, Ordering::Relaxed) {
                    Counters::add(&mount.counters.changed, 1);
                    self.shared.forget(self.source.object).await;
                }
                Err(self.changed().into())
            }
            Continuation::Nothing => Err(format!("the origin answers {}", response.status).into()),
        }
    }
}

impl FillTarget for Fragmented {
    fn fragment_bytes(&self, number: u32) -> u64 {
        self.bytes_of(number)
    }

    fn is_read_from(&self, position: u64) -> bool {
        self.activity.is_read_from(position)
    }

    fn goes_on_unread(&self, bytes_come: u64, bytes_left: u64) -> bool {
        goes_on_unread(&self.source.mount.policy, bytes_come, Some(bytes_left))
    }

    fn fetch(&self, start: u64, end: u64) -> BoxFuture<'_, Result<UpstreamResponse, FillFailure>> {
        Box::pin(self.fetch_range(start, end))
    }

    fn is_stored_here(&self, response: &UpstreamResponse) -> bool {
        !response.is_peers || self.length <= FRAGMENT_BYTES
    }

    fn append(&self, number: u32, fragment: Pieces) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let part = Part::fragment(number);
            self.shared.stored(self.shared.store.append(self.key, part, self.description, fragment).await)
        })
    }

    fn counters(&self) -> &Counters {
        &self.source.mount.counters
    }
}

/// The fields of a request without those that conditions and ranges of a cache replace.
pub(crate) fn without_conditions(fields: &StoredFields) -> StoredFields {
    let mut kept = StoredFields::default();
    for (name, value) in fields.lines().filter(|(name, _)| !Validation::replaces(name)) {
        kept.push(name, value);
    }
    kept
}

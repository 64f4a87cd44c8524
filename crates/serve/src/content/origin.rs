//! Origins: where objects come from.
//!
//! An origin opens the object that a name leads to. The local origin
//! ([`local`](crate::content::local)) reads trees of files; an origin over HTTP or S3 would fetch
//! objects from another host. Each loop has origins of its own, which are not shared.
//!
//! An origin never waits. What it cannot do at once it returns as a [`Job`]; the request then
//! waits, the blocking pool does the job, and its result comes back to
//! [`complete`](Origin::complete), whose [`Outcome`] goes to all requests that wait for the job.
//! Each of them opens its name again, with that outcome. To add an origin:
//!
//! * Make objects by [`Object::in_memory`], [`Object::in_file`] or of a stream; an entity tag and a
//!   response policy are all that they need, no file.
//! * Keep in a cache of your own what can be opened again without a job, bounded in number and
//!   bytes, and return [`Opening::Object`] for it.
//! * For anything else return [`Opening::Pending`] with a job whose key names the object: requests
//!   for it meanwhile wait for the same job. The result of the job has to be [`Send`]; make objects
//!   of it in `complete`, since they belong to the loop.
//! * Never return `Pending` for a request that has an outcome: that would be a loop of jobs.
//!   Refusals are not cached, so that names that do not exist cannot drive out those that do; as an
//!   outcome they reach exactly those that waited.

use thalweg_sys::Instant;

use crate::content::blocking_pool::Job;
use crate::content::object::Object;
use crate::content::refusal::Refusal;
use crate::date_cache::DateCache;

/// A source of objects, which has a cache of them. Sites have numbers; names are
/// [canonical](crate::content::name).
pub(crate) trait Origin {
    /// The result of a job.
    type Loaded: Send;

    /// Opens the object that a name of a site leads to, for a request that has waited for a job
    /// with this outcome, or for none. The name is the same afterwards; its buffer is used.
    fn open(
        &mut self,
        site: usize,
        name: &mut Vec<u8>,
        outcome: Option<Outcome>,
        date_cache: &DateCache,
        now: Instant,
    ) -> Opening<'_, Self::Loaded>;

    /// Takes the result of a job: keeps the object that was loaded. The outcome is for all requests
    /// that wait for the job.
    fn complete(&mut self, loaded: Self::Loaded, date_cache: &DateCache, now: Instant) -> Outcome;
}

/// The object that a name leads to, or the way to it.
pub(crate) enum Opening<'o, L> {
    /// The object, and the number of the mount that it is in.
    Object(&'o mut Object, u16),
    /// A folder whose name lacks the slash at the end.
    Folder,
    /// The job has to be done before the name is opened again.
    Pending(Box<Job<L>>),
    /// Nothing that is served.
    Refused(Refusal),
}

/// The outcome of a job, for the requests that wait for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// None: the result is of a configuration that holds no more. The name is opened as if for the
    /// first time.
    Void,
    /// The object can be opened. If it has gone from the cache meanwhile, the origin does what is
    /// left without another job.
    Ready,
    /// The name leads to a folder, and lacks the slash at the end.
    Folder,
    /// The name leads to nothing that is served.
    Refused(Refusal),
}

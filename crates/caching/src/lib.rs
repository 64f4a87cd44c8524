//! The decisions of a shared HTTP cache (RFC 9111), without I/O: fields and times in, decisions
//! out.
//!
//! Owned here: the fields that caches read and write, which responses may be stored and for how
//! long they are fresh ([`StoredResponse`]), what a request gets from the stored responses
//! ([`decide`]), conditional requests to the origin and what their answers change ([`validation`]),
//! conditions and ranges of clients, versions of objects ([`Version`]), what an unsafe request
//! invalidates, the fields of a gateway ([`GatewayName`]), addresses and redirects of origins
//! ([`OriginPlace`]), responses that nobody asked for ([`unasked()`]), and which requests share a
//! response that is not stored ([`sharing()`], [`UncacheableMemory`]). Lacking on purpose: sockets,
//! files, clocks (times are arguments, as seconds since 1970), the store, cache keys of URIs, and
//! the waiting of collapsed requests itself.
//!
//! A stored response is read once, when it is stored or loaded: what a hit needs lies ready as
//! numbers. All arithmetic of times saturates; nothing that a client or an origin sends panics.
//!
//! ```
//! use thalweg_caching::{
//!     CacheRequest, Decision, Policy, Storability, StoredFields, StoredResponse, Times, decide, storability,
//! };
//! use thalweg_wire::Method;
//!
//! let policy = Policy::default();
//! let client = StoredFields::default();
//! let request = CacheRequest::new(Method::Get, &client);
//! let mut fields = StoredFields::default();
//! fields.push("Cache-Control", b"max-age=60");
//! let times = Times { request: 1000, response: 1001 };
//! let target = "http://origin.example/a";
//! let storing = storability(&policy, &request, target, 200, &fields, times);
//! assert_eq!(storing, Storability::Complete);
//!
//! let stored = StoredResponse::new(&policy, &client, 200, &fields, times);
//! assert_eq!(decide(&policy, &request, &[&stored], 1050), Decision::Fresh { index: 0 });
//! assert!(matches!(decide(&policy, &request, &[&stored], 1061), Decision::Fetch { .. }));
//! ```
#![forbid(unsafe_code)]

mod age;
mod cache_status;
mod clients;
mod conditional;
mod conditions;
mod decision;
mod directives;
mod fallback;
mod fields;
mod freshness;
mod gateway;
mod groups;
mod invalidation;
mod location;
mod naming;
mod partial;
mod policy;
mod request;
mod seconds;
mod sharing;
mod signed;
mod stored;
mod storing;
mod targeted;
mod unasked;
mod uncacheable;
mod unread;
pub mod validation;
mod variant;
mod version;

pub use age::Times;
pub use cache_status::{CacheStatus, ForwardReason, Outcome};
pub use clients::PreviousHop;
pub use conditional::Validation;
pub use conditions::is_sent_with_not_modified;
pub use decision::{Decision, decide};
pub use directives::{FieldScope, Limit, RequestDirectives, ResponseDirectives};
pub use fallback::{Failure, Fallback};
pub use fields::{FieldLines, StoredFields, is_connection_field};
pub use freshness::Freshness;
pub use gateway::{GatewayName, ends_here, keep_one_date};
pub use groups::{GROUP_BYTES_MAX, GROUPS_MAX, cache_groups};
pub use invalidation::{Invalidation, invalidation};
pub use location::{OriginPlace, RedirectHost, add_vary, inherit, make_absolute, next_address, without_credentials};
pub use naming::is_named_by_content;
pub use partial::ContentRange;
pub use policy::Policy;
pub use request::CacheRequest;
pub use seconds::SECONDS_MAX;
pub use sharing::{Sharing, sharing};
pub use stored::StoredResponse;
pub use storing::{Refusal, Storability, may_stay_stored, storability};
pub use targeted::response_directives;
pub use unasked::{Unasked, is_whole, unasked};
pub use uncacheable::{Asking, UncacheableMemory};
pub use unread::goes_on_unread;
pub use variant::{Vary, push_secondary_key};
pub use version::{Change, Continuation, Validator, Version, continuation};

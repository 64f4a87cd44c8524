//! Request templates: the requests of a plan, in no protocol's form.
//!
//! [`list`] has the requests as a caller gives them, [`packed`] keeps any number of them in about
//! the memory of their targets, and [`templates`] has the parts that many of them share. A
//! protocol's encoder makes bytes of them.

mod list;
mod packed;
mod templates;

pub use list::{RequestList, RequestTemplate, RequestText, template};
pub use packed::{PackError, PackedRequests, RequestParts};
pub use templates::{FieldLines, RequestError, RequestView, Template, Templates};

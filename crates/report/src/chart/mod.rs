//! Charts as SVG: inline in the page, or as a file of their own.
//!
//! A [`Chart`] says what is drawn; this module decides where. Its SVG needs no script: text is
//! text, colours follow the reader's theme and print. A chart on the page is drawn for
//! three widths, of which the style sheet shows one; the page's script adds the values
//! under the pointer.
//!
//! The SVG is written here and not by a library: those that exist for Rust bake in colours, font
//! sizes and one width, so that neither a dark theme nor a telephone could be served, and have no
//! logarithmic time axes, rows over one axis or values for readers of the page.
//!
//! | module | owns |
//! | --- | --- |
//! | `axis` | scales and their labels |
//! | `model` | the content of charts |
//! | `svg` | the drawing |
//! | `figure` | figures of the page, files, and values under the pointer |
//! | `palette` | colours |

mod axis;
mod figure;
mod model;
mod palette;
mod svg;

pub(crate) use axis::Axis;
pub(crate) use figure::json_for_script;
pub(crate) use model::{Across, Band, Chart, Dashes, Mark, Panel, Point, Rule, Series};
pub(crate) use palette::{Color, page_style};

//! Statistics of downloads, made by the log thread from the stream of records, away from the loops:
//! the most popular files, and how many different files there were.

mod popular;
mod statistics;
mod unique;

pub(crate) use popular::Popularity;
pub(crate) use statistics::DownloadStatistics;
pub(crate) use unique::Unique;

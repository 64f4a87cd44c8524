//! The server's figures: collected once a second, kept by the day, and shown by the status listener
//! as a page, as JSON and as OpenMetrics.

mod collector;
mod document;
mod exposition;
mod families;
mod handler;
mod history;
mod hosts;
mod listener;
mod page;
mod purging;
mod responses;
mod tier_metrics;
mod tier_section;
mod words;

pub(crate) use collector::{Collector, Sources};
pub(crate) use hosts::KnownHosts;
pub(crate) use listener::StatusListener;

//! End-to-end tests: the built `thalweg` against real servers and real clients.
//!
//! Nothing of the workspace is linked in, so that no bug can vouch for itself: answers are read by curl, load is counted by
//! nginx's access log, reports are drawn by Chromium. A program that is missing fails the test that needs it. Ports are chosen
//! by the kernel, files lie in temporary folders, and every child process ends with its test.
//!
//! | module | owns |
//! | --- | --- |
//! | [`serve`], [`run`], [`outcomes`], [`stall`], [`find`], [`demo`], [`interrupt`], [`input`], [`fallback`], [`formats`], [`browser`] | tests |
//! | [`process`], [`turn`] | child processes; which tests may run side by side |
//! | [`curl`], [`nginx`], [`scripted`], [`server`] | a client, a server of the world's, one that misbehaves as told, and Thalweg's |
//! | [`document`] | the result document as a script reads it |
#![forbid(unsafe_code)]

mod arrivals;
mod browser;
mod connections;
mod curl;
mod demo;
mod document;
mod fallback;
mod files;
mod find;
mod formats;
mod input;
mod interrupt;
mod namespace;
mod networks;
mod nginx;
mod outcomes;
mod process;
mod recorder;
mod replay;
mod run;
mod scripted;
mod serve;
mod server;
mod sessions;
mod slow;
mod stall;
mod turn;
mod workloads;

//! End-to-end tests: the built `thalweg` against real servers and real clients.
//!
//! Nothing of the workspace is linked in, so that no bug can vouch for itself: answers are read by curl, load is counted by
//! nginx's access log, reports are drawn by Chromium. A program that is missing fails the test that needs it. Ports are chosen
//! by the kernel, files lie in temporary folders, and every child process ends with its test.
//!
//! | module | owns |
//! | --- | --- |
//! | [`run`], [`outcomes`], [`networks`], [`stall`], [`interrupt`] | tests of a load as a whole, and of how requests can end |
//! | [`arrivals`], [`connections`], [`workloads`], [`sessions`], [`replay`], [`slow`] | tests of what a load is made of, as the server sees it |
//! | [`input`], [`files`], [`formats`], [`memory`] | tests of what goes in and comes out, and of what input costs |
//! | [`serve`], [`configuration`], [`find`], [`demo`], [`fallback`], [`browser`] | tests of the other commands, of the drivers, of the report |
//! | [`listings`], [`changes`] | folders without an index, in a browser too; changes of files that the server is told of |
//! | [`operation`], [`reload`] | tests of a server's life: signals, upgrades, users, the sandbox; what it takes up while it serves |
//! | [`signals`], [`sandbox`], [`unix_sockets`], [`full_disk`] | more of that: each signal, what stays within reach, whose sockets are, logs without room |
//! | [`rewritten`] | files that are written to, or replaced, while they are downloaded |
//! | [`attackers`], [`pipelines`] | attackers with more connections than there are places, and long pipelines; what others notice of them |
//! | [`conformance`] | transcripts of HTTP, held against our server and against nginx |
//! | [`collapse`] | targets that break down while they are measured |
//! | [`credentials`] | what a URL says of who asks: sent, and shown nowhere |
//! | [`race`], [`kill`], [`clients`] | a tree that changes under the server, a server that is killed, and the downloads of the world's clients |
//! | [`process`], [`machine`], [`namespace`] | child processes; which tests may run side by side; networks of a test's own |
//! | [`curl`], [`nginx`], [`server`] | a client, a server of the world's, and Thalweg's |
//! | [`scripted`], [`recorder`] | servers that misbehave as told, and that write down what they hear |
//! | [`document`] | the result document as a script reads it |
#![forbid(unsafe_code)]

mod arrivals;
mod attackers;
mod browser;
mod changes;
mod clients;
mod collapse;
mod configuration;
mod conformance;
mod connections;
mod credentials;
mod curl;
mod demo;
mod document;
mod downloads;
mod fallback;
mod files;
mod find;
mod formats;
mod full_disk;
mod input;
mod interrupt;
mod kill;
mod listings;
mod machine;
mod memory;
mod namespace;
mod networks;
mod nginx;
mod operation;
mod outcomes;
mod pipelines;
mod process;
mod race;
mod recorder;
mod reload;
mod replay;
mod rewritten;
mod run;
mod sandbox;
mod scripted;
mod serve;
mod server;
mod sessions;
mod signals;
mod slow;
mod stall;
mod standstill;
mod unix_sockets;
mod workloads;

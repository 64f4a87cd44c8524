//! End-to-end tests: the built `thalweg` against real servers and real clients.
//!
//! Nothing of the workspace is linked in, so that no bug can hide itself: curl reads responses,
//! nginx's access log counts the load, Chromium renders reports. A program that is missing fails
//! the test that needs it. Ports are chosen by the kernel, files lie in temporary folders, and
//! every child process ends with its test.
//!
//! | module | owns |
//! | --- | --- |
//! | [`run`], [`outcomes`], [`networks`], [`stall`], [`interrupt`] | tests of a load as a whole, and of how requests can end |
//! | [`arrivals`], [`connections`], [`workloads`], [`sessions`], [`replay`], [`slow`] | tests of the composition of a load, as the server sees it |
//! | [`log_sessions`] | access logs as session files |
//! | [`habits`], [`help`] | command lines as people from other tools write them; the help that they open |
//! | [`load_http2`], [`client_tls`], [`protocols`] | loads over HTTP/2 and over TLS; all commands over both |
//! | [`input`], [`files`], [`formats`], [`memory`] | tests of input and output, and of the cost of input |
//! | [`bad_inputs`] | a transcript of wrong commands and files, and what is said about them |
//! | [`pipeline_formats`] | results as pipelines read them |
//! | [`snippets`] | the snippets of the documents, run as they stand |
//! | [`trees`] | document trees, written, compared, and requested as often as their tests do |
//! | [`serve`], [`configuration`], [`find`], [`demo`], [`fallback`], [`browser`] | tests of the other commands, of the drivers, of the report |
//! | [`cache`] | volumes of the disk cache on the command line |
//! | [`forwarding`], [`purging`] | the server in front of origins; purging from it, and its figures |
//! | [`proxied`] | HAProxy in front of the server |
//! | [`secrets`] | files with tokens and keys that all users can read |
//! | [`disk`] | the benchmark of a file system, its folders, a full disk |
//! | [`doctor`] | settings of the host: examined, changed, put back |
//! | [`live_view`] | the live view on a pseudo terminal, colours, widths; the stream of intervals |
//! | [`store`], [`sweep`] | the run store, reports and bundles; rates from low to high |
//! | [`suite`] | the suites of the source documents |
//! | [`listings`], [`changes`] | folders without an index, in a browser too; changes of files that the kernel reports |
//! | [`operation`], [`reload`] | tests of a server's life: signals, upgrades, users, the sandbox; reloads while it serves |
//! | [`signals`], [`sandbox`], [`unix_sockets`], [`full_disk`] | more of that: each signal, access inside the sandbox, owners of sockets, logs on a full disk |
//! | [`rewritten`] | files that are written to, or replaced, while they are downloaded |
//! | [`attackers`], [`pipelines`] | attackers with more connections than there are slots, and long pipelines; their effect on other clients |
//! | [`conformance`] | transcripts of HTTP, compared with Thalweg's server and with nginx |
//! | [`http2`] | HTTP/2 of the server: common clients, downloads that share connections |
//! | [`interoperation`] | HTTP/2 over TLS with browsers, clients and servers of others |
//! | [`h2spec`] | h2spec, a test suite of others for servers of HTTP/2 |
//! | [`yardstick`] | the server of known capacity, as load generators find it |
//! | [`bottleneck`] | planted bottlenecks, and the part that a search names |
//! | [`observe`] | the observer of a host: alone, asked by a measuring client, lost |
//! | [`compare`] | comparisons of servers with a known difference, their commands, and their ends |
//! | [`collapse`], [`disturbance`] | targets that fail while they are measured; other programs on the CPU of the client |
//! | [`credentials`] | user information in a URL: sent, and shown nowhere |
//! | [`race`], [`kill`], [`clients`] | a tree that changes under the server, a server that is killed, and downloads by common clients |
//! | [`tls`], [`authority`] | the server over TLS; certificates for it |
//! | [`acme`], [`pebble`] | certificates by ACME, and an authority that issues them |
//! | [`package`] | the Debian package: made, installed, purged |
//! | [`process`], [`namespace`] | child processes; networks of single tests |
//! | [`repetition`] | when a measurement is repeated, and how often |
//! | [`drivers`] | the drivers that a test runs on |
//! | [`priority`] | the scheduling priority of measurements |
//! | [`curl`], [`nginx`], [`server`] | a client, another server, and Thalweg's |
//! | [`scripted`], [`recorder`] | a server that follows a script, and one that records its requests |
//! | [`recordings`] | the output and the requests of httperf and ab, recorded |
//! | [`document`] | the result document as a script reads it |
#![forbid(unsafe_code)]

mod acme;
mod arrivals;
mod attackers;
#[expect(dead_code, reason = "the tests of the engine use all of it")]
mod authority;
mod bad_inputs;
mod bottleneck;
mod browser;
mod cache;
mod changes;
mod client_tls;
mod clients;
mod cluster;
mod collapse;
mod compare;
mod configuration;
mod conformance;
mod connections;
mod content;
mod credentials;
mod curl;
mod demo;
mod disk;
mod disturbance;
mod doctor;
mod document;
mod downloads;
mod drivers;
mod fallback;
mod files;
mod find;
mod folders;
mod formats;
mod forwarding;
mod full_disk;
mod h2spec;
mod habits;
mod help;
mod http2;
mod input;
mod interoperation;
mod interrupt;
mod kill;
mod listings;
mod live_view;
mod load_http2;
mod log_sessions;
mod memory;
mod namespace;
mod networks;
mod nginx;
mod observe;
mod operation;
mod outcomes;
mod package;
#[path = "../../crates/acme/tests/acme/pebble.rs"]
mod pebble;
mod pipeline_formats;
mod pipelines;
mod priority;
mod process;
mod protocols;
mod proxied;
mod purging;
mod race;
mod recorder;
mod recordings;
mod redirects;
mod reload;
mod repetition;
mod replay;
mod restarts;
mod rewritten;
mod run;
mod sandbox;
mod scripted;
mod secrets;
mod serve;
mod server;
mod sessions;
mod several;
mod signals;
mod slow;
mod snippets;
mod stall;
mod standstill;
mod store;
mod suite;
mod suite_table;
mod sweep;
mod tls;
mod trees;
mod unix_sockets;
mod warming;
mod ways;
mod workloads;
mod yardstick;
mod yardstick_server;

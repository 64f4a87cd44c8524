//! The floor: a canned client and a canned server that make the system calls of an HTTP exchange
//! and do nothing else.
//!
//! What they cost per request is the machine's price, which no load generator and no server gets
//! below; the distance to it is what a program's own work costs. So nothing is parsed, checked,
//! timed or recorded here: a request is whatever one receive brings, a response is over when as
//! many bytes have come as the first one had. What a tool needs beyond that is left out on purpose.

#![deny(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its lines are the interface of the comparisons")]

mod account;
mod canned;
mod epoll;
mod files;
mod frames;
mod layered;
mod plan;
mod secure;
mod stop;
mod uring;

use std::io;
use std::process::ExitCode;

use clap::Parser;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::account::Totals;
use crate::plan::{Driver, Plan, Role};

fn main() -> ExitCode {
    let plan = Plan::parse();
    match run(&plan) {
        Ok(totals) => {
            println!("{}", totals.json(&plan));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("floor: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(plan: &Plan) -> io::Result<Totals> {
    if let Some(cpu) = plan.cpu {
        pin(cpu)?;
    }
    match (plan.role, plan.driver) {
        (_, Driver::Uring) if plan.is_layered() => {
            Err(io::Error::other("TLS and HTTP/2: only with --driver epoll; what they add is the same either way"))
        }
        (Role::Client, Driver::Epoll) if plan.is_layered() => layered::client(plan),
        (Role::Server, Driver::Epoll) if plan.is_layered() => layered::server(plan),
        (Role::Client, Driver::Epoll) => epoll::client(plan),
        (Role::Client, Driver::Uring) => uring::client(plan),
        (Role::Server, Driver::Epoll) if !plan.file.is_empty() => files::server(plan),
        (Role::Server, Driver::Uring) if !plan.file.is_empty() => {
            Err(io::Error::other("--file: only with --driver epoll; sendfile is the same call either way"))
        }
        (Role::Server, Driver::Epoll) => epoll::server(plan),
        (Role::Server, Driver::Uring) => uring::server(plan),
    }
}

fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::other(format!("--cpu {cpu}: there is no such CPU")));
    }
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|error| io::Error::other(format!("--cpu {cpu}: {error}")))
}

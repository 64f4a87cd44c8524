//! The load engine and the server as a program each, which `bench/instructions` runs under
//! callgrind.
//!
//! They are the crates of the product and what the command makes of their defaults. The command
//! itself, whose linking takes longer than the counting, is left out, and so are its options, its
//! checks of the host and its output.

#![forbid(unsafe_code)]

mod load;
mod serve;

use std::env;
use std::error::Error;
use std::process::ExitCode;

use thalweg_sys::DriverChoice;

const USAGE: &str = "usage: hot-paths load DRIVER CPU ADDRESS CONNECTIONS STREAMS REQUESTS\n       \
                     hot-paths serve DRIVER CPU PORT BYTES plain|tls\n\
                     DRIVER is uring or epoll; STREAMS is 0 for HTTP/1.1";

#[expect(clippy::print_stderr, reason = "the reason of a failure")]
fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hot-paths: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match *arguments {
        ["load", driver, cpu, address, connections, streams, requests] => load::run(&load::Load {
            driver: driver_named(driver)?,
            cpu: cpu.parse()?,
            address: address.parse()?,
            connections: connections.parse()?,
            streams: streams.parse()?,
            requests: requests.parse()?,
        }),
        ["serve", driver, cpu, port, bytes, transport @ ("plain" | "tls")] => serve::run(&serve::Serving {
            driver: driver_named(driver)?,
            cpu: cpu.parse()?,
            port: port.parse()?,
            bytes: bytes.parse()?,
            tls: transport == "tls",
        }),
        _ => Err(USAGE.into()),
    }
}

fn driver_named(name: &str) -> Result<DriverChoice, &'static str> {
    match name {
        "uring" => Ok(DriverChoice::Uring),
        "epoll" => Ok(DriverChoice::Epoll),
        _ => Err(USAGE),
    }
}

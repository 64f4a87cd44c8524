//! The application of the loop: arrivals go to the station, and responses leave when it says so.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use thalweg_httpd::{Handler, Response, Server, Settings, Ticket, Times, WhenFull};
use thalweg_measure::Histogram;
use thalweg_reactor::{App, LoopControl};
use thalweg_sys::clock::thread_cpu_ns;
use thalweg_sys::driver::Listen;
use thalweg_sys::{Completion, Driver, Instant};
use thalweg_wire::RequestHead;

use super::config::ServerConfig;
use super::figures::{FaultCounts, Figures, Lateness};
use super::messages::{Form, Messages};
use crate::burners::Burners;
use crate::faults::Fault;
use crate::model::Model;
use crate::station::Station;
use crate::truth::Truth;

/// The path of the status page.
pub const STATUS_PATH: &str = "/.yardstick";

/// A yardstick as an application of the loop: that of its thread, or one of a simulation.
pub struct YardstickApp {
    server: Server<Reception>,
    work: Work,
    messages: Messages,
    faults: Pcg64Mcg,
    fault_counts: FaultCounts,
    model: Model,
    truth: Truth,
    start: Instant,
    stop: Arc<AtomicBool>,
    /// By index of the socket: the computed departure of the response that is being sent.
    departures: Vec<Option<Instant>>,
    lateness: Histogram,
    busy_wait_ns: u64,
}

/// The servers of the model, which do the work of requests.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one exists per server")]
pub(super) enum Work {
    /// In virtual time.
    Computed(Station<Request>),
    /// On threads of their own.
    Burnt(Burners<Request>),
}

/// A request that waits for its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    ticket: Ticket,
    form: Form,
}

/// The requests that have come since the last completion.
#[derive(Default)]
struct Reception {
    requests: Vec<Request>,
    status_requests: Vec<Ticket>,
}

impl Handler for Reception {
    fn respond(&mut self, _request: &RequestHead<'_>) -> Response {
        unreachable!("each response is deferred")
    }

    fn respond_or_defer(&mut self, request: &RequestHead<'_>, ticket: Ticket) -> Option<Response> {
        if request.target == STATUS_PATH.as_bytes() {
            self.status_requests.push(ticket);
        } else {
            self.requests.push(Request { ticket, form: Form::of(request) });
        }
        None
    }
}

/// The status page.
#[derive(Serialize)]
struct Status<'a> {
    model: &'a Model,
    truth: &'a Truth,
    figures: Figures,
}

impl YardstickApp {
    /// A yardstick whose departures are computed, for a loop of the caller.
    pub fn computed(config: &ServerConfig, start: Instant) -> Self {
        Self::new(config, Work::Computed(Station::new(&config.model)), Arc::default(), start)
    }

    pub(super) fn new(config: &ServerConfig, work: Work, stop: Arc<AtomicBool>, start: Instant) -> Self {
        Self {
            server: Server::new(settings(), Reception::default()),
            work,
            messages: Messages::new(config.body_bytes, config.retry_after_s),
            faults: Pcg64Mcg::seed_from_u64(config.model.seed.rotate_left(48) ^ 3),
            fault_counts: FaultCounts::default(),
            model: config.model,
            truth: config.truth.clone(),
            start,
            stop,
            departures: Vec::new(),
            lateness: Histogram::new(),
            busy_wait_ns: 0,
        }
    }

    /// Listens at an address.
    ///
    /// # Errors
    /// It cannot be had.
    pub fn listen<D: Driver>(&mut self, driver: &mut D, at: Listen) -> io::Result<SocketAddr> {
        let address = self.server.listen(driver, at)?;
        Ok(address.expect("a TCP listener has an address"))
    }

    /// The figures as of `now`. CPU time is that of the calling thread.
    pub fn figures(&self, now: Instant) -> Figures {
        let now_ns = now.ns_since(self.start);
        let (counts, waiting, in_service, collapses) = match &self.work {
            Work::Computed(station) => {
                let collapses = (station.collapses(), station.is_collapsed(now_ns));
                (station.counts(), station.waiting(), station.in_service(), collapses)
            }
            Work::Burnt(burners) => (burners.counts(), burners.waiting(), burners.in_service(), (0, false)),
        };
        Figures {
            uptime_s: now_ns as f64 / 1e9,
            arrived: counts.arrived,
            served: counts.served,
            refused: counts.refused,
            abandoned: counts.abandoned,
            waiting,
            in_service,
            waiting_peak: counts.waiting_peak,
            busy_s: counts.busy_ns as f64 / 1e9,
            collapses: collapses.0,
            is_collapsed: collapses.1,
            faults: self.fault_counts,
            connections: self.server.connections(),
            cpu_s: thread_cpu_ns() as f64 / 1e9,
            busy_wait_s: self.busy_wait_ns as f64 / 1e9,
            lateness_us: Lateness::of(&self.lateness),
        }
    }

    /// Sends the responses that depart until `now`.
    fn depart<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        while let Some((request, departure)) = self.next_departure(driver, now) {
            let fault = self.draw_fault();
            let response = self.messages.served(fault, request.form);
            if self.server.answer(driver, request.ticket, response)
                && let Some(departure) = departure
            {
                self.expect_sent(request.ticket, departure);
            }
        }
    }

    /// The next request that has been served by `now`, with its departure if that is computed.
    fn next_departure<D: Driver>(&mut self, driver: &mut D, now: Instant) -> Option<(Request, Option<Instant>)> {
        let Self { server, work, start, .. } = self;
        let station = match work {
            Work::Computed(station) => station,
            Work::Burnt(burners) => return burners.finished().map(|request| (request, None)),
        };
        let is_awaited = |request: &Request| {
            let is_awaited = server.is_awaited(request.ticket);
            if !is_awaited {
                // Nobody reads the response any more; the connection must not stay.
                server.answer(driver, request.ticket, Response::reset());
            }
            is_awaited
        };
        let (request, departure) = station.depart(now.ns_since(*start), is_awaited)?;
        Some((request, Some(start.plus_ns(departure))))
    }

    fn draw_fault(&mut self) -> Option<Fault> {
        let fault = self.model.faults.draw(&mut self.faults)?;
        let counts = &mut self.fault_counts;
        let count = match fault {
            Fault::WrongBody => &mut counts.wrong_bodies,
            Fault::Reset => &mut counts.resets,
            Fault::Truncated => &mut counts.truncated,
            Fault::Error => &mut counts.errors,
        };
        *count += 1;
        Some(fault)
    }

    /// Notes the departure of the response that the connection sends next. Of pipelined requests
    /// only the first one is noted: the others wait for it.
    fn expect_sent(&mut self, ticket: Ticket, departure: Instant) {
        let index = ticket.socket().index();
        if self.departures.len() <= index {
            self.departures.resize(index + 1, None);
        }
        self.departures[index].get_or_insert(departure);
    }

    /// Passes the requests that have come to the station.
    fn admit<D: Driver>(&mut self, driver: &mut D) {
        let now = driver.now();
        while let Some(ticket) = self.server.handler().status_requests.pop() {
            let status = Status { model: &self.model, truth: &self.truth, figures: self.figures(now) };
            let text = serde_json::to_string_pretty(&status).expect("figures can be written as JSON") + "\n";
            let response = Response::new(200).field("Content-Type", "application/json").body(text);
            self.server.answer(driver, ticket, response);
        }
        if self.server.handler().requests.is_empty() {
            return;
        }
        self.depart(driver, now);
        let mut requests = std::mem::take(&mut self.server.handler().requests);
        for request in requests.drain(..) {
            let admitted = match &mut self.work {
                Work::Computed(station) => station.arrive(now.ns_since(self.start), request),
                Work::Burnt(burners) => burners.arrive(request),
            };
            if let Err(refused) = admitted {
                self.server.answer(driver, refused.ticket, self.messages.refusal(refused.form));
            }
        }
        // The buffer is used again.
        self.server.handler().requests = requests;
    }
}

/// Connections are kept as long as a load generator may pause.
fn settings() -> Settings {
    const MINUTE_NS: u64 = 60_000_000_000;
    Settings {
        when_full: WhenFull::Wait,
        times: Some(Times { request_ns: 10 * MINUTE_NS, response_ns: MINUTE_NS, linger_ns: MINUTE_NS / 12 }),
        ..Settings::default()
    }
}

impl<D: Driver> App<D> for YardstickApp {
    fn on_completion(&mut self, driver: &mut D, completion: Completion) {
        match completion {
            Completion::Accepted { socket, .. } => {
                if let Some(departure) = self.departures.get_mut(socket.index()) {
                    *departure = None;
                }
            }
            Completion::Sent { socket } => {
                let departure = self.departures.get_mut(socket.index()).and_then(Option::take);
                if let Some(departure) = departure {
                    self.lateness.record(driver.sent_at(socket).ns_since(departure));
                }
            }
            _ => {}
        }
        self.server.on_completion(driver, completion);
        self.admit(driver);
    }

    fn on_iteration(&mut self, driver: &mut D, now: Instant) -> LoopControl {
        if self.stop.load(Ordering::Acquire) {
            return LoopControl::Stop;
        }
        self.depart(driver, now);
        self.busy_wait_ns = driver.busy_wait_ns();
        let LoopControl::WaitUntil(check) = self.server.on_iteration(driver, now) else { return LoopControl::Stop };
        let departure = match &self.work {
            Work::Computed(station) => station.next_departure().map(|at| self.start.plus_ns(at)),
            // Burners use the driver's waker.
            Work::Burnt(_) => None,
        };
        LoopControl::WaitUntil([check, departure].into_iter().flatten().min())
    }
}

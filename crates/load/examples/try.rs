use std::sync::Arc;
use std::time::Duration;
use thalweg_load::*;
use thalweg_sys::DriverChoice;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let peer = a[1].parse().unwrap();
    let rate: f64 = a[2].parse().unwrap();
    let secs: u64 = a[3].parse().unwrap();
    let conns: usize = a[4].parse().unwrap();
    let driver = match a[5].as_str() { "uring" => DriverChoice::Uring, _ => DriverChoice::Epoll };
    let calls = a.get(6).and_then(|c| c.parse().ok());
    let req = prepare(&RequestText{method:"GET", authority:&a[1], target:a.get(7).map_or("/", |s| s), version:thalweg_wire::Version::Http11, fields:&[], body:b""}).unwrap();
    let plan = Plan { peer, sources: vec![], requests: Arc::new([req]), pick: Pick::Sequential,
        arrivals: if rate > 0.0 { LoopPlan::Open { rate } } else { LoopPlan::Closed { workers: conns, think: Duration::ZERO } },
        extent: Extent::Duration(Duration::from_secs(secs)), warmup: Duration::ZERO, timeout: Duration::from_secs(5), drain: Duration::from_secs(5),
        connections: conns, calls, check: Check::default(), cpus: vec![1], driver, seed: 1 };
    let f = start(plan).unwrap().join().unwrap();
    let r = f.series.response_time();
    println!("{:?} window {:?} offered {} sent {} in-window {:?}\n outcomes {:?}", f.driver, f.window, f.offered(), f.sent, f.in_window, f.outcomes);
    println!("resp p50 {} p90 {} p99 {} max {} | service p50 {} | lag p50 {} p99 {} max {} | queue p99 {}", r.quantile(0.5)/1000, r.quantile(0.9)/1000, r.quantile(0.99)/1000, r.max()/1000,
      f.spread.service.quantile(0.5)/1000, f.spread.lag.quantile(0.5)/1000, f.spread.lag.quantile(0.99)/1000, f.spread.lag.max()/1000, f.spread.queue.quantile(0.99)/1000);
    let cpu = f.cores[0].time; println!("cpu/request {:.2} us (user {:.2} sys {:.2}), share {:.2}, wait {:?}", cpu.total_ns() as f64/1000.0/f.sent as f64, cpu.user_ns as f64/1000.0/f.sent as f64, cpu.system_ns as f64/1000.0/f.sent as f64, f.cores[0].share(), f.cores[0].run_queue_wait_ns);
}

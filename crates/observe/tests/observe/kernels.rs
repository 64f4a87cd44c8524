//! The parsers on texts of several kernels, cut to a few lines each.

use proptest::prelude::*;
use thalweg_observe::parse;
use thalweg_observe::sample::{Cpu, CpuTimes, Stall};

fn cpus(numbers: &[usize]) -> Vec<Cpu> {
    numbers.iter().map(|cpu| Cpu { cpu: *cpu, times: CpuTimes::default() }).collect()
}

#[test]
fn stat_of_each_age() {
    // Linux 2.6.18: no steal time of guests, and no softirq line.
    let old = "cpu  100 1 50 900 7 2 3 0\ncpu0 100 1 50 900 7 2 3 0\nintr 5000 1 2\nctxt 777\nbtime 1\nprocesses 42\n\
               procs_running 2\nprocs_blocked 1\n";
    let seen = parse::cpus(old, 10);
    assert_eq!(
        (seen.len(), seen[0].times.user_ms, seen[0].times.idle_ms, seen[0].times.busy_ms()),
        (1, 1000, 9000, 1560)
    );
    let scheduler = parse::scheduler(old).unwrap();
    assert_eq!((scheduler.running, scheduler.blocked), (2.0, 1.0));
    assert_eq!((scheduler.context_switches, scheduler.forks, scheduler.interrupts), (777, 42, 5000));
    // Linux 6: guest time behind steal, CPU 1 offline.
    let new = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 1 0\ncpu2 10 0 0 90 0 0 0 0 0 0\nintr 1 0 0\nctxt 5\n\
               btime 1\nprocesses 6\nprocs_running 1\nprocs_blocked 0\nsoftirq 99 1 2\n";
    let seen = parse::cpus(new, 10);
    assert_eq!(seen.iter().map(|cpu| cpu.cpu).collect::<Vec<_>>(), [0, 2]);
    assert_eq!((seen[0].times.steal_ms, seen[0].times.iowait_ms), (80, 50));
    assert_eq!(parse::scheduler(new).unwrap().softirqs, 99);
    // A sandbox that emulates Linux has a file with no CPU in it.
    assert_eq!(parse::cpus("cpu  0 0 0 0\n", 10), []);
    assert_eq!(parse::scheduler("intr 0\n"), None);
}

#[test]
fn tables_by_cpu_go_to_the_cpus_that_their_head_names() {
    let mut seen = cpus(&[0, 2]);
    let softirqs = "                    CPU0       CPU1       CPU2\n          HI:          1          2          3\n\
                    \x20     NET_TX:          4          5          6\n      NET_RX:         70         80         90\n";
    parse::add_softirqs(softirqs, &mut seen);
    assert_eq!(seen.iter().map(|cpu| (cpu.times.net_rx, cpu.times.net_tx)).collect::<Vec<_>>(), [(70, 4), (90, 6)]);
    let interrupts = "           CPU0       CPU2\n  0:         10          1   IO-APIC   2-edge      timer\n\
                      LOC:        500        600   Local timer interrupts\nERR:          3\n";
    parse::add_interrupts(interrupts, &mut seen);
    assert_eq!(seen.iter().map(|cpu| cpu.times.interrupts).collect::<Vec<_>>(), [513, 601]);
}

#[test]
fn schedstat_versions_15_to_17() {
    for version in [15, 16, 17] {
        let text = format!(
            "version {version}\ntimestamp 4295\ncpu0 0 0 100 50 60 30 7000000 5000000 99\n\
             domain0 3 1 2 3\ncpu1 0 0 1 1 1 1 1 9999 1\n"
        );
        let mut seen = cpus(&[0, 1]);
        parse::add_run_queue_waits(&text, &mut seen);
        assert_eq!((seen[0].times.run_queue_wait_us, seen[1].times.run_queue_wait_us), (5000, 9), "{version}");
    }
}

#[test]
fn pressure_before_and_after_linux_5_13() {
    let check = |text: &str, expected| assert_eq!(parse::stall(text), expected, "{text}");
    let some = "some avg10=0.00 avg60=0.10 avg300=0.20 total=12345\n";
    check(some, Some(Stall { some_us: 12_345, full_us: 0 }));
    check(
        &format!("{some}full avg10=0.00 avg60=0.00 avg300=0.00 total=67\n"),
        Some(Stall { some_us: 12_345, full_us: 67 }),
    );
    check("", None);
}

#[test]
fn memory_with_and_without_an_estimate_of_what_is_available() {
    let new = "MemTotal:       1000 kB\nMemFree:         200 kB\nMemAvailable:    700 kB\nCached:          400 kB\n\
               SwapCached:        5 kB\nSwapTotal:       100 kB\nSwapFree:         40 kB\nDirty:            12 kB\n";
    let memory = parse::memory(new).unwrap();
    assert_eq!(
        (memory.available_kib, memory.cached_kib, memory.swap_used_kib, memory.dirty_kib),
        (700.0, 400.0, 60.0, 12.0)
    );
    // Before Linux 3.14.
    assert_eq!(parse::memory("MemTotal: 1000 kB\nMemFree: 200 kB\n").unwrap().available_kib, 200.0);
    assert_eq!(parse::memory("HugePages_Total: 0\n"), None);
}

#[test]
fn disks_of_kernels_with_more_and_more_columns() {
    let fields_14 = "   8       0 sda 100 5 2000 40 50 6 1000 30 2 70 80\n";
    let fields_20 = " 259       1 nvme0n1 1 0 8 0 0 0 0 0 0 4 4 9 9 9 9 9 9\n";
    let unused = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n";
    // Linux 2.6.0 to 2.6.24 had shorter lines for partitions.
    let partition = "   3       1 hda1 35486 38030 38030 38030\n";
    let seen = parse::disks(&[fields_14, fields_20, unused, partition].concat());
    assert_eq!(seen.iter().map(|disk| disk.name.as_str()).collect::<Vec<_>>(), ["sda", "nvme0n1"]);
    let figures = seen[0].figures;
    assert_eq!(
        (figures.reads, figures.read_bytes, figures.writes, figures.written_bytes),
        (100, 1_024_000, 50, 512_000)
    );
    assert_eq!((figures.busy_ms, figures.request_ms, figures.in_flight), (70, 80, 2.0));
}

#[test]
fn interfaces_whose_numbers_touch_their_name() {
    let text = "Inter-|   Receive     |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes\n\
                \x20 eth0:1234567890 10 1 2 0 0 0 0 99 20 3 4 0 0 0 0\nbr0.7: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n\
                \x20 idle: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
    let seen = parse::interfaces(text);
    assert_eq!(seen.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["eth0", "br0.7"]);
    let figures = seen[0].figures;
    assert_eq!((figures.rx_bytes, figures.rx_errors, figures.rx_dropped), (1_234_567_890, 1, 2));
    assert_eq!((figures.tx_bytes, figures.tx_packets, figures.tx_errors, figures.tx_dropped), (99, 20, 3, 4));
}

#[test]
fn sockets_with_and_without_ipv6() {
    let v4 = "sockets: used 290\nTCP: inuse 27 orphan 1 tw 7 alloc 30 mem 3\nUDP: inuse 4 mem 2\n";
    let seen = parse::sockets(v4, "TCP6: inuse 5\nUDP6: inuse 1\n", 4).unwrap();
    assert_eq!(
        (seen.used, seen.tcp_in_use, seen.tcp6_in_use, seen.time_wait, seen.memory_kib),
        (290.0, 27.0, 5.0, 7.0, 12.0)
    );
    assert_eq!(parse::sockets(v4, "", 4).unwrap().tcp6_in_use, 0.0);
    assert_eq!(parse::sockets("", "", 4), None);
}

#[test]
fn tcp_tables_are_read_by_name() {
    let snmp = "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: RtoAlgorithm MaxConn ActiveOpens CurrEstab InSegs OutSegs RetransSegs\n\
                Tcp: 1 -1 11 5 100 200 3\n";
    let netstat = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPReqQFullDrop Unheard\nTcpExt: 4 6 7 8 9\n\
                   IpExt: InNoRoutes\nIpExt: 0\n";
    let tcp = parse::tcp(snmp, netstat).unwrap();
    assert_eq!((tcp.active_opens, tcp.established, tcp.segments_out, tcp.retransmitted), (11, 5.0, 200, 3));
    assert_eq!((tcp.syncookies_sent, tcp.listen_overflows, tcp.listen_drops, tcp.syn_queue_full_drops), (4, 6, 7, 8));
    assert_eq!(parse::tcp("", ""), None);
    assert!(parse::tcp(snmp, "").is_some(), "some containers have one of the two");
}

#[test]
fn processes_with_any_name() {
    let stat = |name: &str| {
        format!(
            "42 ({name}) S 1 42 42 0 -1 4194560 500 0 7 0 150 50 0 0 20 0 3 0 9999 1000000 256 18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 5 0 0 0 0 0"
        )
    };
    for name in ["nginx", "a b", "x) R 1 (y", "()", ""] {
        let seen = parse::task_stat(&stat(name)).unwrap();
        assert_eq!((seen.name.as_str(), seen.state), (name, 'S'));
        assert_eq!((seen.user_ticks, seen.system_ticks, seen.major_faults), (150, 50, 7));
        assert_eq!((seen.threads, seen.started_ticks, seen.resident_pages, seen.last_cpu), (3, 9999, 256, 5));
    }
    assert_eq!(parse::task_stat("42 (cut) S 1 2 3"), None);
    assert_eq!(parse::task_stat("42 )(S 1"), None);
    let status = "Name:\tnginx\nState:\tS\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";
    assert_eq!(parse::task_switches(status), Some((150, 7)));
    assert_eq!(parse::task_schedstat("1000 2000 3\n"), Some((1000, 2000)));
    let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                  Max open files            1024                 524288               files\n";
    assert_eq!(parse::descriptors_limit(limits), Some(1024));
    assert_eq!(parse::descriptors_limit("Max open files  unlimited unlimited files\n"), None);
}

#[test]
fn control_groups_of_both_versions() {
    assert_eq!(parse::cpu_group("0::/system.slice/nginx.service\n"), Some((true, "/system.slice/nginx.service")));
    assert_eq!(parse::cpu_group("5:cpu,cpuacct:/docker/a:b\n1:name=systemd:/x\n0::/y\n"), Some((false, "/docker/a:b")));
    assert_eq!(parse::cpu_group("5:memory:/a\n"), None);
    assert_eq!(parse::quota_cpus("150000 100000\n", None), Some(1.5));
    assert_eq!(parse::quota_cpus("max 100000\n", None), None);
    assert_eq!(parse::quota_cpus("20000\n", Some("100000\n")), Some(0.2));
    assert_eq!(parse::quota_cpus("-1\n", Some("100000\n")), None);
    assert_eq!(parse::quota_cpus("1 0", None), None);
    let v2 = "usage_usec 1\nnr_periods 10\nnr_throttled 4\nthrottled_usec 5000\n";
    let v1 = "nr_periods 10\nnr_throttled 4\nthrottled_time 5000000\n";
    for text in [v1, v2] {
        let group = parse::group_cpu(text).unwrap();
        assert_eq!((group.periods, group.throttled_periods, group.throttled_us), (10, 4, 5000), "{text}");
    }
    assert_eq!(parse::group_cpu("usage_usec 1\n"), None, "a group without a quota of its own");
}

proptest! {
    /// Texts of an unknown kernel: the words of known ones in any order, with any numbers.
    #[test]
    fn no_text_makes_a_parser_panic(
        words in prop::collection::vec(
            prop_oneof![
                "cpu[0-9]{0,2}|CPU[0-9]", "procs_running|ctxt|intr|nr_periods|throttled_time|throttled_usec",
                "NET_RX:|NET_TX:|TCP:|TCP6:|Tcp:|TcpExt:|eth0:|MemTotal:|MemFree:|some|full|total=[0-9]{1,20}",
                "OutSegs|CurrEstab|inuse|mem|sda|0::/|1:cpu:/a|max", "[(] ?S[)]?", "[0-9]{1,20}", "-?[0-9]", "\\PC{0,3}", "\n", " ",
            ],
            0..80,
        ),
    ) {
        let text = words.join(" ");
        let mut seen = parse::cpus(&text, 10);
        parse::add_softirqs(&text, &mut seen);
        parse::add_interrupts(&text, &mut seen);
        parse::add_run_queue_waits(&text, &mut seen);
        for cpu in &seen {
            prop_assert!((0.0..=1.0).contains(&cpu.times.busy_share()));
        }
        let _ = (parse::scheduler(&text), parse::stall(&text), parse::memory(&text), parse::disks(&text));
        let _ = (parse::interfaces(&text), parse::sockets(&text, &text, 4), parse::tcp(&text, &text));
        let _ = (parse::task_stat(&text), parse::task_schedstat(&text), parse::task_switches(&text));
        let _ = (parse::descriptors_limit(&text), parse::cpu_group(&text), parse::group_cpu(&text));
        let _ = (parse::quota_cpus(&text, None), parse::quota_cpus(&text, Some(&text)));
    }
}

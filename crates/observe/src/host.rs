//! Reads the accounts of the host as a whole.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use thalweg_sys::proc::{clock_tick_ms, page_kib};

use crate::kernel_file::KernelFile;
use crate::parse;
use crate::sample::{Cpu, DiskFigures, InterfaceFigures, Named, Pressure, Sample, Stall};

/// A longer `/proc/interrupts` is not read, since the kernel takes long to write it.
const INTERRUPTS_BYTES_MAX: usize = 32 << 10;
/// The speed of an interface is looked up again after this many samples.
const SPEED_SAMPLES: u32 = 60;

/// The open files of the host's accounts.
#[derive(Debug)]
pub(crate) struct HostReader {
    stat: Option<KernelFile>,
    softirqs: Option<KernelFile>,
    interrupts: Option<KernelFile>,
    schedstat: Option<KernelFile>,
    pressure: [Option<KernelFile>; 3],
    meminfo: Option<KernelFile>,
    diskstats: Option<KernelFile>,
    dev: Option<KernelFile>,
    sockstat: Option<KernelFile>,
    sockstat6: Option<KernelFile>,
    snmp: Option<KernelFile>,
    netstat: Option<KernelFile>,
    tick_ms: u64,
    page_kib: u64,
    /// Names of devices, and whether each is a whole disk rather than a partition.
    whole_disks: HashMap<String, bool>,
    speeds: HashMap<String, u64>,
    speeds_age: u32,
}

impl HostReader {
    /// Opens the files beneath `root` (`/`, but in tests); what is missing goes to `unavailable`.
    pub(crate) fn open(root: &Path, unavailable: &mut Vec<String>) -> Self {
        let mut seen = HashSet::new();
        let mut open = |path: &str, figures: &str| match KernelFile::open(root.join(path)) {
            Ok(file) => Some(file),
            Err(error) => {
                if seen.insert(figures.to_owned()) {
                    unavailable.push(format!("{figures}: /{path}: {error}"));
                }
                None
            }
        };
        let mut reader = Self {
            stat: open("proc/stat", "CPU and scheduler"),
            softirqs: open("proc/softirqs", "deferred interrupts by CPU"),
            interrupts: open("proc/interrupts", "interrupts by CPU"),
            schedstat: open("proc/schedstat", "run-queue wait by CPU"),
            pressure: ["cpu", "memory", "io"].map(|name| open(&format!("proc/pressure/{name}"), "pressure")),
            meminfo: open("proc/meminfo", "memory"),
            diskstats: open("proc/diskstats", "disks"),
            dev: open("proc/net/dev", "network interfaces"),
            sockstat: open("proc/net/sockstat", "sockets"),
            sockstat6: KernelFile::open(root.join("proc/net/sockstat6")).ok(),
            snmp: open("proc/net/snmp", "TCP"),
            netstat: open("proc/net/netstat", "TCP"),
            tick_ms: clock_tick_ms(),
            page_kib: page_kib(),
            whole_disks: HashMap::new(),
            speeds: HashMap::new(),
            speeds_age: 0,
        };
        let mut buffer = Vec::new();
        let long = |file: &KernelFile, buffer: &mut Vec<u8>| {
            file.read(buffer).is_some_and(|text| text.len() > INTERRUPTS_BYTES_MAX)
        };
        if reader.interrupts.as_ref().is_some_and(|file| long(file, &mut buffer)) {
            reader.interrupts = None;
            unavailable.push("interrupts by CPU: /proc/interrupts is too long to be read each second".to_owned());
        }
        reader
    }

    /// Reads all accounts: counters since boot, gauges as they are.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>) -> Sample {
        let mut sample = Sample::default();
        if let Some(stat) = text(&self.stat, buffer) {
            sample.cpus = parse::cpus(&stat, self.tick_ms);
            sample.scheduler = parse::scheduler(&stat);
        }
        self.add_to_cpus(&mut sample.cpus, buffer);
        let mut stall = |at: usize| -> Option<Stall> { parse::stall(&text(&self.pressure[at], buffer)?) };
        sample.pressure = Pressure { cpu: stall(0), memory: stall(1), io: stall(2) };
        sample.memory = text(&self.meminfo, buffer).and_then(|meminfo| parse::memory(&meminfo));
        let disks = text(&self.diskstats, buffer).map_or_else(Vec::new, |table| parse::disks(&table));
        sample.disks = disks.into_iter().filter(|disk| self.is_whole_disk(disk)).collect();
        sample.interfaces = text(&self.dev, buffer).map_or_else(Vec::new, |table| parse::interfaces(&table));
        self.add_speeds(&mut sample.interfaces);
        let sockstat6 = text(&self.sockstat6, buffer).map(String::from).unwrap_or_default();
        sample.sockets =
            text(&self.sockstat, buffer).and_then(|sockstat| parse::sockets(&sockstat, &sockstat6, self.page_kib));
        let snmp = text(&self.snmp, buffer).map(String::from).unwrap_or_default();
        let netstat = text(&self.netstat, buffer).unwrap_or_default();
        sample.tcp = parse::tcp(&snmp, &netstat);
        sample
    }

    fn add_to_cpus(&self, cpus: &mut [Cpu], buffer: &mut Vec<u8>) {
        if let Some(softirqs) = text(&self.softirqs, buffer) {
            parse::add_softirqs(&softirqs, cpus);
        }
        if let Some(interrupts) = text(&self.interrupts, buffer) {
            parse::add_interrupts(&interrupts, cpus);
        }
        if let Some(schedstat) = text(&self.schedstat, buffer) {
            parse::add_run_queue_waits(&schedstat, cpus);
        }
    }

    fn is_whole_disk(&mut self, disk: &Named<DiskFigures>) -> bool {
        if let Some(known) = self.whole_disks.get(&disk.name) {
            return *known;
        }
        let is_image = disk.name.starts_with("loop") || disk.name.starts_with("ram");
        let folder = PathBuf::from("/sys/block").join(disk.name.replace('/', "!"));
        let whole = !is_image && folder.is_dir();
        self.whole_disks.insert(disk.name.clone(), whole);
        whole
    }

    fn add_speeds(&mut self, interfaces: &mut [Named<InterfaceFigures>]) {
        self.speeds_age += 1;
        if self.speeds_age > SPEED_SAMPLES {
            self.speeds_age = 0;
            self.speeds.clear();
        }
        for interface in interfaces {
            let speed = self.speeds.entry(interface.name.clone()).or_insert_with(|| speed_mbit(&interface.name));
            interface.figures.speed_mbit = *speed;
        }
    }
}

fn text<'b>(file: &Option<KernelFile>, buffer: &'b mut Vec<u8>) -> Option<std::borrow::Cow<'b, str>> {
    file.as_ref()?.read(buffer)
}

/// The speed that the interface's driver states; 0 if it states none, or -1.
fn speed_mbit(interface: &str) -> u64 {
    let speed = fs::read_to_string(Path::new("/sys/class/net").join(interface).join("speed"));
    speed.ok().and_then(|speed| speed.trim().parse().ok()).unwrap_or(0)
}

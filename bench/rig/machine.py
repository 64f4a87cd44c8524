"""The machine that a run ran on, and what else ran on it meanwhile."""

import os
import pathlib
import platform
import re
import time

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def describe():
    """What a reader needs to know of the machine; nothing that names it or its user."""
    info = read("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", info)
    sysctls = ["net/ipv4/ip_local_port_range", "net/ipv4/tcp_tw_reuse", "net/core/somaxconn", "net/ipv4/tcp_congestion_control",
               "net/ipv4/tcp_mem", "net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem"]
    return {
        "cpu_model": model.group(1).strip() if model else platform.machine(),
        "cpus": os.cpu_count(),
        "hypervisor": "hypervisor" in info,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or "unknown",
        "clock_source": read("/sys/devices/system/clocksource/clocksource0/current_clocksource").strip(),
        "descriptors_max": os.sysconf("SC_OPEN_MAX"),
        "sysctl": {name.replace("/", "."): " ".join(read(f"/proc/sys/{name}").split()) for name in sysctls},
    }


def sentence(machine):
    return (f"{machine['cpu_model']}, {machine['cpus']} CPUs{' (virtual)' if machine['hypervisor'] else ''}, "
            f"{machine['memory_gib']} GiB, {machine['kernel']}, governor {machine['governor']}")


def read(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""


class CpuUse:
    """How the CPUs were used from its creation to `ended`, by /proc/stat."""

    def __init__(self):
        self.began, self.before = time.monotonic(), self._now()

    @staticmethod
    def _now():
        cpus = {}
        for line in read("/proc/stat").splitlines():
            name, *ticks = line.split()
            if re.fullmatch(r"cpu\d+", name):
                user, nice, system, _idle, _wait, irq, softirq, steal = (int(tick) for tick in ticks[:8])
                cpus[int(name[3:])] = (user + nice + system + irq + softirq, steal)
        return cpus

    def ended(self, cpus, ours_s):
        """Shares of the time of these CPUs: taken by the hypervisor, and used by others than ours, who used `ours_s` in all; and for how
        long each of them was busy.

        The CPU of all the machine counts as others': also what runs beside the pinned processes shares their caches."""
        elapsed, after = time.monotonic() - self.began, self._now()
        steal = {cpu: (after[cpu][1] - self.before[cpu][1]) / TICKS_PER_S / elapsed for cpu in after if cpu in self.before}
        busy = {cpu: (after[cpu][0] - self.before[cpu][0]) / TICKS_PER_S for cpu in after if cpu in self.before}
        return {
            "busy_s": [round(busy.get(cpu, 0.0), 3) for cpu in cpus],
            "steal_share": round(max((steal[cpu] for cpu in cpus if cpu in steal), default=0.0), 4),
            "other_cpus": round(max(0.0, sum(busy.values()) - ours_s) / elapsed, 3),
        }

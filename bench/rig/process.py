"""Running a program to its end, with what it has cost as the kernel accounts it."""

import contextlib
import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from . import machine

SAMPLE_S = 0.25


def pinned(cpu, command):
    return ["taskset", "-c", str(cpu), *command]


def at_once(command):
    """The same with real-time priority; without it if this user is not permitted that."""
    return ["chrt", "--fifo", "1", *command] if may_be_real_time() else command


@functools.cache
def may_be_real_time():
    try:
        return subprocess.run(["chrt", "--fifo", "1", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    except FileNotFoundError:
        return False


def measure(command, timeout_s, meanwhile=None, env=None, sample=None):
    """Runs it and returns output, errors, exit code, elapsed and CPU seconds, and the peak of its resident memory.

    CPU time is that of the process and the children it waited for. The peak comes from samples of VmHWM, since the kernel's own
    figure at the end (`maxrss_kb`) is never below that of the process that started it. `meanwhile` runs beside it, once, in a thread;
    `sample` is called with its pid and the time since its start, once per second."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.monotonic()
        child = subprocess.Popen(command, stdout=output, stderr=errors, stdin=subprocess.DEVNULL, env=env, start_new_session=True)
        beside = threading.Thread(target=meanwhile, daemon=True) if meanwhile else None
        if beside:
            beside.start()
        peak_kb, timed_out, sampled = 0, False, 0
        try:
            while True:
                pid, status, usage = os.wait4(child.pid, os.WNOHANG)
                if pid:
                    break
                elapsed_s = time.monotonic() - began
                peak_kb = max(peak_kb, peak_rss_kb(child.pid))
                if sample and elapsed_s >= sampled:
                    sampled += 1
                    sample(child.pid, elapsed_s)
                if elapsed_s > timeout_s and not timed_out:
                    timed_out = True
                    kill_session(child.pid)
                time.sleep(SAMPLE_S if elapsed_s > SAMPLE_S else 0.02)
        except BaseException:
            # An interrupted measurement leaves no load behind.
            kill_session(child.pid)
            raise
        elapsed_s = time.monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        if beside:
            beside.join()
        output.seek(0)
        errors.seek(0)
        return {
            "exit": child.returncode, "timed_out": timed_out, "elapsed_s": round(elapsed_s, 3),
            "cpu_user_s": usage.ru_utime, "cpu_system_s": usage.ru_stime, "cpu_s": usage.ru_utime + usage.ru_stime,
            "peak_kb": peak_kb, "maxrss_kb": usage.ru_maxrss,
            "output": output.read().decode(errors="replace"), "errors": errors.read().decode(errors="replace"),
        }


def kill_session(pid):
    """Kills a process and what it has started: the group that `start_new_session` made for it, and no other."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def interruptible():
    """Makes SIGTERM end a script as Ctrl-C does, with its servers stopped and its results written."""

    def interrupt(_number, _frame):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def tree(pid):
    """A process and all that descend from it."""
    found, at = [pid], 0
    while at < len(found):
        for task in pathlib.Path(f"/proc/{found[at]}/task").glob("*/children"):
            found += [int(child) for child in machine.read(task).split()]
        at += 1
    return found


def peak_rss_kb(pid):
    found = re.search(r"VmHWM:\s*(\d+)", machine.read(f"/proc/{pid}/status"))
    return int(found.group(1)) if found else 0


def cpu_s(pids):
    """User and system time of these processes so far, in the kernel's ticks."""
    ticks = 0
    for pid in pids:
        fields = machine.read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if fields:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / machine.TICKS_PER_S


def children(pid):
    return [int(child) for child in machine.read(f"/proc/{pid}/task/{pid}/children").split()]


def memory_kb(pids):
    """Resident and proportional memory of these processes, and what of it is their own."""
    rollup = "".join(machine.read(f"/proc/{pid}/smaps_rollup") for pid in pids)

    def figure(name):
        return sum(int(kb) for kb in re.findall(rf"^{name}:\s*(\d+)", rollup, re.MULTILINE))

    return {"rss_kb": figure("Rss"), "pss_kb": figure("Pss"), "private_kb": figure("Private_Clean") + figure("Private_Dirty")}


def socket_memory():
    """TCP sockets of this network namespace and the kernel's memory for them, in bytes."""
    text = machine.read("/proc/net/sockstat")
    found = re.search(r"TCP: inuse (\d+) orphan (\d+) tw (\d+) alloc (\d+) mem (\d+)", text)
    if not found:
        return {}
    return {"tcp_in_use": int(found.group(1)), "tcp_bytes": int(found.group(5)) * os.sysconf("SC_PAGE_SIZE")}


#: The kernel's accounts of its own memory, as /proc/meminfo names them: objects, page tables, stacks, and what belongs to each CPU.
KERNEL_ACCOUNTS = ("Slab", "PageTables", "KernelStack", "Percpu")


def kernel_memory():
    """The kernel's own memory, and what is available to programs, in KiB."""
    found = dict(re.findall(r"^(\w+):\s+(\d+) kB", machine.read("/proc/meminfo"), re.MULTILINE))
    accounts = {name: int(found.get(name, 0)) for name in (*KERNEL_ACCOUNTS, "SReclaimable", "MemAvailable")}
    return accounts | {"own_kb": sum(accounts[name] for name in KERNEL_ACCOUNTS)}


def slabs_kb(least_kb=4096):
    """The kernel's caches of objects of at least this size, by name, in KiB; none unless root asks."""
    found = {}
    for line in machine.read("/proc/slabinfo").splitlines()[2:]:
        fields = line.split()
        size_kb = int(fields[14]) * int(fields[5]) * os.sysconf("SC_PAGE_SIZE") // 1024
        if size_kb >= least_kb:
            found[fields[0]] = size_kb
    return found


def drop_objects():
    """Has the kernel free the objects that it keeps in case they are used again, so that later growth is of what is in use; as root."""
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("2")


def named_program(argument):
    """A name and a path of `NAME=PATH`, for argparse; a path alone is called `before`."""
    name, _, path = argument.rpartition("=")
    return name or "before", path


def on_path(name, extra=()):
    """The program of that name: on PATH, where administrators' programs are, or in one of the folders named."""
    folders = [*map(str, extra), *os.environ.get("PATH", "").split(":"), "/usr/sbin", "/sbin"]
    for folder in folders:
        path = pathlib.Path(folder) / name
        if folder and path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return None


def remove(folder):
    """Removes a folder with what is in it, if it is there."""
    shutil.rmtree(folder, ignore_errors=True)

"""README.md of a folder of results, made of its raw.jsonl alone."""

import json
import statistics

from . import machine

BASE = "wrk"
#: A tool's count and the server's may differ by the requests in flight when the run ended, and no more.
COUNTS_APART_MAX = 0.01


def key(row):
    return row["case"], row["server"], row["rate"], row["tool"], row["round"]


def line(result):
    if "error" in result:
        return f"failed: {result['error']}"
    parts = [f"{result['us_per_request']:.2f} us of CPU a request", f"{result['served']:,} requests"]
    latency = result.get("latency_us", {})
    parts += [f"{name} {latency[name] / 1e3:.2f} ms" for name in ("p50", "p99", "max") if name in latency]
    return ", ".join(parts)


def readme(folder):
    rows = [row for row in folder.rows() if row.get("accepted")]
    about = json.loads((folder.folder / "machine.json").read_text())
    plan = json.loads((folder.folder / "settings.json").read_text())
    lines = [f"# Load generators, {folder.folder.name}", "",
             f"{machine.sentence(about)}. Server on CPU {plan['server_cpu']} (nginx: one worker, sendfile off, open_file_cache, no log), "
             f"clients on CPU {plan['client_cpu']}; {plan['connections']} connections, 512-byte files; {plan['rounds']} interleaved rounds.",
             "", disturbance(folder.rows(), rows), ""]
    groups = {}
    for row in rows:
        groups.setdefault((row["case"], row["server"], row["rate"]), []).append(row)
    for (case, server, rate), group in groups.items():
        title = f"## {case}{f', {rate:,}/s' if rate else ''}, {server}"
        lines += [title, "", *{"rate": rate_table, "stall": stall_table}.get(case, cost_table)(group), "", *remarks(group), *absent(group, about), ""]
    lines += ["## Programs", "", *(f"* {name}: {version}" for name, version in about["versions"].items())]
    lines += [f"* {name}: {note}" for name, note in about.get("notes", {}).items()]
    lines += [f"* {name}: not measured; to get it: `bench/peers {name.split()[0]}`" for name in about["missing"]]
    lines += ["", "Each line of `raw.jsonl` is a run, also those that were made again (`accepted` false)."]
    return "\n".join(lines) + "\n"


def absent(group, about):
    """The tools that are here and cannot do this."""
    names = [name for name in about["versions"] if name != "nginx" and name not in {row["tool"] for row in group}]
    return [f"* no such load: {', '.join(names)}"] if names else []


def disturbance(everything, accepted):
    repeated = len(everything) - len(accepted)
    disturbed = sum(row["disturbed"] for row in accepted)
    worst = max((row["steal_share"] for row in accepted), default=0)
    return (f"{len(accepted)} runs. A hypervisor took more than 5 % of a CPU in {repeated} others, which were repeated, and in {disturbed} of "
            f"these (marked `!`; at worst {worst:.1%}). Everything else on the machine used up to "
            f"{max((row['other_cpus'] for row in accepted), default=0):.2f} CPUs meanwhile.")


def by_tool(group):
    tools = {}
    for row in group:
        tools.setdefault(row["tool"], []).append(row)
    return tools


def cost_table(group):
    """Client CPU per request, with its ratio within each round to wrk and to the canned client.

    All that do not use io_uring use epoll, or poll and select, which cost more."""
    good = [row for row in group if "us_per_request" in row]
    base = {row["round"]: row["us_per_request"] for row in good if row["tool"] == BASE}
    floor = {driver: {row["round"]: row["us_per_request"] for row in good if row["tool"] == f"canned {driver}"}
             for driver in ("uring", "epoll")}
    lines = [f"| tool | client CPU, us/request | of {BASE}'s: median (min - max) | of the canned client's on its driver | requests/s | server CPU, us/request "
             "| peak memory |", "| --- | --- | --- | --- | --- | --- | --- |"]
    tools = by_tool(good)
    for name in sorted(tools, key=lambda name: statistics.median(row["us_per_request"] for row in tools[name])):
        runs = tools[name]
        cost = statistics.median(row["us_per_request"] for row in runs)
        lines.append(
            f"| {name}{marks(runs)} | {cost:.2f} | {ratios(runs, base)} | {ratios(runs, floor['uring' if 'uring' in name else 'epoll'], spread=False)} "
            f"| {statistics.median(row['served'] / loaded_s(row) for row in runs):,.0f} "
            f"| {statistics.median(row['server_us_per_request'] for row in runs):.2f} | {max(row['peak_kb'] for row in runs) / 1024:.0f} MB |")
    return lines


def loaded_s(row):
    """How long it has loaded the server: for the given length, or for as long as a given number of calls took."""
    return row["elapsed_s"] if row["tool"] == "httperf" else row["seconds"]


def ratios(runs, base, spread=True):
    found = [row["us_per_request"] / base[row["round"]] for row in runs if row["round"] in base]
    if not found:
        return "-"
    median = f"{statistics.median(found):.2f}"
    return f"{median} ({min(found):.2f} - {max(found):.2f})" if spread else median


def marks(runs):
    disturbed = sum(row["disturbed"] for row in runs)
    return f" {'!' * disturbed}" if disturbed else ""


def figure(runs, name, among="latency_us"):
    """Median over the runs of a latency, in milliseconds; a dash where the tool does not say."""
    found = [(row.get(among) or {}).get(name) if among else row.get(name) for row in runs]
    found = [value for value in found if value is not None]
    return f"{statistics.median(found) / 1e3:.3f}" if found else "-"


def rate_table(group):
    lines = ["| tool | served of offered: median (worst) | p50, ms | p99, ms | p99 of lag, ms | CPU | failed |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for name, runs in by_tool(group).items():
        deviations = [row["served"] / (row["rate"] * row["seconds"]) - 1 for row in runs]
        share = statistics.median(row["cpu_s"] / row["elapsed_s"] for row in runs)
        lines.append(f"| {name}{marks(runs)} | {statistics.median(deviations):+.2%} ({max(deviations, key=abs):+.2%}) | {figure(runs, 'p50')} "
                     f"| {figure(runs, 'p99')} | {figure(runs, 'lag_p99_us', None)} | {share:.0%} | {max(row.get('failed', 0) for row in runs)} |")
    return lines


def arithmetic(stall_s, seconds):
    """Quantiles of the response time, in milliseconds, if a server that responds at once stops for so long.

    A request that arrives at t into the stall waits for the rest of it: the slowest share q of all waits at least stall - q * seconds."""
    at = {name: max(0.0, stall_s - (1 - quantile) * seconds) * 1e3 for name, quantile in (("p90", 0.9), ("p95", 0.95), ("p99", 0.99))}
    return at | {"max": stall_s * 1e3}


def stall_table(group):
    names = ("p90", "p95", "p99", "max")
    lines = ["| tool | p50, ms | p90, ms | p95, ms | p99, ms | max, ms | served of offered | dropped or failed |", "| --- |" + " --- |" * 7]
    stall_s = statistics.median(row["stall_s"] for row in group)
    truth = arithmetic(stall_s, group[0]["seconds"])
    lines.append(f"| *arithmetic (stopped for {stall_s:.4f} s)* | - | " + " | ".join(f"{truth[name]:.1f}" for name in names) + " | 100 % | 0 |")
    for name, runs in by_tool(group).items():
        served = statistics.median(row["served"] / (row["rate"] * row["seconds"]) for row in runs)
        lost = max(row.get("failed", 0) + row.get("dropped", 0) for row in runs)
        lines.append(f"| {name}{marks(runs)} | " + " | ".join(figure(runs, quantile) for quantile in ("p50", *names))
                     + f" | {served:.1%} | {lost} |")
    return lines


def remarks(group):
    """What keeps a figure from being what it seems."""
    lines = []
    for name, runs in by_tool(group).items():
        errors = {row["error"] for row in runs if "error" in row}
        lines += [f"* {name}: {error}" for error in sorted(errors)]
        good = [row for row in runs if "error" not in row]
        failed = sum(row.get("failed", 0) for row in good)
        if failed:
            lines.append(f"* {name}: {failed:,} requests failed by its own account")
        apart = [abs(row["completed"] / row["served"] - 1) for row in good if row.get("completed") is not None]
        if apart and max(apart) > COUNTS_APART_MAX:
            lines.append(f"* {name}: its count and the server's are up to {max(apart):.1%} apart; the server's is used")
        verdicts = {row["verdict"] for row in good if "verdict" in row} - {"pass"}
        if verdicts:
            reasons = sorted({reason for row in good for reason in row.get("reasons", [])})
            lines.append(f"* {name}: verdict {', '.join(sorted(verdicts))}: {'; '.join(reasons)}")
    return lines

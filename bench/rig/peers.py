"""The load generators: the command line of each, and where its output has the counts.

Each figure is the tool's own, in its own meaning of it; latencies are microseconds. What a tool does not say is absent, not zero."""

import dataclasses
import json
import pathlib
import re
import subprocess
import urllib.parse

from . import process
from .results import BENCH, CACHE


@dataclasses.dataclass(frozen=True)
class Load:
    """What a client shall do: a closed loop over the connections, or `rate` requests per second."""

    url: str
    port: int
    seconds: int
    connections: int
    close: bool = False
    rate: int | None = None
    #: More than one URL: a file with one per line, and the same as paths.
    urls: pathlib.Path | None = None
    paths: pathlib.Path | None = None
    #: Where tools may keep files.
    scratch: pathlib.Path | None = None
    cpu: int = 1
    #: Requests/s of a closed loop in a pilot run, for tools that want a number and no length.
    pilot: float | None = None


@dataclasses.dataclass(frozen=True)
class Programs:
    """Where programs are that are no peers."""

    thalweg: str
    floor: str
    wrk2: str | None
    #: Other thalwegs to compare with, such as the build before a change: the name and the path of each.
    before: list = ()


QUANTILES = ("p50", "p90", "p95", "p99", "max")


class Tool:
    """One way of running one program. `command` returns None where the program has no such load."""

    name, program, version_arguments = "", "", ["--version"]
    #: It opens no more than the connections that it was given, and makes the next request at once.
    closed_loop, rated = True, False
    #: What has to be known of its figures.
    note = ""

    def __init__(self, programs):
        self.path = self.find(programs)

    def find(self, _programs):
        return process.on_path(self.program, [CACHE / "bin"])

    def command(self, load):
        raise NotImplementedError

    def count(self, run, load):
        """Returns at least `completed`, from the run's output."""
        raise NotImplementedError

    def env(self):
        return None

    def version(self):
        # What is built here often does not know its own version; the script that built it does.
        if self.path == str(CACHE / "bin" / self.program):
            recipe = re.search(rf"^\s*{self.program}\) echo \S+ \S+ (\S+) ;;", (BENCH / "peers").read_text(), re.MULTILINE)
            if recipe:
                return f"{recipe.group(1)}, as bench/peers builds it"
        try:
            run = subprocess.run([self.path, *self.version_arguments], capture_output=True, text=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return "unknown"
        lines = [line.strip() for line in (run.stdout + run.stderr).splitlines() if line.strip()]
        found = next((line for line in lines if re.search(r"\d\.\d", line)), lines[0] if lines else "unknown")
        return found[:80]


class Thalweg(Tool):
    program, rated = "thalweg", True

    def __init__(self, programs, driver, before=None):
        self.driver, self.before = driver, before
        self.name = f"thalweg {driver} {before[0]}" if before else f"thalweg {driver}"
        super().__init__(programs)

    def find(self, programs):
        program = self.before[1] if self.before else programs.thalweg
        return program if pathlib.Path(program).is_file() else None

    def command(self, load):
        loop = ["--rate", f"{load.rate}/s", "--connections", str(load.connections)] if load.rate else ["--workers", str(load.connections)]
        close = ["--calls", "1"] if load.close else []
        urls = ["--urls", str(load.paths)] if load.paths else []
        return [self.path, "run", load.url, *loop, *close, *urls, "--duration", f"{load.seconds}s", "--json", "--cores", str(load.cpu),
                "--driver", self.driver]

    def count(self, run, load):
        trial = json.loads(run["output"])["trials"][0]
        response, lag = trial["response_time_us"], trial["lag_us"]
        return {"completed": trial["counts"]["completed"], "failed": trial["counts"]["offered"] - trial["counts"]["good"],
                "latency_us": {name: response[name] for name in QUANTILES}, "lag_p99_us": lag["p99"],
                "verdict": trial["verdict"], "reasons": trial["reasons"]}


class Floor(Tool):
    program, rated = "floor", False

    def __init__(self, programs, driver):
        self.driver, self.name = driver, f"canned {driver}"
        super().__init__(programs)

    def find(self, programs):
        return programs.floor if pathlib.Path(programs.floor).is_file() else None

    def command(self, load):
        if load.rate or load.urls:
            return None
        close = ["--close"] if load.close else []
        return [self.path, "client", "--driver", self.driver, "--port", str(load.port), "--connections", str(load.connections),
                "--seconds", str(load.seconds), *close]

    def count(self, run, load):
        return {"completed": json.loads(run["output"])["requests"], "failed": 0}

    def version(self):
        return "of this checkout"


def microseconds(text):
    """12.3us, 4.5ms, 1.2s, 2m as wrk and its kin write them."""
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m|h)", text).groups()
    return float(number) * {"us": 1, "ms": 1e3, "s": 1e6, "m": 60e6, "h": 3600e6}[unit]


class Wrk(Tool):
    name, program, version_arguments = "wrk", "wrk", ["-v"]

    def arguments(self, load):
        script = []
        if load.paths:
            path = load.scratch / "urls.lua"
            # One table of ready-made requests: as a user of wrk would do who cares for its cost.
            path.write_text(f"""local ready, at = {{}}, 0
function init(args)
  for path in io.lines("{load.paths}") do ready[#ready + 1] = wrk.format("GET", path) end
end
function request()
  at = at % #ready + 1
  return ready[at]
end
""")
            script = ["-s", str(path)]
        close = ["-H", "Connection: close"] if load.close else []
        return ["-t1", f"-c{load.connections}", f"-d{load.seconds}s", *close, *script, load.url]

    def command(self, load):
        return None if load.rate else [self.path, "--latency", *self.arguments(load)]

    def count(self, run, load):
        text = run["output"]
        errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
        bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
        failed = sum(map(int, errors.groups())) if errors else 0
        result = {"completed": int(re.search(r"(\d+) requests in", text).group(1)), "failed": failed + int(bad.group(1) if bad else 0)}
        latency = {f"p{quantile}": microseconds(value)
                   for quantile, value in re.findall(r"^\s+(50|90|99)%\s+([\d.]+[umsh]+)\s*$", text, re.MULTILINE)}
        if latency:
            result["latency_us"] = latency
        return result


class Wrk2(Wrk):
    name, program, rated = "wrk2", "wrk2", True
    note = "without a rate it is given one that no server reaches"

    def find(self, programs):
        return programs.wrk2 or process.on_path("wrk2", [CACHE / "bin"])

    def command(self, load):
        return [self.path, "-R", str(load.rate or 2_000_000), "--latency", *self.arguments(load)]

    def count(self, run, load):
        result = super().count(run, load)
        # Its whole spectrum of quantiles, in milliseconds: value, quantile, count, 1/(1-quantile).
        spectrum = [(float(value), float(quantile)) for value, quantile in
                    re.findall(r"^\s+([\d.]+)\s+([01]\.\d+)\s+\d+\s+[\d.inf]+\s*$", run["output"], re.MULTILINE)]
        if spectrum and load.rate:
            at = lambda wanted: next((value * 1e3 for value, quantile in spectrum if quantile >= wanted), spectrum[-1][0] * 1e3)
            result["latency_us"] = {"p50": at(0.5), "p90": at(0.9), "p95": at(0.95), "p99": at(0.99), "max": spectrum[-1][0] * 1e3}
        elif not load.rate:
            # It measures from times at which nothing could have been sent.
            result.pop("latency_us", None)
        return result


class Ab(Tool):
    name, program, version_arguments = "ab", "ab", ["-V"]
    #: ab keeps a record per request that it may make; no server takes more than these in a second.
    REQUESTS_PER_S = 400_000

    def command(self, load):
        if load.rate or load.urls:
            return None
        # The number must come after the time, which else sets it to 50,000.
        return [self.path, "-q", *([] if load.close else ["-k"]), "-c", str(load.connections), "-t", str(load.seconds),
                "-n", str(self.REQUESTS_PER_S * load.seconds), load.url]

    def count(self, run, load):
        text = run["output"]
        number = lambda label: int((re.search(rf"{label}:\s+(\d+)", text) or [0, 0])[1])
        latency = {f"p{quantile}": int(ms) * 1e3 for quantile, ms in re.findall(r"^\s+(50|90|95|99)%\s+(\d+)", text, re.MULTILINE)}
        return {"completed": number("Complete requests"), "failed": number("Failed requests") + number("Non-2xx responses"),
                "latency_us": latency}


class Httperf(Tool):
    name, program, rated = "httperf", "httperf", True
    note = "spins, so that it always takes the whole of its CPU; at a rate it opens a tenth as many connections, of 10 calls each"
    CALLS_PER_CONNECTION = 10

    def command(self, load):
        target = [self.path, "--hog", "--server", "127.0.0.1", "--port", str(load.port), "--uri", urllib.parse.urlsplit(load.url).path, "--timeout", "5"]
        if load.urls:
            return None
        if load.rate:
            per_s = load.rate // self.CALLS_PER_CONNECTION
            return [*target, "--rate", str(per_s), "--num-conns", str(per_s * load.seconds), "--num-calls", str(self.CALLS_PER_CONNECTION)]
        # It has a closed loop on connections that are kept, not of connections.
        if load.close:
            return None
        calls = int((load.pilot or 50_000) * load.seconds / load.connections) + 1
        return [*target, "--rate", "100000", "--num-conns", str(load.connections), "--num-calls", str(calls)]

    def count(self, run, load):
        text = run["output"]
        requests, replies = map(int, re.search(r"Total: connections \d+ requests (\d+) replies (\d+)", text).groups())
        response = float(re.search(r"Reply time \[ms\]: response ([\d.]+)", text).group(1))
        errors = int(re.search(r"Errors: total (\d+)", text).group(1))
        return {"completed": replies, "failed": errors, "latency_us": {"mean": response * 1e3}}


class H2load(Tool):
    name, program, rated = "h2load --h1", "h2load", True

    def command(self, load):
        # A server that closes after a response makes it wait for ever.
        if load.close:
            return None
        rate = [f"--rps={load.rate / load.connections:g}"] if load.rate else []
        target = ["-i", str(load.urls)] if load.urls else [load.url]
        return [self.path, "--h1", "-t", "1", "-c", str(load.connections), "-D", str(load.seconds), *rate, *target]

    def count(self, run, load):
        text = run["output"]
        done, failed, errored = map(int, re.search(r"(\d+) done, \d+ succeeded, (\d+) failed, (\d+) errored", text).groups())
        longest = re.search(r"time for request:\s+\S+\s+(\S+)\s+(\S+)", text)
        return {"completed": done, "failed": failed + errored,
                "latency_us": {"max": microseconds(longest[1]), "mean": microseconds(longest[2])}}


class Oha(Tool):
    name, program, rated = "oha", "oha", True
    corrected = False

    def command(self, load):
        rate = ["-q", str(load.rate)] if load.rate else []
        close = ["--disable-keepalive"] if load.close else []
        correct = ["--latency-correction"] if self.corrected else []
        if self.corrected and not load.rate:
            return None
        target = ["--urls-from-file", str(load.urls)] if load.urls else [load.url]
        return [self.path, "-z", f"{load.seconds}s", "-c", str(load.connections), "--no-tui", "--output-format", "json",
                *rate, *close, *correct, *target]

    def count(self, run, load):
        result = json.loads(run["output"])
        statuses, errors = result.get("statusCodeDistribution") or {}, result.get("errorDistribution") or {}
        # Requests that the end of the run cancelled are reported as errors, and are none.
        failed = sum(count for error, count in errors.items() if "deadline" not in error)
        quantiles = result["latencyPercentiles"]
        latency = {name: quantiles[name] * 1e6 for name in QUANTILES if quantiles.get(name) is not None}
        if result["summary"].get("slowest") is not None:
            latency["max"] = result["summary"]["slowest"] * 1e6
        return {"completed": sum(statuses.values()), "failed": failed, "latency_us": latency}


class OhaCorrected(Oha):
    name, corrected = "oha --latency-correction", True


class Bombardier(Tool):
    name, program, rated = "bombardier", "bombardier", True

    def command(self, load):
        if load.urls:
            return None
        rate = ["-r", str(load.rate)] if load.rate else []
        close = ["-H", "Connection: close"] if load.close else []
        return [self.path, "-c", str(load.connections), "-d", f"{load.seconds}s", "-l", "-p", "r", "-o", "json", *rate, *close, load.url]

    def count(self, run, load):
        result = json.loads(run["output"])["result"]
        good = result["req2xx"]
        failed = sum(result[name] for name in ("req1xx", "req3xx", "req4xx", "req5xx", "others"))
        latency = {f"p{quantile}": value for quantile, value in (result["latency"].get("percentiles") or {}).items()}
        return {"completed": good, "failed": failed, "latency_us": latency | {"max": result["latency"]["max"]}}


class Vegeta(Tool):
    name, program, rated = "vegeta", "vegeta", True
    note = "its report is made after the run and not counted"

    def command(self, load):
        if load.urls:
            targets = load.scratch / "vegeta.targets"
            targets.write_text("".join(f"GET {url}\n" for url in load.urls.read_text().split()))
        else:
            targets = load.scratch / "vegeta.target"
            targets.write_text(f"GET {load.url}\n")
        # At a rate it takes as many connections as it needs, as it does by itself.
        closed = ["-rate", "0", "-max-workers", str(load.connections), "-workers", str(load.connections),
                  "-connections", str(load.connections)]
        rate = ["-rate", f"{load.rate}/s"] if load.rate else closed
        keep = ["-keepalive=false"] if load.close else []
        self.results = load.scratch / "vegeta.results"
        return [self.path, "attack", "-targets", str(targets), "-duration", f"{load.seconds}s", *rate, *keep, "-output", str(self.results)]

    def count(self, run, load):
        report = subprocess.run([self.path, "report", "-type=json", str(self.results)], capture_output=True, text=True, check=True)
        run["output"] += report.stdout
        self.results.unlink()
        result = json.loads(report.stdout)
        latency = {ours: result["latencies"][theirs] / 1e3 for ours, theirs in
                   (("p50", "50th"), ("p90", "90th"), ("p95", "95th"), ("p99", "99th"), ("max", "max"))}
        good = result["status_codes"].get("200", 0)
        return {"completed": good, "failed": result["requests"] - good, "latency_us": latency}


class K6(Tool):
    name, program, rated, version_arguments = "k6", "k6", True, ["version"]

    def env(self):
        # Nothing leaves this machine.
        return {"K6_NO_USAGE_REPORT": "true"}

    def command(self, load):
        if load.urls:
            return None
        script, self.summary = load.scratch / "k6.js", load.scratch / "k6.json"
        if load.rate:
            scenario = {"executor": "constant-arrival-rate", "rate": load.rate, "timeUnit": "1s", "duration": f"{load.seconds}s",
                        "preAllocatedVUs": load.connections, "maxVUs": max(1000, load.connections)}
        else:
            scenario = {"executor": "constant-vus", "vus": load.connections, "duration": f"{load.seconds}s"}
        options = {"discardResponseBodies": True, "noConnectionReuse": load.close, "scenarios": {"load": scenario},
                   "summaryTrendStats": ["med", "p(90)", "p(95)", "p(99)", "max"]}
        script.write_text(f'import http from "k6/http";\nexport const options = {json.dumps(options)};\n'
                          f'export default function () {{ http.get("{load.url}"); }}\n')
        return [self.path, "run", "--quiet", "--no-color", "--summary-export", str(self.summary), str(script)]

    def count(self, run, load):
        text = self.summary.read_text()
        self.summary.unlink()
        run["output"] += f"\n--- summary\n{text}"
        metrics = json.loads(text)["metrics"]
        duration = metrics["http_req_duration"]
        latency = {"p50": duration["med"] * 1e3, "max": duration["max"] * 1e3}
        latency |= {f"p{quantile}": duration[f"p({quantile})"] * 1e3 for quantile in (90, 95, 99)}
        requests = int(metrics["http_reqs"]["count"])
        failed = int(metrics["http_req_failed"]["passes"])
        return {"completed": requests - failed, "failed": failed, "latency_us": latency,
                "dropped": int(metrics.get("dropped_iterations", {}).get("count", 0))}


class Hey(Tool):
    name, program, rated, version_arguments = "hey", "hey", True, ["-h"]
    note = "its rate is set per worker"

    def command(self, load):
        if load.urls:
            return None
        rate = ["-q", f"{load.rate / load.connections:g}"] if load.rate else []
        close = ["-disable-keepalive"] if load.close else []
        return [self.path, "-z", f"{load.seconds}s", "-c", str(load.connections), *rate, *close, load.url]

    def count(self, run, load):
        text = run["output"]
        figure = lambda label: float(re.search(rf"{label}:\s+([\d.]+)", text).group(1))
        latency = {f"p{quantile}": float(s) * 1e6 for quantile, s in re.findall(r"(50|90|95|99)%+ in ([\d.]+) secs", text)}
        # Its list of statuses ends at a million responses; rate and time do not.
        failed = sum(int(count) for count in re.findall(r"^\s+\[(\d+)\]\s+(?:Get|Head)", text, re.MULTILINE))
        return {"completed": round(figure("Requests/sec") * figure("Total")) - failed, "failed": failed,
                "latency_us": latency | {"max": figure("Slowest") * 1e6}}


def all_tools(programs):
    before = [Thalweg(programs, driver, named) for named in programs.before for driver in ("uring", "epoll")]
    return [Thalweg(programs, "uring"), Thalweg(programs, "epoll"), *before, Floor(programs, "uring"), Floor(programs, "epoll"),
            *(tool(programs) for tool in (Wrk, Wrk2, Ab, Httperf, H2load, Oha, OhaCorrected, Bombardier, Vegeta, K6, Hey))]

"""Opens every data file below DIR/lab with Flent and counts what its plots draw. Called by scripts/check-flent."""

import concurrent.futures
import gzip
import json
import pathlib
import re
import subprocess
import sys

out, flent = pathlib.Path(sys.argv[1]), sys.argv[2]

QUEUE = ["backlog", "drops", "delay"]
UPLOADS = ["totals", "box_totals", "ping_cdf", "tcp_cwnd", "tcp_pacing", *QUEUE]
PLOTS = {
    "tcp_4up": UPLOADS,
    "tcp_nup": ["totals", "box_totals", "ping_cdf"],
    "rrul_be": ["all_scaled", "totals", "box_totals", "ping_cdf", *QUEUE],
}
# Series whose mean `-f summary` must print, with the range it must lie in: 10 Mbit/s each way, a round trip of 20 ms.
SUMMARY = {
    "tcp_4up": {"TCP upload sum": (9.0, 10.0), "TCP upload::4": (1.0, 4.0), "Ping (ms) ICMP": (20.0, 60.0)},
    "tcp_nup": {"TCP upload sum": (9.0, 10.0), "TCP upload::3": (1.0, 6.0), "Ping (ms) ICMP": (20.0, 60.0)},
    "rrul_be": {"TCP upload sum": (8.5, 10.0), "TCP download sum": (8.5, 10.0), "Ping (ms) ICMP": (20.0, 90.0)},
}


def run(*arguments):
    done = subprocess.run([flent, *map(str, arguments)], capture_output=True, text=True)
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if re.match(r"(WARNING|ERROR|Traceback)", line)]
    if done.returncode or complaints:
        sys.exit(f"flent {' '.join(map(str, arguments))}: exit {done.returncode}\n" + "\n".join(complaints))
    return done.stdout


def points(svg):
    """Vertices and markers of all paths: what data adds to axes and text."""
    text = svg.read_text()
    return sum(len(re.findall(r"[MLQCz]", path)) for path in re.findall(r' d="([^"]*)"', text)) + text.count("<use ")


def without_samples(file):
    """The same file with every sample taken out: what Flent plots of it is axes only."""
    with gzip.open(file) as source:
        data = json.load(source)
    data["raw_values"] = {name: [] for name in data["raw_values"]}
    data["results"] = {name: [None] * len(data["x_values"]) for name in data["results"]}
    empty = out / ("empty-" + file.name)
    with gzip.open(empty, "wt") as sink:
        json.dump(data, sink)
    return empty


def plot(test, name, file, empty):
    drawn = []
    for kind, source in (("full", file), ("empty", empty)):
        svg = out / f"{test}-{name}-{kind}.svg"
        if kind == "full":
            run("-i", source, "-p", name, "-o", svg)
        else:  # Flent may refuse a file without samples: that draws nothing too.
            subprocess.run([flent, "-i", source, "-p", name, "-o", svg], capture_output=True)
        drawn.append(points(svg) if svg.exists() else 0)
    full, nothing = drawn
    if full < nothing + 20 and (name != "box_totals" or full <= nothing):
        return f"{test} {name}: {full} points, {nothing} without samples"
    sys.stdout.write(f"{test:8} {name:10} {full - nothing} points of data\n")
    return None


def summary(test, file):
    text = run("-i", file, "-f", "summary")
    faults = []
    for series, (low, high) in SUMMARY[test].items():
        found = re.search(rf"^ *{re.escape(series)} *: *([0-9.]+)", text, re.MULTILINE)
        if not found or not low <= float(found[1]) <= high:
            faults.append(f"{test} summary: {series} is {found[1] if found else 'not there'}, not from {low} to {high}")
    sys.stdout.write(f"{test:8} summary    {len(SUMMARY[test])} series\n")
    return "\n".join(faults) or None


files = {}
for file in sorted((out / "lab").glob("*/*/*.flent.gz")):
    files[file.name.split("-2020")[0]] = file
if set(files) != set(PLOTS):
    sys.exit(f"data files of {sorted(files)}, not of {sorted(PLOTS)}")
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    jobs = []
    for test, file in files.items():
        empty = without_samples(file)
        jobs.append(pool.submit(summary, test, file))
        jobs += [pool.submit(plot, test, name, file, empty) for name in PLOTS[test]]
    faults = [fault for fault in (job.result() for job in jobs) if fault]
if faults:
    sys.exit("\n".join(faults))
print(f"Flent opened {len(files)} files and drew {sum(map(len, PLOTS.values()))} plots")

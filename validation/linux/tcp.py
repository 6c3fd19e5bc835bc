#!/usr/bin/env python3
"""Real Linux TCP through a bottleneck, in simulated time: one line of figures for each cell and seed.

    tcp.py RIG OUT SEEDS CELL...      adds what OUT (a CSV file) does not hold yet
    tcp.py --series RIG FOLDER CELL...  seed 1 over time, for plots.py: FOLDER/CELL.linux.csv
    tcp.py --capture RIG FOLDER SEED CELL...  what the client sends and receives, for differences.py: FOLDER/CELL.linux.pcapng

A cell is CC-FLOWS-QDISC-MBIT-RTT-SECONDS, e.g. cubic-1-fq_codel-10-20-30. RIG is a folder as run.py wants it that also holds
`sim-topo.sh` (the hosts A and B with the router R between them), `bin/qmon` (looks at the queue each 10 ms) and `bin/rttping`
(an echo each 20 ms). The bottleneck is HTB with the discipline below, or CAKE's own shaper, on R towards B; all of the delay
lies on the way back. Hosts send full segments one by one: no offloads, no discipline, no device that would hold TCP back.

Columns: cell, seed, goodput Mbit/s, median and 95 % round trip of the echoes in ms, median backlog in bytes, drops, marks,
mean of the summed windows of all flows in bytes, retransmissions. Echoes, backlog and windows leave the first two seconds out.
"""
import csv
import json
import os
import re
import shutil
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import rig  # noqa: E402

WORDS = {
    "pfifo100": "pfifo limit 100", "pfifo1000": "pfifo limit 1000", "codel": "codel", "fq_codel": "fq_codel", "pie": "pie",
    "cake": "",
}
SKIP = 2.0
# Seconds between the beginnings of successive seeds, within the time between two echoes. Most cells make no random decision, so without it
# all seeds are one run: where echoes, ticks of the kernel and data meet is what differs between two runs of a real machine.
PHASE = 0.0019
ECHO = 0.02


CAPTURE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "capture.py")


def job(cell, seed, is_captured=False):
    cc, flows, qdisc, mbit, rtt, seconds = cell.split("-")
    wait = 0.5 + (seed - 1) * PHASE % ECHO
    burst = max(int(mbit) * 125, 1600)
    if qdisc == "cake":
        tree = [f"qdisc add dev r1 root handle 1: cake bandwidth {mbit}mbit"]
    else:
        tree = [
            "qdisc add dev r1 root handle 1: htb default 1",
            f"class add dev r1 parent 1: classid 1:1 htb rate {mbit}mbit quantum 1514 burst {burst} cburst {burst}",
            f"qdisc add dev r1 parent 1:1 handle 10: {WORDS[qdisc]}",
        ]
    capture = f"ip netns exec A {CAPTURE} a0 $LAB/capture.pcap 2>$LAB/capture.txt & capture=$!" if is_captured else ""
    kept = "kill $capture; wait $capture" if is_captured else ""
    bottleneck = "\n".join(f"tc -n R {line} || exit 1" for line in tree)
    return f"""
. $RIG/sim-topo.sh
{bottleneck}
tc -n R qdisc add dev r0 root netem delay {rtt}ms limit 100000 || exit 1
ip netns exec A ping -c 3 -i 0.2 10.91.2.1 >/dev/null
ip netns exec B iperf3 -s -D -1 >/dev/null 2>&1 </dev/null
{capture}
sleep 0.5
ip netns exec R $RIG/bin/qmon r1 10 {int(seconds) + 1} >$LAB/qmon.csv &
ip netns exec A $RIG/bin/rttping 10.91.2.1 0.02 {int(seconds) + 1} >$LAB/ping.txt 2>&1 &
sleep {wait:.4f}
ip netns exec A iperf3 -c 10.91.2.1 -t {seconds} -P {flows} -C {cc} -i 0.1 -J >$LAB/iperf.json
sleep 1.5; tc -n R -s -d qdisc show dev r1 >$LAB/tc.txt
{kept}
"""


def share(values, percent):
    values = sorted(values)
    return values[min(len(values) - 1, percent * len(values) // 100)] if values else 0


def figures(folder, flows):
    result = json.load(open(f"{folder}/iperf.json"))
    if "end" not in result or "sum_sent" not in result["end"]:
        raise RuntimeError(result.get("error", "iperf3 gave no result"))
    windows = [sum(stream["snd_cwnd"] for stream in interval["streams"]) for interval in result["intervals"]]
    windows = windows[int(SKIP * 10):]
    pattern = re.compile(r"\[([\d.]+)\].*time=([\d.]+)")
    echoes = [(float(m[1]), float(m[2])) for m in map(pattern.match, open(f"{folder}/ping.txt")) if m]
    begin = echoes[0][0] + 0.5 + SKIP
    end = begin - SKIP + result["end"]["sum_sent"]["seconds"]
    delays = [rtt for at, rtt in echoes if begin < at < end]
    rows = list(csv.reader(open(f"{folder}/qmon.csv")))[1:]
    leaves = {}
    for row in rows:
        leaves.setdefault((row[2], row[3]), []).append(row)
    (_, leaf), = [(key, rows) for key, rows in leaves.items() if key[1] not in ("htb", "bql")][-1:]
    start = float(leaf[0][0]) + 0.5
    backlog = [int(row[4]) for row in leaf if SKIP < float(row[0]) - start < end - begin + SKIP]
    text = open(f"{folder}/tc.txt").read()
    marks = sum(int(number) for number in re.findall(r"ecn_mark (\d+)", text))
    drops = int(leaf[-1][6])
    return [
        f"{result['end']['sum_received']['bits_per_second'] / 1e6:.3f}", f"{share(delays, 50):.3f}", f"{share(delays, 95):.3f}",
        share(backlog, 50), drops, marks, f"{sum(windows) / len(windows):.0f}", result["end"]["sum_sent"]["retransmits"],
    ]


def series(folder, cell):
    """Seconds since the data began, window of the first stream and backlog, each tenth of a second."""
    result = json.load(open(f"{folder}/iperf.json"))
    rows = [row for row in csv.reader(open(f"{folder}/qmon.csv"))][1:]
    last = [row for row in rows if row[3] not in ("htb", "bql")][-1][2]
    queue = [(float(row[0]), int(row[4])) for row in rows if row[2] == last]
    # The looks begin half a second before the client, which talks to its server for so many round trips before it sends.
    _, flows, _, _, rtt, _ = cell.split("-")
    begin = queue[0][0] + 0.5 + (4 + int(flows)) * int(rtt) / 1000
    windows = [interval["streams"][0] for interval in result["intervals"]]
    for i, window in enumerate(windows):
        at = (i + 1) / 10
        near = min(queue, key=lambda look: abs(look[0] - begin - at))
        yield f"{at:.1f}", window["snd_cwnd"], near[1]


def record_series():
    folder, out, cells = os.path.abspath(sys.argv[2]), sys.argv[3], sys.argv[4:]
    for cell in cells:
        with rig.Boot(folder, 1, job(cell, 1)) as run, open(f"{out}/{cell}.linux.csv", "w") as file:
            csv.writer(file, lineterminator="\n").writerows(series(run.folder, cell))


def record_captures():
    folder, out, seed, cells = os.path.abspath(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5:]
    for cell in cells:
        with rig.Boot(folder, seed, job(cell, seed, is_captured=True)) as run:
            try:
                said = open(f"{run.folder}/capture.txt").read()
                if said:
                    raise RuntimeError(f"there is no whole capture: {said}")
                print(cell, seed, *figures(run.folder, int(cell.split("-")[1])))
                shutil.copy(f"{run.folder}/capture.pcap", f"{out}/{cell}.linux.pcap")
            except (OSError, ValueError, KeyError, IndexError, RuntimeError) as error:
                sys.exit(f"{cell} seed {seed}: {error}\n{run.said}")


def main():
    if sys.argv[1] == "--series":
        return record_series()
    if sys.argv[1] == "--capture":
        return record_captures()
    folder, out, seeds, cells = os.path.abspath(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    have = set()
    if os.path.exists(out):
        have = {tuple(row[:2]) for row in csv.reader(open(out))}
    for seed in range(1, seeds + 1):
        for cell in cells:
            if (cell, str(seed)) in have:
                continue
            with rig.Boot(folder, seed, job(cell, seed)) as run:
                try:
                    row = figures(run.folder, int(cell.split("-")[1]))
                except (OSError, ValueError, KeyError, IndexError, RuntimeError) as error:
                    print(f"{cell} seed {seed}: {error}\n{run.said}", file=sys.stderr)
                    continue
            with open(out, "a") as file:
                csv.writer(file, lineterminator="\n").writerow([cell, seed, *row])
            have.add((cell, str(seed)))


main()

"""Judges both ends' JSON of one test: check-iperf3.py LABEL CLIENT SERVER OPTIONS OVERFLOWS.

OVERFLOWS is the number of datagrams that receiving sockets of the kernel had no room for.
"""

import json
import sys

label, client, server, options = sys.argv[1], json.load(open(sys.argv[2])), json.load(open(sys.argv[3])), sys.argv[4]
overflows = int(sys.argv[5])
words = options.split()
udp, time = "-u" in words, 1 if "-t 1" in options else 2
streams = int(words[words.index("-P") + 1]) if "-P" in words else 1
rate = {"20M": 20e6, "50M": 50e6, "100M": 100e6, "10M": 10e6}.get(words[words.index("-b") + 1]) if "-b" in words else None
directions = [""] + (["_bidir_reverse"] if "--bidir" in words else [])


def require(fact, what):
    if not fact:
        sys.exit(f"{label}: {options}: {what}\n{json.dumps(client)[:3000]}\n{json.dumps(server)[:3000]}")


for end, name in ((client, "client"), (server, "server")):
    require("error" not in end, f"{name} reports an error")
    require(len(end["start"]["connected"]) == streams * len(directions), f"{name}: number of streams")
    require(end["start"]["test_start"]["protocol"] == ("UDP" if udp else "TCP"), f"{name}: protocol")
    require(len(end["intervals"]) >= (1 if "-n" in words else time), f"{name}: intervals")

end = client["end"]
for direction in directions:
    # Debian's iperf 3.12 has no sums of UDP in the other direction.
    if udp and direction and f"sum_received{direction}" not in end:
        continue
    sent, received = end[f"sum_sent{direction}"], end[f"sum_received{direction}"]
    require(0 < received["bytes"] <= sent["bytes"] * 1.02 + 1e6, "more was received than sent")
    # Debian's server counts what has arrived when the client has written its last byte; ours waits for the rest.
    if "-n" not in words or "tautline" in server["start"]["version"]:
        require(received["bytes"] > 0.8 * sent["bytes"] - 4e6, "too little was received")
    if "-n" in words:
        require(20 << 20 <= sent["bytes"] < 21 << 20, "bytes sent")
    elif rate:
        total = rate * streams
        require(0.85 * total < sent["bits_per_second"] < 1.15 * total, f"rate {sent['bits_per_second']}")
    if not udp:
        require(sent["retransmits"] >= 0, "retransmits")
    else:
        lost = received["lost_packets"] - overflows
        require(lost < 0.05 * received["packets"] and received["packets"] > 100, f"datagrams, {overflows} beyond the sockets' room")

# Whichever end sends over TCP tells its window and RTT in every interval.
for report in (client, server):
    for interval in report["intervals"] if not udp else []:
        for stream in interval["streams"]:
            if stream["sender"]:
                require(stream["snd_cwnd"] > 0 and stream["rtt"] > 0 and stream["retransmits"] >= 0, "no TCP_INFO")
if "-C" in words:
    require(end["sender_tcp_congestion"] == end["receiver_tcp_congestion"] == "reno", "congestion control")
if "tautline" in client["start"]["version"] and not udp and "-R" not in words:
    require(end["latency_under_load"]["p50_ms"] > 0, "latency under load")
received = end["sum_received"]
more = f", {received['jitter_ms']:.3f} ms jitter, {received['lost_packets']} lost" if udp else ""
print(f"  {label:18} {options:44} {received['bits_per_second'] / 1e6:9.1f} Mbit/s received{more}")

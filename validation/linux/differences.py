#!/usr/bin/env python3
"""Prints the first difference between two captures of one cell, flow by flow.

    differences.py LINUX OURS [LINES]     prints LINES segments of each around the first difference (12)

The captures are those of `scripts/validate-tcp --capture SEED CELL`: what the client sends and receives. Needs tshark. Flows are
numbered in the order in which they open (0 is the control connection). Compared are direction, flags, relative numbers, length and
the number of SACK blocks of each packet, and the order in a flow; not times, windows, timestamps or the order between flows. Each
flow's clock begins with its first packet.
"""
import subprocess
import sys

FIELDS = ["frame.time_relative", "tcp.srcport", "tcp.dstport", "tcp.flags.str", "tcp.seq", "tcp.ack", "tcp.len", "tcp.options.sack_le"]
SERVER = "5201"


def flows(capture):
    """Lists of (seconds, direction, line without its time), one for each flow."""
    fields = [word for field in FIELDS for word in ("-e", field)]
    text = subprocess.run(["tshark", "-r", capture, "-Y", "tcp.port==5201", "-T", "fields", *fields], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    found = {}
    for line in text.splitlines():
        at, source, target, flags, seq, ack, length, sacked = line.split("\t")
        is_sent = target == SERVER
        flow = found.setdefault(source if is_sent else target, [])
        flags = "".join(letter for letter in flags if letter.isalpha())
        blocks = len(sacked.split(",")) if sacked else 0
        flow.append((float(at), f"{'>' if is_sent else '<'} {flags:3} {seq:>9} {ack:>9} {length:>5} {blocks}"))
    return list(found.values())


def first_difference(linux, ours):
    pairs = enumerate(zip(linux, ours))
    return next((number for number, (a, b) in pairs if a[1] != b[1]), min(len(linux), len(ours)))


def main():
    linux, ours = (flows(file) for file in sys.argv[1:3])
    lines = int(sys.argv[3]) if len(sys.argv) > 3 else 12
    if len(linux) != len(ours) or not ours:
        sys.exit(f"{len(linux)} flows of Linux's, {len(ours)} of ours")
    for number, (theirs, mine) in enumerate(zip(linux, ours)):
        place = first_difference(theirs, mine)
        if place == min(len(theirs), len(mine)):
            # Linux's run goes on to the end of its connections.
            print(f"flow {number}: {place} segments are equal, all that both have")
            continue
        print(f"flow {number}: {place} segments are equal; Linux | ours, seconds since the flow began")
        for at in range(max(0, place - lines // 2), place + lines - lines // 2):
            halves = [f"{flow[at][0] - flow[0][0]:10.6f} {flow[at][1]}" if at < len(flow) else "" for flow in (theirs, mine)]
            print(f"{'*' if at == place else ' '} {halves[0]:48} | {halves[1]}")


main()

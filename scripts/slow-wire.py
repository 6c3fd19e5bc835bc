#!/usr/bin/env python3
"""The wire of scripts/qemu-nic between two NICs: as slow as told from the first to the second, at once on the way back.

    slow-wire.py FOLDER MBIT_PER_S     QEMU's ends are FOLDER/1 and FOLDER/2, ours FOLDER/wire1 and FOLDER/wire2

A Unix socket holds few datagrams (net.unix.max_dgram_qlen), so whoever sends to it waits: QEMU, and a ring that waits for QEMU.
"""

import socket
import sys
import threading
import time

BEHIND = 0.01  # seconds that a late thread may catch up


def forward(near, to, bytes_per_s):
    due = 0.0
    while True:
        packet = near.recv(65536)
        if bytes_per_s:
            now = time.monotonic()
            due = max(due, now - BEHIND) + (len(packet) + 24) / bytes_per_s  # and preamble, checksum, gap
            if due > now:
                time.sleep(due - now)
        try:
            near.sendto(packet, to)
        except OSError:
            pass  # QEMU is not there yet, or no longer


def main():
    folder, rate = sys.argv[1], float(sys.argv[2]) * 1e6 / 8
    ends = []
    for side in (1, 2):
        near = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        near.bind(f"{folder}/wire{side}")
        ends.append(near)
    back = threading.Thread(target=forward, args=(ends[1], f"{folder}/1", None), daemon=True)
    back.start()
    forward(ends[0], f"{folder}/2", rate)


main()

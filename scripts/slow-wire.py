#!/usr/bin/env python3
"""The wire of scripts/qemu-nic between two NICs: as slow as told from the first to the second, at once on the way back.

    slow-wire.py FOLDER MBIT_PER_S [hold]     QEMU's ends are FOLDER/1 and FOLDER/2, ours FOLDER/wire1 and FOLDER/wire2

A Unix socket holds few datagrams (net.unix.max_dgram_qlen), so whoever sends to it waits: QEMU, and a ring that waits for QEMU.
A NIC model that does not wait for QEMU completes its descriptors while the packets queue there. `hold` makes QEMU's first socket
block, so that such a model stands still within the write to its doorbell register, and descriptors complete as the wire takes packets.
"""

import ctypes
import fcntl
import os
import socket
import sys
import threading
import time

SO_SNDBUFFORCE = 32
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


def hold(folder):
    """Lets sends of QEMU (its process is in FOLDER/pid) on the socket FOLDER/1 block."""
    with open(f"{folder}/pid") as file:
        process = int(file.read())
    with open("/proc/net/unix") as file:
        inode = next(line.split()[6] for line in file if line.endswith(f" {folder}/1\n"))
    descriptors = f"/proc/{process}/fd"
    wanted = f"socket:[{inode}]"
    number = next(fd for fd in os.listdir(descriptors) if os.readlink(f"{descriptors}/{fd}") == wanted)
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd_getfd = 438  # the same file, so its flags are QEMU's, too
    ours = libc.syscall(pidfd_getfd, os.pidfd_open(process), int(number), 0)
    if ours < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    fcntl.fcntl(ours, fcntl.F_SETFL, fcntl.fcntl(ours, fcntl.F_GETFL) & ~os.O_NONBLOCK)
    os.close(ours)


def main():
    folder, rate = sys.argv[1], float(sys.argv[2]) * 1e6 / 8
    ends = []
    for side in (1, 2):
        near = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        near.bind(f"{folder}/wire{side}")
        near.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 16 << 20)  # a ring, while QEMU stands still
        ends.append(near)
    back = threading.Thread(target=forward, args=(ends[1], f"{folder}/1", None), daemon=True)
    back.start()
    if sys.argv[3:] == ["hold"]:
        ends[0].recv(65536)  # QEMU is there
        hold(folder)
    forward(ends[0], f"{folder}/2", rate)


main()

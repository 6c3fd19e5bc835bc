#!/usr/bin/env python3
"""Captures IPv4 on an interface, and lets the machine forget it until the end.

    capture.py DEVICE FILE     captures until SIGTERM, then writes FILE (pcap, nanoseconds, the first bytes of each packet)

In a kernel that runs in simulated time a process takes time when it reads the clock, and packets wait while it runs: a program that
takes packets out of its ring now and then holds up all of them, for 1.5 ms each 120 ms in a run at 100 Mbit/s. So the ring
has room for the whole run, and nothing reads it before the end. Exit code 1 if it was too small.
"""
import mmap
import signal
import socket
import struct
import sys

# linux/socket.h: SOL_PACKET; linux/if_packet.h: PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION, TPACKET_V2 and its header.
SOL_PACKET, RX_RING, STATISTICS, VERSION, V2 = 263, 5, 6, 10, 1
HEADER = struct.Struct("=IIIHHII")
ETH_P_ALL = 3
BLOCK, BLOCKS, FRAME = 1 << 16, 1000, 192
FRAMES_PER_BLOCK = BLOCK // FRAME
IPV4 = b"\x08\x00"


def main():
    device, path = sys.argv[1:]
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    packets.setsockopt(SOL_PACKET, VERSION, V2)
    packets.setsockopt(SOL_PACKET, RX_RING, struct.pack("=IIII", BLOCK, BLOCKS, FRAME, BLOCKS * FRAMES_PER_BLOCK))
    ring = mmap.mmap(packets.fileno(), BLOCK * BLOCKS)
    packets.bind((device, ETH_P_ALL))
    signal.sigwait([signal.SIGTERM])
    _, dropped = struct.unpack("=II", packets.getsockopt(SOL_PACKET, STATISTICS, 8))
    with open(path, "wb") as file:
        file.write(struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, FRAME, 1))
        for number in range(BLOCKS * FRAMES_PER_BLOCK):
            at = number // FRAMES_PER_BLOCK * BLOCK + number % FRAMES_PER_BLOCK * FRAME
            status, length, kept, mac, _, seconds, nanoseconds = HEADER.unpack_from(ring, at)
            if not status & 1:
                break
            packet = ring[at + mac:at + mac + kept]
            if packet[12:14] == IPV4:
                file.write(struct.pack("=IIII", seconds, nanoseconds, kept, length) + packet)
    if dropped:
        sys.exit(f"the ring had no room for {dropped} packets")


main()

#!/usr/bin/env python3
"""Sends the packets of job files through a real Linux queueing discipline. Runs inside the simulated kernel; see run.py.

    driver.py JOB... : each JOB is a file; writes JOB with the suffix .out

A job file, line by line:
    tc WORDS, ip WORDS                                  a command; DEV stands for the device
    b HEX                                               ask fq_codel which of 65536 buckets this frame falls into
    p AT PRIORITY DEPARTURE SIZE HEX [SEGMENT]          a packet: nanoseconds from the start, SO_PRIORITY, nanoseconds from
                                                        the start or `-` (SO_TXTIME), frame length, its first bytes; of TCP
                                                        segments with so many bytes of payload each, if it has several
    a AT WORDS                                          a tc command while packets are sent: `change`, `-s class show`
Packets are told apart by the identification field of IPv4. The result, line by line:
    t START                                             CLOCK_MONOTONIC at the start, in ns; times below count from it
    b BUCKET                                            answers, in order
    i AT                                                the packet was given to the device (one line a packet, in order)
    o PACKET AT TOS                                     a packet came out (in order of departure); packet = identification.
                                                        A packet of several segments counts as each of them
    s TEXT                                              what `tc -s` said, at the times asked and at the end
"""
import ctypes
import os
import socket
import struct
import subprocess
import sys
import time

SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_TIMESTAMPNS, SO_PRIORITY, SO_TXTIME = 32, 33, 35, 12, 61
SOL_PACKET, PACKET_VNET_HDR = 263, 15
ETHERNET, IPV4, TCP = 14, 20, 20
CLONE_NEWNET = 0x40000000
BUFFER = 300_000_000
IDLE_S = 4.0  # no packet comes out for so long: all are out

libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(29, 1, 0, 0, 0)  # PR_SET_TIMERSLACK: 1 ns


class Timespec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]


def sleep_until(ns):
    libc.clock_nanosleep(time.CLOCK_MONOTONIC, 1, ctypes.byref(Timespec(ns // 10**9, ns % 10**9)), None)


def mono():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def sh(words):
    done = subprocess.run(words, shell=True, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{words}: {done.stderr.strip()}")
    return done.stdout


def enter(namespace):
    with open(namespace) as f:
        if libc.setns(f.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


class Link:
    """A veth pair: v0 here, v1 in a namespace of its own, so that nothing of the sender's survives on the packets."""

    def __init__(self):
        sh("ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02 netns RX")
        sh("ip link set v0 up; ip -n RX link set v1 up; ip -n RX link set v1 arp off; ip link set v0 arp off")
        self.tx = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.tx.bind(("v0", 0))
        self.tx.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER)
        enter("/run/netns/RX")
        self.rx = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        self.rx.bind(("v1", 0x0800))
        enter("/proc/1/ns/net")
        self.rx.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
        self.rx.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.rx.settimeout(IDLE_S)

    def close(self):
        self.tx.close()
        self.rx.close()
        sh("ip link del v0")


def buckets(frames):
    """Which bucket each frame falls into: fq_codel's hash has one key for the whole kernel, as fq's and CAKE's."""
    link, found = Link(), []
    sh("tc qdisc add dev v0 root handle 1: tbf rate 8bit burst 1600 limit 100000000")
    sh("tc qdisc add dev v0 parent 1: handle 10: fq_codel flows 65536")
    known = set()
    # The first may pass at once, the second is dequeued to be classified.
    for i, frame in enumerate([frames[0], frames[0], *frames]):
        link.tx.send(frame.ljust(1000, b"\0"))
        classes = {line.split()[2] for line in sh("tc class show dev v0").splitlines() if "fq_codel" in line}
        new = classes - known
        known |= classes
        if i >= 2:
            found.append(int(new.pop().split(":")[1], 16) - 1 if new else -1)
        elif i == 1:
            known = set()
    link.close()
    return found


def virtio(frame, size):
    """The virtio-net header of a packet of TCP segments of `size` bytes (VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_TCPV4)."""
    headers = ETHERNET + IPV4 + TCP
    return struct.pack("BBHHHH", 1, 1, headers, size, ETHERNET + IPV4, 16) if size else bytes(10)


def run(job, out):
    tc, asks, packets, segments, actions = [], [], [], [], []
    for line in open(job):
        kind, _, rest = line.strip().partition(" ")
        if kind == "tc":
            tc.append("tc " + rest)
        elif kind == "b":
            asks.append(bytes.fromhex(rest))
        elif kind == "a":
            at, _, words = rest.partition(" ")
            actions.append((int(at), words))
        elif kind == "ip":
            tc.append("ip " + rest)
        elif kind == "p":
            at, priority, departure, size, head, *segment = rest.split()
            frame = bytes.fromhex(head).ljust(int(size), b"\0")
            packets.append((int(at), int(priority), None if departure == "-" else int(departure), frame))
            segments.append(int(segment[0]) if segment else 0)
    lines = [f"b {bucket}" for bucket in buckets(asks)] if asks else []
    link, said = Link(), []
    for words in tc:
        sh(words.replace("DEV", "v0"))
    timed = any(packet[2] is not None for packet in packets)
    if timed:
        link.tx.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", time.CLOCK_MONOTONIC, 0))
    if any(segments):
        link.tx.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        packets = [(*head, virtio(frame, size) + frame) for (*head, frame), size in zip(packets, segments)]
    size = max(segments, default=0)
    start = mono() + 50_000_000
    a, wall, b = mono(), time.clock_gettime_ns(time.CLOCK_REALTIME), mono()
    offset = wall - (a + b) // 2 + start
    sent, last = [], None
    for at, priority, departure, frame in packets:
        while actions and actions[0][0] <= at:
            when, words = actions.pop(0)
            sleep_until(start + when)
            said += sh(words.replace("DEV", "v0")).splitlines()
        if priority != last:
            link.tx.setsockopt(socket.SOL_SOCKET, SO_PRIORITY, priority)
            last = priority
        sleep_until(start + at)
        sent.append(mono() - start)
        try:
            if departure is None:
                link.tx.send(frame)
            else:
                when = struct.pack("Q", start + departure)
                link.tx.sendmsg([frame], [(socket.SOL_SOCKET, SO_TXTIME, when)])
        except OSError:
            pass  # refused by the queue
    came = []
    while len(came) < 2 * len(packets) + sum(len(frame) // 1000 for *_, frame in packets if size):
        try:
            data, ancillary, _, _ = link.rx.recvmsg(128, 128)
        except socket.timeout:
            break
        s, ns = struct.unpack("qq", ancillary[0][2][:16])
        first, payload = int.from_bytes(data[18:20], "big"), int.from_bytes(data[16:18], "big") - IPV4 - TCP
        for place in range(-(-payload // size) if size else 1):
            came.append((first + place, s * 10**9 + ns - offset, data[15]))
    said += sh("tc -s qdisc show dev v0").splitlines() + sh("tc -s class show dev v0").splitlines()
    link.close()
    lines = [f"t {start}", *lines, *(f"i {at}" for at in sent), *(f"o {i} {at} {tos}" for i, at, tos in came)]
    with open(out, "w") as o:
        o.write("\n".join(lines + ["s " + line for line in said]) + "\n")
    return f"{os.path.basename(job)}: {len(packets)} sent, {len(came)} came out"


sh("ip link set lo up; ip netns add RX; ip -n RX link set lo up")
sh("sysctl -qw net.core.wmem_max=300000000 net.core.rmem_max=300000000")
for job in sys.argv[1:]:
    try:
        print(run(job, os.path.splitext(job)[0] + ".out"), flush=True)
    except Exception as error:
        print(f"{os.path.basename(job)}: FAILED: {error}", flush=True)
        os.system("ip link del v0 2>/dev/null")

#!/usr/bin/env python3
"""Our programs against a real Linux TCP in simulated time: they run unchanged inside the simulated kernel.

    peer.py RIG BIN [SEED...]    RIG is a folder as tcp.py wants it, BIN the folder of the built examples; seed 1 if none is given

Linux (namespace A) - router with netem either way - our stack over AF_XDP (namespace B). A file is sent each way over each path
of PATHS by CUBIC and by BBR, over IPv4 and, where the rig's kernel has it, IPv6; all digests must be equal. Everything is done
twice with each seed, by two boots: then the two captures of each transfer at A must be equal byte for byte, and where they are
not, the first packet that differs is shown. Prints a line for each transfer.
"""
import json
import os
import struct
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import rig  # noqa: E402

BYTES = 4_000_000
# What netem does in each direction.
PATHS = {
    "delay": "delay 10ms",
    "jitter": "delay 10ms 2ms",  # which is reordering by up to 4 ms
    "loss": "delay 10ms loss 1%",
    "overtaking": "delay 10ms reorder 5%",  # which leave at once
    "corruption": "delay 10ms corrupt 0.5%",
    "all": "delay 10ms 2ms loss 1% reorder 2% duplicate 0.5% corrupt 0.2%",
}
# AF_XDP wants locked memory.
JOB = """
. $RIG/sim-topo.sh
ulimit -l unlimited
families=4
if [ -d /proc/sys/net/ipv6 ]; then
    families='4 6'
    ip -n A addr add fd91:1::1/64 dev a0 nodad; ip -n R addr add fd91:1::254/64 dev r0 nodad
    ip -n B addr add fd91:2::1/64 dev b0 nodad; ip -n R addr add fd91:2::254/64 dev r1 nodad
    ip -n A route add default via fd91:1::254; ip -n B route add default via fd91:2::254
    ip netns exec R sysctl -qw net.ipv6.conf.all.forwarding=1
fi
head -c BYTES /dev/zero | openssl enc -aes-128-ctr -K 00 -iv 00 2>/dev/null >/dev/shm/file
transfer() { # NAME: WHO-CC-PATH-FAMILY
    local who cc path family theirs=10.91.1.1 ours=10.91.2.9 prefix=24 gateway=10.91.2.254
    IFS=- read -r who cc path family <<<"$1"
    [ $family = 4 ] || { theirs=[fd91:1::1] ours=fd91:2::9 prefix=64 gateway=fd91:2::254; }
    local options="--iface b0 --ip $ours/$prefix --gateway $gateway --cc $cc --json --summary $LAB/$1.ours"
    ip netns exec A sysctl -qw net.ipv4.tcp_congestion_control=$cc
    ip netns exec A dumpcap -q -P -i a0 -f tcp -s 128 -w /dev/shm/capture >/dev/null 2>&1 & capture=$!
    sleep 1
    if [ $who = we_send ]; then
        ip netns exec A BIN/kernel_peer receive --listen $theirs:5001 >$LAB/$1.theirs 2>&1 & peer=$!
        sleep 1
        ip netns exec B BIN/sender $options --to $theirs:5001 --file /dev/shm/file >$LAB/$1.log 2>&1
    else
        [ $family = 4 ] || ours=[$ours]
        ip netns exec B BIN/receiver $options --listen 5001 >$LAB/$1.log 2>&1 & peer=$!
        sleep 1
        ip netns exec A BIN/kernel_peer send --to $ours:5001 --file /dev/shm/file >$LAB/$1.theirs 2>&1
    fi
    wait $peer
    sleep 1; kill -INT $capture; wait $capture
    cp /dev/shm/capture $LAB/$1.pcap
}
over() { # PATH NETEM...
    local path=$1 family who cc
    shift
    for d in r0 r1; do tc -n R qdisc replace dev $d root netem "$@" limit 10000 || exit 1; done
    for family in $families; do for who in we_send linux_sends; do for cc in cubic bbr; do
        transfer $who-$cc-$path-$family
    done; done; done
}
sha256sum </dev/shm/file >$LAB/digest
PATHS
"""


def last_object(path):
    """What a program said last; nothing if it said nothing."""
    if not os.path.exists(path):
        return {}
    lines = [line for line in open(path) if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}


def packets(capture):
    """The packets of a capture file: (seconds, their fraction, length on the wire, the first bytes)."""
    at = 24
    while at < len(capture):
        seconds, fraction, kept, length = struct.unpack_from("<IIII", capture, at)
        yield seconds, fraction, length, capture[at + 16 : at + 16 + kept]
        at += 16 + kept


def run(folder, binaries, seed):
    """One boot: for each transfer (whether the digests agree, our figures, the capture)."""
    paths = "\n".join(f"over {name} {netem}" for name, netem in PATHS.items())
    job = JOB.replace("BYTES", str(BYTES)).replace("BIN", binaries).replace("PATHS", paths)
    with rig.Boot(folder, seed, job) as boot:
        results = {}
        names = sorted((file[:-5] for file in os.listdir(boot.folder) if file.endswith(".pcap")),
                       key=lambda name: os.path.getmtime(f"{boot.folder}/{name}.pcap"))
        if not names:
            sys.exit(f"nothing was transferred\n{boot.said}")
        digest = open(f"{boot.folder}/digest").read().split()[0]
        for name in names:
            ours, theirs = last_object(f"{boot.folder}/{name}.ours"), last_object(f"{boot.folder}/{name}.theirs")
            if not ours or not theirs:
                print(open(f"{boot.folder}/{name}.log").read()[-2000:], file=sys.stderr)
            good = ours.get("sha256") == theirs.get("sha256") == digest
            results[name] = good, ours, open(f"{boot.folder}/{name}.pcap", "rb").read()
        return results


def difference(first, second):
    """The first packet in which two captures differ, in words."""
    first, second = list(packets(first)), list(packets(second))
    for number, (one, other) in enumerate(zip(first, second), 1):
        if one != other:
            return "\n".join([f"  packet {number}:"] + [f"  {s}.{f:09} {n} bytes {data[14:].hex()}" for s, f, n, data in (one, other)])
    return f"  {len(first)} packets, then {len(second)}"


def main():
    folder, binaries = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    transfers = right = equal = 0
    for seed in [int(word) for word in sys.argv[3:]] or [1]:
        first, again = run(folder, binaries, seed), run(folder, binaries, seed)
        for name in sorted(first.keys() | again.keys(), key=list(first | again).index):
            if name not in first or name not in again:
                print(f"seed {seed}, {name}: only in one run")
                transfers += 1
                continue
            good, ours, capture = first[name]
            good, same, count = good and again[name][0], capture == again[name][2], sum(1 for _ in packets(capture))
            transfers, right, equal = transfers + 1, right + good, equal + (same and count > 0)
            print(f"seed {seed}, {name}: digests {'equal' if good else 'DIFFER'}, {ours.get('seconds')} s simulated, {count} packets, "
                  f"{ours.get('retransmits')} retransmissions, {ours.get('timeouts')} timeouts, "
                  f"captures {'equal' if same and count else 'DIFFER'}", flush=True)
            if not same:
                print(difference(capture, again[name][2]))
    print(f"{transfers} transfers, each twice: all digests equal in {right}, the captures equal in {equal}")
    sys.exit(not transfers == right == equal)


main()

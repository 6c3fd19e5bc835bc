#!/usr/bin/env python3
"""Our programs against a real Linux TCP in simulated time: they run unchanged inside the simulated kernel.

    peer.py RIG BIN [SEED]       RIG is a folder as tcp.py wants it, BIN the folder of the built examples

Linux (namespace A) - router with netem either way - our stack over AF_XDP (namespace B). A file is sent each way
through delay, loss, reordering and duplication, by CUBIC and by BBR (the simulated kernel has no IPv6); all digests must be equal. Everything is done twice with one seed: then the two
captures of each transfer at A must be equal byte for byte. Prints a line for each transfer.
"""
import hashlib
import json
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import rig  # noqa: E402

BYTES = 4_000_000
# AF_XDP wants locked memory; the time of a process's sleep is exact only without slack.
JOB = """
. $RIG/sim-topo.sh
ulimit -l unlimited
for d in r0 r1; do tc -n R qdisc add dev $d root netem delay 10ms 2ms loss 1% reorder 2% 50% duplicate 0.5% limit 10000 || exit 1; done
head -c BYTES /dev/zero | openssl enc -aes-128-ctr -K 00 -iv 00 2>/dev/null >/dev/shm/file
transfer() { # NAME CC
    local to
    ours="--iface b0 --ip 10.91.2.9/24 --gateway 10.91.2.254 --cc $2 --json"
    ip netns exec A dumpcap -q -i a0 -f tcp -s 128 -w /dev/shm/capture >/dev/null 2>&1 & capture=$!
    sleep 1
    to=10.91.1.1; [ $1 = we_send ] || to=10.91.2.9
    if [ $1 = we_send ]; then
        ip netns exec A BIN/kernel_peer receive --listen $to:5001 >$LAB/$1-$2.theirs 2>&1 & peer=$!
        sleep 1
        ip netns exec B BIN/sender $ours --to $to:5001 --file /dev/shm/file --summary $LAB/$1-$2.ours >$LAB/$1-$2.log 2>&1
    else
        ip netns exec B BIN/receiver $ours --listen 5001 --summary $LAB/$1-$2.ours >$LAB/$1-$2.log 2>&1 & peer=$!
        sleep 1
        ip netns exec A BIN/kernel_peer send --to $to:5001 --file /dev/shm/file >$LAB/$1-$2.theirs 2>&1
    fi
    wait $peer
    sleep 1; kill -INT $capture; wait $capture
    tshark -r /dev/shm/capture -T fields -e frame.time_epoch -e frame.len -e tcp.seq_raw -e tcp.ack_raw -e tcp.flags -e tcp.options \\
        >$LAB/$1-$2.capture 2>/dev/null
}
for cc in cubic bbr; do transfer we_send $cc; transfer we_receive $cc; done
sha256sum </dev/shm/file >$LAB/digest
"""


def last_object(path):
    lines = [line for line in open(path) if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}


def run(folder, binaries, seed):
    """One boot: for each transfer (what went well, figures, digest of the capture)."""
    job = JOB.replace("BYTES", str(BYTES)).replace("BIN", binaries)
    with rig.Boot(folder, seed, job) as boot:
        digest = open(f"{boot.folder}/digest").read().split()[0]
        results = {}
        for name in ("we_send-cubic", "we_receive-cubic", "we_send-bbr", "we_receive-bbr"):
            ours, theirs = last_object(f"{boot.folder}/{name}.ours"), last_object(f"{boot.folder}/{name}.theirs")
            capture = open(f"{boot.folder}/{name}.capture", "rb").read()
            if not ours or not theirs:
                print(open(f"{boot.folder}/{name}.log").read()[-2000:], file=sys.stderr)
            good = ours.get("sha256") == theirs.get("sha256") == digest
            results[name] = good, ours, capture.count(b"\n"), hashlib.sha256(capture).hexdigest()
        return results


def main():
    folder, binaries = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    first, again = run(folder, binaries, seed), run(folder, binaries, seed)
    failed = False
    for name, (good, ours, packets, capture) in first.items():
        same = capture == again[name][3] and packets > 0
        failed |= not (good and again[name][0] and same)
        print(f"{name}: digests {'equal' if good else 'DIFFER'}, {ours.get('seconds')} s simulated, {packets} packets, "
              f"{ours.get('retransmits')} retransmissions, {ours.get('timeouts')} timeouts, captures {'equal' if same else 'DIFFER'}")
    sys.exit(failed)


main()

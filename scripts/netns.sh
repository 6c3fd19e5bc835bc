# Sourced by scripts/demo and scripts/check-cleanup: builds the examples; two network namespaces joined by a veth pair.
#
# After make_pair, $a and $b name the namespaces; the interface is va in $a and vb in $b; the kernels have 10.7.0.11 and
# 10.7.0.12, and 10.7.0.1 and 10.7.0.2 are free for our stacks; of IPv6 the same with fd07:: for 10.7.0. Names end in the process
# number, so runs do not meet.
# shellcheck shell=bash

. scripts/build.sh

a=tl-$(basename "$0")-a-$$ b=tl-$(basename "$0")-b-$$

die() { echo "$(basename "$0"): $*" >&2; exit 1; }
say() { printf '* %s\n' "$*"; }

build_examples() { # FEATURES BINARY...: leaves the directory of the binaries in $bin; measurements are of the profile fat
    local features=$1 arguments=() profile=release
    case $(basename "$0") in bench-*) profile=fat ;; esac
    shift
    for binary in "$@"; do arguments+=(--bin "$binary"); done
    # shellcheck disable=SC2086 # features may be no word at all
    build $profile tautline-examples $features "${arguments[@]}"
}

need_af_xdp() {
    grep -q '^XDP ' /proc/net/protocols || die 'this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)'
    scripts/setup --check >/dev/null 2>&1 || scripts/setup
}

make_pair() {
    say "namespaces $a and $b, joined by a veth pair"
    ip netns add "$a"
    ip netns add "$b"
    ip link add va netns "$a" type veth peer name vb netns "$b"
    ip -n "$a" link set va up
    ip -n "$b" link set vb up
}

# A kernel peer on veth leaves checksums and segmentation to hardware that is not there.
switch_off_offloads() {
    say "switching off tx checksum, tso, gso and gro of the kernel at both ends"
    ip netns exec "$a" ethtool -K va tx off tso off gso off gro off >/dev/null
    ip netns exec "$b" ethtool -K vb tx off tso off gso off gro off >/dev/null
}

kernel_addresses() { # INTERFACE_A INTERFACE_B
    ip -n "$a" addr add 10.7.0.11/24 dev "$1"
    ip -n "$b" addr add 10.7.0.12/24 dev "$2"
    # Without duplicate address detection they can be used at once.
    ip -n "$a" addr add fd07::11/64 dev "$1" nodad
    ip -n "$b" addr add fd07::12/64 dev "$2" nodad
}

# The address of host number NUMBER in the network of the pair, as a URL has it with `url`.
address() { # 4|6 NUMBER [url]
    case $1${3:+u} in
    4 | 4u) echo "10.7.0.$2" ;;
    6) echo "fd07::$2" ;;
    6u) echo "[fd07::$2]" ;;
    esac
}
prefix() { [ "$1" = 4 ] && echo 24 || echo 64; } # 4|6

# A process that is still in one of them would keep it, and run on: one that a check started and did not come to end.
remove_pair() {
    local namespace processes
    for namespace in "$a" "$b"; do
        processes=$(ip netns pids "$namespace" 2>/dev/null) || continue
        # shellcheck disable=SC2086 # one word for each process
        [ -z "$processes" ] || kill $processes 2>/dev/null || true
        ip netns del "$namespace"
    done
}

# The XDP program is gone with its owner, and the kernels have their interfaces back.
kernels_have_the_pair() {
    local namespace
    for namespace in "$a" "$b"; do
        [[ $(ip -n "$namespace" -d link) != *xdp* ]] || { echo "an XDP program is left in $namespace" >&2; return 1; }
    done
    ip netns exec "$b" ping -q -c 1 -W 2 10.7.0.11 >/dev/null &&
        ip netns exec "$a" ping -q -c 1 -W 2 10.7.0.12 >/dev/null ||
        { echo 'a kernel does not answer pings' >&2; return 1; }
}

# Waits for the line that a receiver prints once it listens; fails if the process PID ends before. PID writes its output or its
# errors to LOG; until it has opened and so emptied LOG, a line there is that of the process before.
wait_for_listener() { # PID LOG
    local tries
    for tries in $(seq 100); do
        ! { [ "/proc/$1/fd/1" -ef "$2" ] || [ "/proc/$1/fd/2" -ef "$2" ]; } || ! grep -q '^listening' "$2" || return 0
        kill -0 "$1" 2>/dev/null || break
        sleep 0.1
    done
    cat "$2" >&2
    return 1
}

# A TCP listener on the kernel's sockets, of a program that does not say that it listens.
wait_for_port() { # NETNS PORT
    local tries
    for tries in $(seq 100); do
        [ -z "$(ip netns exec "$1" ss -Hltn "sport = $2")" ] || return 0
        sleep 0.1
    done
    die "nobody listens on port $2"
}

# The middle one of the numbers in FILE, one a line; the lower of two.
median() { # FILE
    sort -g "$1" | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

# The kernel's ends of a bulk transfer, in FOLDER: `python3 sink ADDRESS` prints Gbit/s of payload, `python3 source ADDRESS SECONDS`
# sends. One system call moves a MiB, so the language costs nothing that counts.
write_kernel_ends() { # FOLDER
    cat >"$1/sink" <<'END'
import socket, sys, time
listener = socket.create_server((sys.argv[1], 5001))
print("listening", file=sys.stderr, flush=True)
stream = listener.accept()[0]
block, total, begun = bytearray(1 << 20), 0, time.monotonic()
while count := stream.recv_into(block):
    total += count
print("%.2f" % (total * 8 / (time.monotonic() - begun) / 1e9))
END
    cat >"$1/source" <<'END'
import socket, sys, time
stream = socket.create_connection((sys.argv[1], 5001))
block, end = bytes(range(256)) * 4096, time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    stream.sendall(block)
stream.shutdown(socket.SHUT_WR)
while stream.recv(64):
    pass
END
}

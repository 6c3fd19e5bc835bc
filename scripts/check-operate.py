"""Clients of the HTTP servers that scripts/check-operate starts.

check-operate.py replace PORT SECONDS      replaces the qdiscs of a middlebox, and accounts for every packet
check-operate.py transfer SENDER RECEIVER  reads the counters of both ends of a transfer, by their ports
"""

import http.client
import json
import sys
import time

from prometheus_client.parser import text_string_to_metric_families

PER_SECOND = 100
QDISCS = ["fq_codel", "pfifo limit 1000", "cake bandwidth 100mbit", "fq_codel limit 2000", "codel", "sfq"]


def ask(port, method, path, body=None, expected=200, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    if body:
        headers["Content-Type"] = "application/json"
    connection.request(method, path, body and json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    assert answer.status == expected, f"{method} {path} {headers}: {answer.status} {text}"
    return text


def parse(text):
    """Samples by name and labels, as Prometheus's own library reads them; no series comes twice."""
    samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("counter", "gauge", "histogram"), family
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in samples, f"twice: {sample}"
            samples[key] = sample.value
    return samples


def replace(port, seconds):
    replaced, started = 0, time.monotonic()
    while (elapsed := time.monotonic() - started) < seconds:
        if replaced >= elapsed * PER_SECOND:
            time.sleep(replaced / PER_SECOND - elapsed)
        words = QDISCS[replaced % len(QDISCS)]
        for way in ("to_right", "to_left"):
            ask(port, "POST", "/control", {"command": "replace", "way": way, "words": words})
        replaced += 1
    rate = replaced / seconds
    print(f"* {replaced} replacements of each direction, {rate:.0f} a second")
    assert rate > 0.9 * PER_SECOND, "too slow"

    for way in json.loads(ask(port, "GET", "/state"))["ports"]:
        dropped = sum(count for why, count in way["drops"] if why not in ("no frame free", "too long"))
        gone = way["taken"]["packets"] - way["sent"]["packets"] - way["backlog"]["packets"] - dropped
        print(f"* {way['name']}: {way['taken']['packets']} packets, {dropped} dropped, {gone} unaccounted for; {way['drops']}")
        assert gone == 0 and way["taken"]["packets"] > 1000

    samples = parse(ask(port, "GET", "/metrics"))
    for name in ("bytes_total", "packets_total", "drops_total", "overlimits_total", "current_queue_length", "backlog"):
        assert sum(found == f"node_qdisc_{name}" for found, _ in samples) == 2, name
    hosts = {labels for name, labels in samples if name == "tautline_host_bytes_total"}
    assert any(("address", "10.7.0.11") in labels and ("end", "source") in labels for labels in hosts), hosts
    print(f"* /metrics: {len(samples)} samples, with the names of node_exporter's qdisc collector")


QDISC = ("bytes_total", "packets_total", "drops_total", "overlimits_total", "current_queue_length", "backlog")
TCP = (
    "tcp_acked_bytes_total", "tcp_received_bytes_total", "tcp_cwnd_bytes", "tcp_srtt_seconds", "tcp_retransmits_total", "tcp_timeouts_total",
    "tsq_bytes", "tsq_limit_bytes", "tsq_throttles_total", "ring_bytes", "ring_limit_bytes",
)


def values(port):
    """Values of the series that are of the whole connection, by name, and seconds blocked by cause."""
    samples = parse(ask(port, "GET", "/metrics"))
    found = {name: value for (name, labels), value in samples.items() if [label for label, _ in labels] in (["device"], ["device", "kind"])}
    missing = [name for name in [*(f"node_qdisc_{name}" for name in QDISC), *(f"tautline_{name}" for name in TCP)] if name not in found]
    assert not missing, f"{missing} of {sorted(found)}"
    blocked = {dict(labels)["cause"]: value for (name, labels), value in samples.items() if name == "tautline_tcp_blocked_seconds_total"}
    return found, blocked


def transfer(sender, receiver):
    """The sender is shaped to 20 Mbit/s and does not pace, so that TCP Small Queues holds it back."""
    (before, blocked_before), started = values(sender), time.monotonic()
    time.sleep(2)
    (after, blocked), seconds = values(sender), time.monotonic() - started
    received, _ = values(receiver)
    rate = {name: (after[name] - before[name]) / seconds for name in after}
    mbit = rate["tautline_tcp_acked_bytes_total"] * 8 / 1e6
    shares = {cause: (blocked[cause] - blocked_before[cause]) / seconds for cause in blocked}
    cause = max(shares, key=shares.get)
    print(
        f"* /metrics of a transfer: {mbit:.1f} Mbit/s, TSQ {after['tautline_tsq_bytes']:.0f} of {after['tautline_tsq_limit_bytes']:.0f} bytes, "
        f"{rate['tautline_tsq_throttles_total']:.0f} stalls a second, blocked by {cause} {100 * shares[cause]:.0f} % of the time"
    )
    assert 10 < mbit < 21 and cause == "tsq" and 0.8 < sum(shares.values()) < 1.1, (mbit, shares)
    # For packets of many segments the limit is at most 128 KiB (paper 001, algorithm 2), and with as much below it one more may
    # leave: 64 KiB, counted with the headers of its 45 segments.
    most = (128 << 10) + 45 * 1514
    assert after["tautline_tsq_bytes"] <= most and after["tautline_tcp_srtt_seconds"] > 0, after
    assert rate["tautline_tsq_throttles_total"] > 10, rate
    # The SYN is acknowledged, too, and no payload; if nothing arrived since, it shows.
    assert received["tautline_tcp_received_bytes_total"] + 1 >= after["tautline_tcp_acked_bytes_total"] > 1
    ask(sender, "GET", "/state", Host="evil.example", expected=421)
    ask(sender, "GET", "/state", Origin="http://evil.example", expected=403)
    ask(sender, "POST", "/control", {"command": "replace", "way": "to_right", "words": "pfifo"}, expected=422)


if __name__ == "__main__":
    {"replace": replace, "transfer": transfer}[sys.argv[1]](*(int(word) for word in sys.argv[2:]))

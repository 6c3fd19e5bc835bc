"""Replaces the qdiscs of a middlebox over its HTTP server, and accounts for every packet: check-operate.py PORT SECONDS."""

import http.client
import json
import sys
import time

from prometheus_client.parser import text_string_to_metric_families

PORT, SECONDS, PER_SECOND = int(sys.argv[1]), float(sys.argv[2]), 100
QDISCS = ["fq_codel", "pfifo limit 1000", "cake bandwidth 100mbit", "fq_codel limit 2000", "codel", "sfq"]


def ask(method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=10)
    headers = {"Content-Type": "application/json"} if body else {}
    connection.request(method, path, body and json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    assert answer.status == 200, f"{method} {path}: {answer.status} {text}"
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


replaced, started = 0, time.monotonic()
while (elapsed := time.monotonic() - started) < SECONDS:
    if replaced >= elapsed * PER_SECOND:
        time.sleep(replaced / PER_SECOND - elapsed)
    words = QDISCS[replaced % len(QDISCS)]
    for way in ("to_right", "to_left"):
        ask("POST", "/control", {"command": "replace", "way": way, "words": words})
    replaced += 1
rate = replaced / SECONDS
print(f"* {replaced} replacements of each direction, {rate:.0f} a second")
assert rate > 0.9 * PER_SECOND, "too slow"

for port in json.loads(ask("GET", "/state"))["ports"]:
    dropped = sum(count for why, count in port["drops"] if why not in ("no frame free", "too long"))
    gone = port["taken"]["packets"] - port["sent"]["packets"] - port["backlog"]["packets"] - dropped
    print(f"* {port['name']}: {port['taken']['packets']} packets, {dropped} dropped, {gone} unaccounted for; {port['drops']}")
    assert gone == 0 and port["taken"]["packets"] > 1000

samples = parse(ask("GET", "/metrics"))
for name in ("bytes_total", "packets_total", "drops_total", "overlimits_total", "current_queue_length", "backlog"):
    assert sum(found == f"node_qdisc_{name}" for found, _ in samples) == 2, name
hosts = {labels for name, labels in samples if name == "tautline_host_bytes_total"}
assert any(("address", "10.7.0.11") in labels and ("end", "source") in labels for labels in hosts), hosts
print(f"* /metrics: {len(samples)} samples, with the names of node_exporter's qdisc collector")

"""Replaces the qdiscs of a middlebox over its HTTP server, and accounts for every packet: check-operate.py PORT SECONDS."""

import http.client
import json
import re
import sys
import time

PORT, SECONDS, PER_SECOND = int(sys.argv[1]), float(sys.argv[2]), 100
QDISCS = ["fq_codel", "pfifo limit 1000", "cake bandwidth 100mbit", "fq_codel limit 2000", "codel", "sfq"]
# The text format 0.0.4: a comment, or a name with labels and a value.
LABEL = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"([a-zA-Z_:][\w:]*)(?:\{{({LABEL}(?:,{LABEL})*)?\}})? (\S+)")
HELP = re.compile(r"# HELP ([a-zA-Z_:][\w:]*) \S.*")
TYPE = re.compile(r"# TYPE ([a-zA-Z_:][\w:]*) (counter|gauge|histogram)")


def ask(method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=10)
    headers = {"Content-Type": "application/json"} if body else {}
    connection.request(method, path, body and json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    assert answer.status == 200, f"{method} {path}: {answer.status} {text}"
    return text


def parse(text):
    """Samples by name and labels; every one has a type, and no series comes twice."""
    types, samples, helps = {}, {}, set()
    for line in text.splitlines():
        if found := HELP.fullmatch(line):
            assert found[1] not in helps and found[1] not in types, line
            helps.add(found[1])
            continue
        if found := TYPE.fullmatch(line):
            assert found[1] not in types, line
            types[found[1]] = found[2]
            continue
        found = SAMPLE.fullmatch(line)
        assert found, f"not Prometheus text: {line}"
        name, labels = found[1], found[2] or ""
        family = re.sub("_(bucket|sum|count)$", "", name)
        assert name in types or types.get(family) == "histogram", f"no type: {line}"
        assert (name, labels) not in samples, f"twice: {line}"
        samples[name, labels] = float(found[3])
    assert helps == set(types), helps ^ set(types)
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
print(f"* /metrics: {len(samples)} samples, with the names of node_exporter's qdisc collector")

"""The programs of scripts/check-gateway.

    serve                          an HTTP server on 127.0.0.1:8799 and [::1]:8799; /N is a body of N bytes
    ipv6 ADDRESS                   pings and fetches over IPv6
    download ADDRESS FLOWS DONE    fetches on FLOWS connections until the file DONE exists
    measure ADDRESS DIRECTORY      pings and fetches, idle and then after it has made DIRECTORY/go
    echo PORT                      echoes datagrams and connections of both families until a datagram says so; each must have come from the
                                   gateway's address of either
    ask PORT                       compares the echoes at PORT of 127.0.0.1 and ::1, and then ends the server
"""

import hashlib
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 8799
PAGE, BULK = 10_000, 1 << 20


def body(count):
    pattern = hashlib.sha256(b"check-gateway").digest() * 2048
    return (pattern * (count // len(pattern) + 1))[:count]


class Bodies(BaseHTTPRequestHandler):
    def do_GET(self):
        count = int(self.path[1:])
        self.send_response(200)
        self.send_header("Content-Length", str(count))
        self.end_headers()
        self.wfile.write(body(count))

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128


class ServerV6(Server):
    address_family = socket.AF_INET6


def fetch(address, count):
    start = time.monotonic()
    with urllib.request.urlopen(f"http://{address}:{PORT}/{count}", timeout=30) as answer:
        received = answer.read()
    assert received == body(count), f"{len(received)} bytes of {count}"
    return time.monotonic() - start


def download(address, flows, done):
    def loop():
        while not os.path.exists(done):
            fetch(address, BULK)

    threads = [threading.Thread(target=loop, daemon=True) for _ in range(flows)]
    for thread in threads:
        thread.start()
    while not os.path.exists(done):
        time.sleep(0.1)


def pings(address):
    """Round trips in microseconds, from the least."""
    command = ["ping", "-i", "0.02", "-c", "150", "-W", "2", address]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return sorted(float(found) * 1e3 for found in re.findall(r"time=([\d.]+) ms", output))


def quantities(address):
    trips = pings(address)
    fetches = [fetch(address, PAGE) for _ in range(10)]
    return trips[len(trips) * 95 // 100], statistics.median(fetches) * 1e6


def measure(address, directory):
    idle = quantities(address)
    open(f"{directory}/go", "w").close()
    time.sleep(2)
    loaded = quantities(address)
    open(f"{directory}/done", "w").close()
    words = (f"{what} idle {before / 1e3:.1f} ms, loaded {after / 1e3:.1f} ms" for what, before, after in zip(("ping p95", "fetch"), idle, loaded))
    print("; ".join(words))
    print(max(0, int(loaded[0] - idle[0])))


END = b"end"


def echo(port):
    listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    connected, sent = set(), set()

    def accept():
        while True:
            end, client = listener.accept()
            connected.add(client[0])
            with end:
                while data := end.recv(1 << 16):
                    end.sendall(data)

    threading.Thread(target=accept, daemon=True).start()
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as end:
        end.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        end.bind(("::", port))
        data = b""
        while data != END:
            data, client = end.recvfrom(2000)
            sent.add(client[0])
            end.sendto(data, client)
    gateways = {"::ffff:10.0.2.2", "fd00:a00:200::2"}
    assert connected == sent == gateways, f"connections from {connected}, datagrams from {sent}"


def ask_by_datagram(family, address, data):
    with socket.socket(family, socket.SOCK_DGRAM) as end:
        end.settimeout(0.2)
        for _ in range(50):  # until the gateway and the server run
            end.sendto(data, address)
            try:
                received = end.recv(2000)
            except (TimeoutError, ConnectionRefusedError):
                continue
            assert received == data, f"{len(received)} bytes of {len(data)}"
            return
    raise AssertionError(f"no answer from {address}")


def ask(port):
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        for count in (1, 1200):
            ask_by_datagram(family, (host, port), body(count))
        with socket.create_connection((host, port), 5) as end:
            end.settimeout(5)
            end.sendall(body(BULK // 8))
            end.shutdown(socket.SHUT_WR)
            received = b"".join(iter(lambda: end.recv(1 << 16), b""))
        assert received == body(BULK // 8), f"{len(received)} bytes"
    ask_by_datagram(family, (host, port), END)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        server = Server(("127.0.0.1", PORT), Bodies)
        second = ServerV6(("::1", PORT), Bodies)
        threading.Thread(target=second.serve_forever, daemon=True).start()
        print("listening", flush=True)
        server.serve_forever()
    elif sys.argv[1] == "download":
        download(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    elif sys.argv[1] == "ipv6":
        assert len(pings(sys.argv[2])) > 140
        fetch(f"[{sys.argv[2]}]", BULK)
    elif sys.argv[1] == "echo":
        echo(int(sys.argv[2]))
    elif sys.argv[1] == "ask":
        ask(int(sys.argv[2]))
    else:
        measure(sys.argv[2], sys.argv[3])

"""Both ends of scripts/check-netstack.

    serve PROXY ADDRESS...   a SOCKS 5 and HTTP CONNECT server on PROXY, and the destinations at each ADDRESS
    use ADDRESS PID          the clients; PID is the process that must leave nothing behind
    use ADDRESS PID tcp      the same without datagrams, which an HTTP proxy does not take
"""

import asyncio
import errno
import hashlib
import ipaddress
import json
import os
import socket
import struct
import subprocess
import sys
import time

SOCKS, HTTP, ECHO, RESETS, CLOSED, HANGS, UNREACHABLE = 1080, 80, 7, 83, 81, 82, 84
BYTES = 16 << 20
CONNECTIONS, AT_ONCE = 1700, 100  # 10 200 in all
DEADLINE = 2.0  # of `--connect-timeout`
REPLIES = {errno.ECONNREFUSED: 5, errno.EHOSTUNREACH: 4, errno.ENETUNREACH: 3}
STATUS = {errno.EHOSTUNREACH: 504, errno.ENETUNREACH: 504}

hung = []  # seconds that each hanging request was held
serving = set()  # asyncio itself holds its tasks weakly


def body(count):
    pattern = hashlib.sha256(b"check-netstack").digest() * 2048
    return (pattern * (count // len(pattern) + 1))[:count]


# The proxy (RFC 1928, RFC 9110 section 9.3.6), without login.


def packed(host, port):
    ip = ipaddress.ip_address(host)
    return bytes([1 if ip.version == 4 else 4]) + ip.packed + struct.pack(">H", port)


async def read_address(read):
    length, family = {1: (4, socket.AF_INET), 4: (16, socket.AF_INET6)}[(await read(1))[0]]
    host = socket.inet_ntop(family, await read(length))
    return host, struct.unpack(">H", await read(2))[0]


async def copy(reader, writer):
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def proxy(reader, writer):
    first = await reader.readexactly(1)
    if first == b"C":
        return await http_proxy(reader, writer)
    assert first + await reader.readexactly(2) == b"\x05\x01\x00"
    writer.write(b"\x05\x00")
    _, command, _ = await reader.readexactly(3)
    to = await read_address(reader.readexactly)
    if command == 3:
        return await relay(reader, writer)

    def answer(number):
        code = REPLIES.get(number, 1) if number else 0
        return bytes([5, code, 0]) + packed("0.0.0.0", 0)

    await tunnel(to, reader, writer, answer)


async def http_proxy(reader, writer):
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    method, to, _ = head.split("\r\n")[0].split(" ")
    assert method == "ONNECT", head
    host, port = to.rsplit(":", 1)

    def answer(number):
        status = STATUS.get(number, 502) if number else 200
        return f"HTTP/1.1 {status} As asked\r\n\r\n".encode()

    await tunnel((host.strip("[]"), int(port)), reader, writer, answer)


async def tunnel(to, reader, writer, answer):
    """Connects to `to` and copies both ways; `answer` turns an error number, or 0, into the proxy's words."""
    host, port = to
    if port == HANGS:
        start = time.monotonic()
        await reader.read(1)
        hung.append(time.monotonic() - start)
        return
    try:
        if port == UNREACHABLE:
            raise OSError(errno.EHOSTUNREACH, "as asked")
        upstream = await asyncio.open_connection(host, port)
    except OSError as error:
        writer.write(answer(error.errno))
        return
    writer.write(answer(0))
    try:
        await asyncio.gather(copy(reader, upstream[1]), copy(upstream[0], writer))
        upstream[1].close()
    except ConnectionError:
        for end in (upstream[1], writer):
            reset(end)


class Relay(asyncio.DatagramProtocol):
    """One association: datagrams from the client are wrapped (RFC 1928 section 7), the others are for it."""

    def __init__(self):
        self.client = None
        self.out = {}

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, sender):
        self.client = sender
        length, family = {1: (4, socket.AF_INET), 4: (16, socket.AF_INET6)}[data[3]]
        host, rest = socket.inet_ntop(family, data[4 : 4 + length]), data[4 + length :]
        to = (host, struct.unpack(">H", rest[:2])[0])
        asyncio.ensure_future(self.forward(to, rest[2:]))

    async def forward(self, to, data):
        relay = self

        class Back(asyncio.DatagramProtocol):
            def datagram_received(self, data, sender):
                relay.transport.sendto(b"\0\0\0" + packed(*sender[:2]) + data, relay.client)

        if to not in self.out:
            loop = asyncio.get_running_loop()
            self.out[to], _ = await loop.create_datagram_endpoint(Back, remote_addr=to)
        self.out[to].sendto(data)


async def relay(reader, writer):
    loop = asyncio.get_running_loop()
    address = writer.get_extra_info("sockname")[0]
    transport, association = await loop.create_datagram_endpoint(Relay, local_addr=(address, 0))
    writer.write(b"\x05\x00\x00" + packed(*transport.get_extra_info("sockname")[:2]))
    await reader.read(1)
    for each in (transport, *association.out.values()):
        each.close()


# The destinations.


async def http(reader, writer):
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split(" ")
    if method == "POST":
        lines = (line.split(": ") for line in head[1:] if ": " in line)
        length = next(int(value) for name, value in lines if name.lower() == "content-length")
        answer = hashlib.sha256(await reader.readexactly(length)).hexdigest().encode()
    elif path == "/hung":
        answer = json.dumps(hung).encode()
    else:
        answer = body(int(path[1:]))
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(answer))
    writer.write(answer)
    await writer.drain()


def reset(writer):
    end = writer.get_extra_info("socket")
    if end is not None and end.fileno() >= 0:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def resets(reader, writer):
    await reader.readexactly(1)
    reset(writer)


class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, sender):
        self.transport.sendto(data, sender)


def closing(serve):
    async def handler(reader, writer):
        serving.add(asyncio.current_task())
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            serving.discard(asyncio.current_task())

    return handler


async def serve(own, addresses):
    await asyncio.start_server(closing(proxy), own, SOCKS, backlog=1024)
    for address in addresses:
        for port, handler in ((HTTP, http), (ECHO, copy), (RESETS, resets)):
            await asyncio.start_server(closing(handler), address, port, backlog=1024)
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(Echo, local_addr=(address, ECHO))
    print("listening", flush=True)
    await asyncio.Event().wait()


# The clients.


def curl(address, path, *options):
    host = f"[{address}]" if ":" in address else address
    url = f"http://{host}/{path}"
    return subprocess.run(["curl", "-sSf", "--max-time", "20", *options, url], check=True, stdout=subprocess.PIPE).stdout


def connect_error(address, port, limit):
    """The error number of a connection attempt, and its seconds."""
    start = time.monotonic()
    try:
        socket.create_connection((address, port), limit).close()
        raise AssertionError(f"port {port} was accepted")
    except OSError as error:
        return error.errno, time.monotonic() - start


def datagrams(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as end:
        end.settimeout(5)
        for data in (b"a", body(1200)):
            end.sendto(data, (address, ECHO))
            received, sender = end.recvfrom(2000)
            assert received == data and sender[:2] == (address, ECHO), (len(received), sender)


async def short(address, number, gate):
    data = hashlib.sha512(str(number).encode()).digest() * (number % 90 + 1)
    async with gate:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(address, ECHO), 15)
        writer.write(data)
        writer.write_eof()
        received = await asyncio.wait_for(reader.read(-1), 15)
        writer.close()
    assert received == data, f"connection {number}: {len(received)} bytes of {len(data)}"


async def many(address):
    gate = asyncio.Semaphore(AT_ONCE)
    await asyncio.gather(*(short(address, number, gate) for number in range(CONNECTIONS)))


def descriptors(process):
    """Those of connections: the timer of a stack is made at its first short wait, and stays."""
    def is_timer(number):
        try:
            return os.readlink(f"/proc/{process}/fd/{number}") == "anon_inode:[timerfd]"
        except FileNotFoundError:
            return False
    return sum(not is_timer(number) for number in os.listdir(f"/proc/{process}/fd"))


def wait_until(condition, what):
    limit = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < limit, what
        time.sleep(0.1)


def use(address, process, with_datagrams):
    assert curl(address, "1000") == body(1000)
    if with_datagrams:
        datagrams(address)
    before = descriptors(process)
    expected = hashlib.sha256(body(BYTES)).hexdigest()
    assert hashlib.sha256(curl(address, str(BYTES))).hexdigest() == expected, "a download"
    upload = subprocess.Popen([sys.executable, __file__, "body"], stdout=subprocess.PIPE)
    with upload.stdout as data:
        options = ("--data-binary", "@-", "-H", "Expect:")
        host = f"[{address}]" if ":" in address else address
        answer = subprocess.run(["curl", "-sSf", "--max-time", "20", *options, f"http://{host}/"], check=True, stdin=data, stdout=subprocess.PIPE)
    upload.wait()
    assert answer.stdout.decode() == expected, "an upload"

    for port, expected in ((CLOSED, errno.ECONNREFUSED), (UNREACHABLE, errno.EHOSTUNREACH)):
        number, seconds = connect_error(address, port, 5)
        assert number == expected and seconds < 1, f"port {port}: {os.strerror(number or 0)} after {seconds} s"
    with socket.create_connection((address, RESETS), 5) as end:
        end.settimeout(5)
        end.sendall(b"x")
        try:
            raise AssertionError(f"a reset became {end.recv(1)}")
        except ConnectionResetError:
            pass

    held = len(json.loads(curl(address, "hung")))
    number, _ = connect_error(address, HANGS, DEADLINE * 0.9)
    assert number is None, "silence is the client's own timeout"
    wait_until(lambda: len(json.loads(curl(address, "hung"))) > held, "a hanging request outlived its deadline")
    last = json.loads(curl(address, "hung"))[-1]
    assert DEADLINE - 0.2 <= last <= DEADLINE + 1, f"a hanging request was held for {last} s"

    start = time.monotonic()
    asyncio.run(many(address))
    seconds = time.monotonic() - start
    associations = 0
    if with_datagrams:
        datagrams(address)
        # One association of each sender of datagrams is not idle for long enough yet.
        associations = 2 * 2
    wait_until(lambda: descriptors(process) <= before + associations, "connections are left open")
    print(f"{address}: {BYTES >> 20} MiB each way; {CONNECTIONS} short connections in {seconds:.1f} s; a hanging request ended after {last:.1f} s")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(serve(sys.argv[2], sys.argv[3:]))
    elif sys.argv[1] == "use":
        use(sys.argv[2], sys.argv[3], "tcp" not in sys.argv[4:])
    else:
        sys.stdout.buffer.write(body(BYTES))

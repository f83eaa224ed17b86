"""Load and abuse for GABBRO_SOAK_SECONDS (10), half of them on scripted models and half on models of files: mixed requests,
clients that leave in every state, slow and stalled readers, headers and bodies that drip, malformed and oversized requests, wrong
keys, a full queue, SIGHUP, models that come and go. Every request that is taken is answered, the server goes on, and its memory
does not grow: in runs of half an hour and more by less than 1 % an hour, or 4 MiB.

    GABBRO_SOAK_SECONDS=7200 python3 tests/server/test_soak.py Scripted     # two hours on scripted models
    GABBRO_SOAK_MODELS=a.gguf,b.gguf GABBRO_SOAK_DEVICE=cuda:0 GABBRO_SOAK_SECONDS=480 python3 tests/server/test_soak.py OfFiles"""
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest

import server_support
from support import SANITIZED, TINY_F16, TINY_Q8_0
from server_support import SCRIPT, TEXT, Server, raw_request
from test_program import Program

# The allocator's caches of threads fill over an hour, which looks like a leak.
os.environ.setdefault("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")
SECONDS = float(os.environ.get("GABBRO_SOAK_SECONDS", 10))
MODELS = [name for name in os.environ.get("GABBRO_SOAK_MODELS", f"{TINY_F16},{TINY_Q8_0}").split(",") if name]
DEVICE = os.environ.get("GABBRO_SOAK_DEVICE", "cpu")
KEY = "a-key-of-tests-1"
PAUSE = float(os.environ.get("GABBRO_SOAK_PAUSE", 0))  # seconds of each client between two actions, twice that at most
CLIENTS = 12


def resident(process):
    """Bytes of memory of a process."""
    with open(f"/proc/{process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def slope_an_hour(samples):
    """Bytes, by a linear fit of (seconds, bytes)."""
    mean_x, mean_y = (sum(column) / len(samples) for column in zip(*samples))
    return 3600 * sum((x - mean_x) * (y - mean_y) for x, y in samples) / sum((x - mean_x) ** 2 for x, _ in samples)


class Client:
    """Acts at random on a server whose `models` answer `text`, or None: any one."""

    def __init__(self, server, seed, models, text):
        self.server, self.source, self.models, self.text = server, random.Random(seed), models, text
        self.wrong, self.counts = [], {}

    def note(self, name):
        self.counts[name] = self.counts.get(name, 0) + 1

    def expect(self, name, what, condition):
        self.note(name)
        if not condition:
            self.wrong.append((name, what))

    def ask(self, path, body, key=KEY):
        status, _, content = self.server.ask("POST", path, body, {"Authorization": f"Bearer {key}"})
        return status, content

    def chat(self, text, **fields):
        fields = {"max_tokens": 12 if text == "hi" else 400, "temperature": 0, **fields} if self.text is None else fields
        return {"model": self.source.choice(self.models), "messages": [{"role": "user", "content": text}], **fields}

    def request(self, body):
        return raw_request("POST", "/v1/chat/completions", body, [f"Authorization: Bearer {KEY}"])

    def whole_answer(self, name, status, content):
        """An answer, or that the queue is full."""
        if status == 503:
            return self.note(f"{name}: 503")
        text = json.loads(content)["choices"][0]["message"]["content"] if status == 200 else None
        self.expect(name, (status, content[:300]), status == 200 and (text == self.text if self.text else isinstance(text, str)))

    def whole_stream(self, name, status, content):
        if status == 503:
            return self.note(f"{name}: 503")
        self.expect(name, (status, content[-300:]), status == 200 and content.endswith(b"data: [DONE]\n\n"))

    def answer_on(self, connection):
        """Status and body of the answer on a connection."""
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status, answer.read()

    def whole(self):
        self.whole_answer("whole", *self.ask("/v1/chat/completions", self.chat("hi")))

    def stream(self):
        self.whole_stream("stream", *self.ask("/v1/chat/completions", self.chat("hi", stream=True, n=self.source.randrange(1, 4))))

    def ollama(self):
        status, content = self.ask("/api/chat", self.chat("ponder" if self.text else "hi", options={"num_predict": 9}))
        self.expect("ollama", (status, content[-300:]), status == 503 or (status == 200 and json.loads(content.splitlines()[-1])["done"]))

    def wrong_key(self):
        self.expect("wrong key", None, self.ask("/v1/chat/completions", self.chat("hi"), key="wrong")[0] == 401)

    def bad_field(self):
        self.expect("bad field", None, self.ask("/v1/chat/completions", self.chat("hi", n=self.source.choice([0, 1 << 60, "x"])))[0] == 400)

    def leaves(self):
        body = self.chat(self.source.choice(["slow", "prefill", "flood", "hi"]), stream=self.source.random() < 0.5)
        data = self.request(body)
        with self.server.connect() as connection:
            connection.sendall(data[:self.source.choice([len(data), len(data), len(data), self.source.randrange(len(data))])])
            time.sleep(self.source.random() * 0.1)
            if self.source.random() < 0.5:  # a reset in place of an end
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.note("leaves")

    def garbage(self):
        with self.server.connect() as connection:
            try:
                connection.sendall(self.source.randbytes(self.source.randrange(1, 3000)) + b"\r\n\r\n")
                connection.recv(1000)
            except OSError:
                pass
        self.note("garbage")

    def oversized(self):
        with self.server.connect() as connection:
            try:
                connection.sendall(b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 999999999\r\n\r\n" % KEY.encode())
                self.expect("oversized", None, b" 413 " in connection.recv(100))
            except OSError:
                pass

    def reads_slowly(self):
        with self.server.connect() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(self.request(self.chat("megabyte" if self.text else "hi", stream=True)))
            content = b""
            while not content.endswith(b"\r\n0\r\n\r\n") and (piece := connection.recv(65536)):
                content += piece
                time.sleep(0.002)
                if content.startswith(b"HTTP/1.1 503"):
                    break
        self.expect("slow reader", content[-300:], content.startswith(b"HTTP/1.1 503") or b"data: [DONE]" in content[-100:])

    def stalls(self):
        with self.server.connect() as connection:
            connection.sendall(self.request(self.chat("flood", stream=True)))
            time.sleep(self.source.random() * 1.2)  # the server gives up after 0.5 s
        self.note("stalled reader")

    def drips(self):
        """A header or a body that never ends, a few bytes from time to time."""
        data = self.request(self.chat("hi"))
        data = data[:self.source.randrange(10, len(data) - 1)]
        with self.server.connect() as connection:
            try:
                for at in range(0, len(data), 1 + len(data) // 40):
                    connection.sendall(data[at:at + 1 + len(data) // 40])
                    time.sleep(0.04)
            except OSError:  # the server has closed it
                pass
        self.note("dripping request")

    def byte_by_byte(self):
        with self.server.connect() as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in self.request(self.chat("hi")):
                connection.send(bytes([byte]))
            self.whole_answer("byte by byte", *self.answer_on(connection))

    def overflows(self):
        """More requests at once than a model takes."""
        connections = [self.server.connect() for _ in range(12)]
        try:
            for connection in connections:
                connection.sendall(self.request(self.chat("hi")))
            for connection in connections:
                self.whole_answer("burst", *self.answer_on(connection))
        finally:
            for connection in connections:
                connection.close()

    def run(self, start, end):
        often = [self.whole, self.stream, self.ollama, self.wrong_key, self.bad_field, self.leaves, self.leaves, self.garbage, self.oversized]
        seldom = [self.reads_slowly, self.stalls, self.drips, self.byte_by_byte, self.overflows]
        while time.monotonic() < end:
            action = self.source.choice(seldom if self.source.random() < 0.15 else often)
            try:
                action()
            except Exception as error:
                self.wrong.append((action.__name__, repr(error)))
                print(f"{time.monotonic() - start:.1f} s: {action.__name__}: {error!r}", file=sys.stderr)
            time.sleep(2 * PAUSE * self.source.random())


class Files(Program):
    """`gabbro serve` with models of files, as Server is of scripted ones."""

    def __init__(self, folder):
        self.keys = pathlib.Path(folder) / "keys"
        self.keys.write_text(f"tests: {KEY}\n")
        # Room for one of them with its cache, which takes most of a tiny one.
        memory = max(1_200_000, int(1.6 * max(os.path.getsize(model) for model in MODELS)))
        self.names = []
        home = pathlib.Path(folder) / "models"
        home.mkdir()
        for number, model in enumerate(MODELS):  # none of them stays, so that one can be evicted for another
            self.names.append(f"model-{number}")
            (home / f"model-{number}.gguf").symlink_to(pathlib.Path(model).resolve())
        os.environ["GABBRO_HOME"] = folder
        super().__init__("--keys", self.keys, "--queue", 6, "--parallel", 3, "--device", DEVICE, "--ctx", 1024,
                         "--chat-template", "chatml", "--models-memory", memory, "--keep-alive", 2)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def ask(self, method, path, body=None, headers=None):
        return Server.ask(self, method, path, body, headers)


def soak(test, server, models, text, seconds, now_and_then=lambda: None):
    """Runs the clients for some time, and checks what they saw, memory, and that nothing is left."""
    clients = [Client(server, seed, models, text) for seed in range(CLIENTS)]
    start = time.monotonic()
    threads = [threading.Thread(target=client.run, args=(start, start + seconds)) for client in clients]
    for thread in threads:
        thread.start()
    after = min(seconds / 2, 900)  # the fit leaves the first quarter of an hour out
    samples = []
    while time.monotonic() < start + seconds:
        time.sleep(min(1.0, seconds / 20))
        now_and_then()
        if time.monotonic() > start + after:
            samples.append((time.monotonic() - start, resident(server.process)))
    for thread in threads:
        thread.join()
    counts = {}
    for client in clients:
        test.assertEqual(client.wrong[:3], [])
        for name, count in client.counts.items():
            counts[name] = counts.get(name, 0) + count
    time.sleep(0.5)
    first, grown = samples[0][1], resident(server.process) - samples[0][1]
    slope = slope_an_hour(samples)
    print(counts, f"memory {first / 2**20:.1f} MiB, {grown / 2**20:+.1f} MiB after {after:.0f} s, fit {slope / 2**20:+.2f} MiB an hour, "
          f"{100 * slope / first:+.2f} %", flush=True)
    if not SANITIZED:  # these keep what was freed for a while
        test.assertLess(grown, 16 << 20)
        if seconds >= 1800:
            test.assertLess(slope, max(0.01 * first, 4 << 20))
    headers = {"Authorization": f"Bearer {KEY}"}
    _, _, metrics = server.ask("GET", "/metrics", headers=headers)
    for line in metrics.decode().splitlines():
        if line.startswith(("gabbro_requests_running{", "gabbro_requests_waiting{")):
            test.assertEqual(line.split()[-1], "0", line)
    status, _, _ = server.ask("POST", "/v1/chat/completions", clients[0].chat("hi"), headers)
    test.assertEqual(status, 200)


class Scripted(unittest.TestCase):
    def test_load_and_abuse(self):
        models = {name: {"model": {"parallel": 3, "bytes": 400}, **SCRIPT} for name in ("script", "other", "third")}
        with Server(models=models, load=[], memory=900, keys=KEY, queue=6, connections_per_address=500, write_ms=500, header_ms=1000,
                    body_ms=1500) as server:
            soak(self, server, list(models), TEXT, SECONDS)


class OfFiles(unittest.TestCase):
    def test_load_and_abuse(self):
        with tempfile.TemporaryDirectory() as folder:
            home = os.environ.get("GABBRO_HOME")
            self.addCleanup(lambda: os.environ.pop("GABBRO_HOME") if home is None else os.environ.update(GABBRO_HOME=home))
            server = Files(folder)
            self.addCleanup(lambda: server.process.poll() is None and server.end(signal.SIGKILL))
            state = {"keys": 0, "next": 0.0}  # files that were written, and when the next one is

            def keys_change():
                if time.monotonic() < state["next"]:
                    return
                state["keys"] += 1
                server.keys.write_text(f"tests: {KEY}\n" + (f"other: another-key-{state['keys']}\n" if state["keys"] % 2 else ""))
                server.process.send_signal(signal.SIGHUP)
                state["next"] = time.monotonic() + 5

            soak(self, server, server.names, None, SECONDS, keys_change)
            self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    server_support.main()

"""Load and abuse for GABBRO_SOAK_SECONDS (10): mixed requests, clients that leave in every state, slow readers, malformed and
oversized requests, wrong keys, a full queue, models that come and go. Every request that is taken is answered, the server goes
on, and its memory does not grow: in runs of half an hour and more by less than 1 % an hour, or 4 MiB."""
import json
import os
import random
import socket
import threading
import time
import unittest

import server_support
from support import SANITIZED
from server_support import SCRIPT, TEXT, Server, raw_request

# The allocator's caches of threads fill over an hour, which looks like a leak.
os.environ.setdefault("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")
SECONDS = float(os.environ.get("GABBRO_SOAK_SECONDS", 10))
KEY = "a-key-of-tests-1"
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
    def __init__(self, server, seed):
        self.server, self.source = server, random.Random(seed)
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
        return {"model": self.source.choice(["script", "other", "third"]), "messages": [{"role": "user", "content": text}], **fields}

    def whole(self):
        status, content = self.ask("/v1/chat/completions", self.chat("hi"))
        self.expect("whole", (status, content[:200]), status == 503 or (
            status == 200 and json.loads(content)["choices"][0]["message"]["content"] == TEXT))

    def stream(self):
        status, content = self.ask("/v1/chat/completions", self.chat("hi", stream=True, n=self.source.randrange(1, 4)))
        self.expect("stream", (status, content[-200:]), status == 503 or (status == 200 and content.endswith(b"data: [DONE]\n\n")))

    def ollama(self):
        status, content = self.ask("/api/chat", self.chat("ponder"))
        self.expect("ollama", (status, content[-200:]), status == 503 or (status == 200 and json.loads(content.splitlines()[-1])["done"]))

    def wrong_key(self):
        self.expect("wrong key", None, self.ask("/v1/chat/completions", self.chat("hi"), key="wrong")[0] == 401)

    def bad_field(self):
        self.expect("bad field", None, self.ask("/v1/chat/completions", self.chat("hi", n=self.source.choice([0, 1 << 60, "x"])))[0] == 400)

    def leaves(self):
        body = self.chat(self.source.choice(["slow", "prefill", "flood", "hi"]), stream=self.source.random() < 0.5)
        data = raw_request("POST", "/v1/chat/completions", body, [f"Authorization: Bearer {KEY}"])
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

    def run(self, end):
        actions = [self.whole, self.stream, self.ollama, self.wrong_key, self.bad_field, self.leaves, self.leaves, self.garbage, self.oversized]
        while time.monotonic() < end:
            try:
                self.source.choice(actions)()
            except Exception as error:  # noqa: BLE001
                self.wrong.append(("exception", repr(error)))


class Soak(unittest.TestCase):
    def test_load_and_abuse(self):
        models = {name: {"model": {"parallel": 3, "bytes": 400}, **SCRIPT} for name in ("script", "other", "third")}
        with Server(models=models, load=[], memory=900, keys=KEY, queue=6, connections_per_address=500, write_ms=500) as server:
            clients = [Client(server, seed) for seed in range(CLIENTS)]
            start = time.monotonic()
            threads = [threading.Thread(target=client.run, args=(start + SECONDS,)) for client in clients]
            for thread in threads:
                thread.start()
            samples = []  # of the second half
            while time.monotonic() < start + SECONDS:
                time.sleep(min(1.0, SECONDS / 20))
                if time.monotonic() > start + SECONDS / 2:
                    samples.append((time.monotonic() - start, resident(server.process)))
            middle = samples[0][1]
            for thread in threads:
                thread.join()
            counts = {}
            for client in clients:
                self.assertEqual(client.wrong[:3], [])
                for name, count in client.counts.items():
                    counts[name] = counts.get(name, 0) + count
            time.sleep(0.5)
            grown = resident(server.process) - middle
            slope = slope_an_hour(samples)
            print(counts, f"memory {middle / 2**20:.1f} MiB, {grown / 2**20:+.1f} MiB in the second half, fit {slope / 2**20:+.2f} MiB an hour")
            if not SANITIZED:  # these keep what was freed for a while
                self.assertLess(grown, 16 << 20)
                if SECONDS >= 1800:
                    self.assertLess(slope, max(0.01 * middle, 4 << 20))
            headers = {"Authorization": f"Bearer {KEY}"}
            _, _, metrics = server.ask("GET", "/metrics", headers=headers)
            for line in metrics.decode().splitlines():
                if line.startswith(("gabbro_requests_running{", "gabbro_requests_waiting{")):
                    self.assertEqual(line.split()[-1], "0", line)
            status, _, _ = server.ask("POST", "/v1/chat/completions", clients[0].chat("hi"), headers)
            self.assertEqual(status, 200)


if __name__ == "__main__":
    server_support.main()

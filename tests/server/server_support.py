"""What the tests of the server share: a server of scripted models, and clients that see every byte."""
import contextlib
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GABBRO_BUILD_DIR", ROOT / "build" / "release"))
SCRIPTED = BUILD / "tests" / "scripted_server"
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from support import main  # noqa: E402, F401  (for the test files)

WORDS = ["Hel", "lo", " wor", "ld", "!"]
TEXT = "".join(WORDS)
SCRIPT = {"answers": [
    {"if": "ponder", "tokens": ["<thi", "nk>", "hm", "m\n", "</th", "ink>", "\n\n", "ye", "s"]},
    {"if": "slow", "tokens": ["a "], "repeat": 3000, "token_ms": 10},
    {"if": "prefill", "tokens": ["late"], "prefill_ms": 60_000},
    {"if": "flood", "tokens": ["x" * 1000], "repeat": 100_000},
    {"if": "megabyte", "tokens": ["y" * 1000], "repeat": 1000},
    {"if": "torrent", "tokens": ["z" * 20_000], "repeat": 600},  # more than a socket's buffers hold
    {"if": "who", "describes": True},
    {"if": "broken", "tokens": ["so", " far"], "fail_after": 2, "error": "the script fails"},
    {"if": "bytes", "tokens": [[0xE2, 0x82], [0xAC], "uro"]},
    {"tokens": WORDS},
]}


class Server:
    """A server whose model "script" answers as SCRIPT says."""

    def __init__(self, **config):
        config.setdefault("models", {"script": SCRIPT})
        config.setdefault("load", [name for name in config["models"]][:1])
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(config, file)
            file.flush()
            self.process = subprocess.Popen([SCRIPTED, file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, text=True)
            line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.communicate()[1])
        self.port = int(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Its standard error: a crash of a sanitizer, or nothing."""
        try:
            err = self.process.communicate(timeout=30)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the server did not end") from None
        if self.process.returncode != 0:
            raise AssertionError(f"the server ended with {self.process.returncode}: {err}")

    def drain(self, milliseconds):
        self.process.stdin.write(f"{milliseconds}\n")
        self.process.stdin.flush()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def ask(self, method, path, body=None, headers=None):
        """Status, headers and body of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = None if body is None else body if isinstance(body, (bytes, str)) else json.dumps(body)
        headers = dict(headers or {})
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.headers, content

    def get(self, path, **headers):
        status, _, content = self.ask("GET", path, headers=headers)
        return status, json.loads(content)

    def post(self, path, body, **headers):
        status, _, content = self.ask("POST", path, body, headers)
        return status, json.loads(content)

    def chat(self, text="hi", **fields):
        return self.post("/v1/chat/completions", {"model": "script", "messages": [{"role": "user", "content": text}], **fields})

    def events(self, path, body):
        """The data of each event of a stream."""
        status, headers, content = self.ask("POST", path, body)
        assert status == 200, (status, content)
        assert headers["Content-Type"].startswith("text/event-stream"), headers
        return events_of(content)

    def lines(self, path, body):
        status, headers, content = self.ask("POST", path, body)
        assert status == 200, (status, content)
        assert headers["Content-Type"] == "application/x-ndjson", headers
        return [json.loads(line) for line in content.decode().splitlines()]

    def running(self):
        """Requests that are computed, and those that wait."""
        _, _, content = self.ask("GET", "/metrics")
        counts = {"running": 0, "waiting": 0}
        for line in content.decode().splitlines():
            for name in counts:
                if line.startswith(f"gabbro_requests_{name}{{"):
                    counts[name] += int(line.split()[-1])
        return counts["running"], counts["waiting"]

    def wait_until(self, running, waiting=0, limit=60.0):
        """Seconds until the server computes this many requests."""
        start = time.monotonic()
        while self.running() != (running, waiting):
            if time.monotonic() - start > limit:
                raise AssertionError(f"{self.running()} run and wait, not {(running, waiting)}")
            time.sleep(0.005)
        return time.monotonic() - start


def events_of(content):
    events = []
    for block in content.decode().split("\n\n"):
        data = [line[6:] for line in block.split("\n") if line.startswith("data: ")]
        if data:
            events.append(data[0] if data[0] == "[DONE]" else json.loads(data[0]))
    return events


def raw_request(method, path, body=None, headers=()):
    """The bytes of a request."""
    data = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def chat_request(text, **fields):
    return raw_request("POST", "/v1/chat/completions", {"model": "script", "messages": [{"role": "user", "content": text}], **fields})


def read_all(connection, limit=30.0):
    """Bytes until the server closes."""
    connection.settimeout(limit)
    content = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            content += piece
    return content


def status_of(content):
    return int(content.split(b" ", 2)[1])


class TestCase(unittest.TestCase):
    """Each class has a server, with the fields of `config`."""
    config = {}

    @classmethod
    def setUpClass(cls):
        cls.server = Server(**cls.config)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def refused(self, answer, status, says="", code=None, param=None):
        self.assertEqual(answer[0], status, answer)
        error = answer[1]["error"]
        self.assertIn(says, error["message"], answer)
        if code:
            self.assertEqual(error["code"], code, answer)
        if param:
            self.assertEqual(error["param"], param, answer)
        return error

"""Limits, timeouts and malformed requests, by sockets."""
import json
import re
import socket
import threading
import time
import unittest

import server_support
from server_support import Server, TestCase, chat_request, raw_request, read_all, status_of
from support import eventually, within


class Malformed(TestCase):
    config = {"body_bytes": 100_000}

    def answer(self, data, half_close=False):
        with self.server.connect() as connection:
            connection.sendall(data)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            return read_all(connection, 5)

    def closes_with(self, status, data):
        content = self.answer(data)
        self.assertEqual(status_of(content), status, content)
        head, body = content.split(b"\r\n\r\n", 1)
        self.assertIn(b"Connection: close", head)
        self.assertEqual(set(json.loads(body)["error"]), {"message", "type", "param", "code"})

    def test_heads(self):
        host = b"Host: localhost\r\n"
        self.closes_with(400, b"nonsense\r\n\r\n")
        self.closes_with(400, b"GET / HTTP/1.1\r\n\r\n")
        self.closes_with(400, b"GET / HTTP/1.1\r\n" + host + host + b"\r\n")
        self.closes_with(400, b"GET /health HTTP/1.1\r\n" + host + b"bad header\r\n\r\n")
        self.closes_with(431, b"GET / HTTP/1.1\r\n" + host + b"A: " + b"x" * 20_000 + b"\r\n\r\n")
        self.closes_with(431, b"GET / HTTP/1.1\r\n" + host + b"".join(b"A%d: x\r\n" % i for i in range(101)) + b"\r\n")
        self.closes_with(431, b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n" + host + b"\r\n")

    def test_time_of_a_head_that_is_refused(self):
        with self.server.connect() as connection:
            connection.sendall(b"nonsense\r\n\r\n")
            content = read_all(connection)
        self.assertEqual(status_of(content), 400)
        self.assertLess(int(re.search(rb"openai-processing-ms: (\d+)", content)[1]), 30_000)

    def test_lengths(self):
        post = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self.closes_with(413, post + b"Content-Length: 100001\r\n\r\n")
        self.closes_with(413, post + b"Content-Length: 99999999999999\r\n\r\n")
        self.closes_with(400, post + b"Content-Length: -1\r\n\r\n")
        self.closes_with(400, post + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n")
        self.closes_with(400, post + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        self.closes_with(400, post + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
        self.closes_with(413, post + b"Transfer-Encoding: chunked\r\n\r\n" + (b"ffff\r\n" + b"x" * 65535 + b"\r\n") * 2)
        self.closes_with(417, post + b"Content-Length: 5\r\nExpect: miracles\r\n\r\n")

    def test_a_large_body_gets_its_answer(self):
        """The server reads on for a while, so that the answer is not lost to a reset."""
        post = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
        self.closes_with(413, post + b"x" * 500_000)

    def test_content_type(self):
        for kind, status in (("application/json", 200), ("application/json; charset=utf-8", 200), ("text/plain", 415),
                             ("application/x-www-form-urlencoded", 415)):
            body = json.dumps({"model": "script", "prompt": "hi"})
            self.assertEqual(self.server.ask("POST", "/v1/completions", body, {"Content-Type": kind})[0], status)
        body = json.dumps({"model": "script", "prompt": "hi", "stream": False})
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        self.assertEqual(self.server.ask("POST", "/api/generate", body, form)[0], 200)
        origin = {**form, "Origin": f"http://127.0.0.1:{self.server.port}"}
        self.assertEqual(self.server.ask("POST", "/api/generate", body, origin)[0], 415)

    def test_expect(self):
        body = json.dumps({"model": "script", "prompt": "hi"}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
        with self.server.connect() as connection:
            connection.sendall(head.encode())
            self.assertEqual(connection.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.sendall(body)
            self.assertEqual(status_of(read_all(connection)), 200)

    def test_byte_by_byte_and_chunked(self):
        data = chat_request("hi").replace(b"Host", b"Connection: close\r\nHost")
        with self.server.connect() as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(len(data)):
                connection.send(data[i:i + 1])
            self.assertEqual(status_of(read_all(connection)), 200)
        body = json.dumps({"model": "script", "prompt": "hi"}).encode()
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7]) for i in range(0, len(body), 7)) + b"0\r\n\r\n"
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        self.assertEqual(status_of(self.answer(head + chunks)), 200)

    def test_pipelining(self):
        content = self.answer(raw_request("GET", "/health") + chat_request("hi") + raw_request("GET", "/version", headers=["Connection: close"]))
        self.assertEqual(content.count(b"HTTP/1.1 200 OK"), 3)
        self.assertTrue(content.endswith(b'{"version":"test"}'))

    def test_http_1_0(self):
        body = json.dumps({"model": "script", "prompt": "hi", "stream": True}).encode()
        head = f"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        content = self.answer(head + body)
        self.assertNotIn(b"chunked", content)
        self.assertTrue(content.endswith(b"data: [DONE]\n\n"), content)

    def test_many_idle_connections(self):
        connections = [self.server.connect() for _ in range(60)]
        self.assertEqual(self.server.get("/health")[0], 200)
        for connection in connections:
            connection.close()


class Times(TestCase):
    config = {"header_ms": 600, "body_ms": 1500, "idle_ms": 600, "rate_window_ms": 500, "connections_per_address": 20}

    def closed_after(self, data, least, most):
        contents = []

        def attempt():
            start = time.monotonic()
            with self.server.connect() as connection:
                connection.sendall(data)
                contents.append(read_all(connection, 60))
            seconds = time.monotonic() - start
            self.assertGreater(seconds, least)
            return seconds
        within(most, attempt)
        return contents[-1]

    def test_slow_header(self):
        self.assertEqual(status_of(self.closed_after(b"GET /health HTTP/1.1\r\nHost:", 0.4, 3.5)), 408)

    def test_no_request(self):
        self.assertEqual(self.closed_after(b"", 0.4, 2), b"")

    def test_slow_body(self):
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
        self.assertEqual(status_of(self.closed_after(head + b"{", 0.3, 3.5)), 408)

    def test_idle_connection(self):
        content = self.closed_after(raw_request("GET", "/health"), 0.4, 2)
        self.assertEqual(content.count(b"HTTP/1.1"), 1)

    def test_dripped_header(self):
        """A byte from time to time does not keep a connection open."""
        with self.server.connect() as connection:
            with self.assertRaises(OSError):
                for _ in range(600):
                    connection.send(b"A")
                    time.sleep(0.1)

    def test_connections_per_address(self):
        connections = []
        try:
            statuses = set()
            for _ in range(40):
                connection = self.server.connect()
                connection.sendall(raw_request("GET", "/health"))
                connections.append(connection)
                try:
                    statuses.add(status_of(connection.recv(1000)))
                except (ConnectionResetError, IndexError):
                    statuses.add(503)
            self.assertEqual(statuses, {200, 503})
        finally:
            for connection in connections:
                connection.close()


class Port(unittest.TestCase):
    def test_a_port_that_is_taken(self):
        with Server() as server:
            with self.assertRaises(AssertionError) as caught:
                Server(port=server.port)
            message = str(caught.exception)
            self.assertIn(f"port {server.port} is taken by scripted_server (process {server.process.pid})", message)
            self.assertIn("--port", message)

    def test_an_address_of_others_needs_a_key(self):
        with self.assertRaises(AssertionError) as caught:
            Server(hosts=["0.0.0.0"])
        self.assertIn("0.0.0.0 can be reached by others", str(caught.exception))
        with Server(hosts=["0.0.0.0"], keys="a-key-of-tests-1") as server:
            self.assertEqual(server.get("/health")[0], 200)


class Draining(unittest.TestCase):
    def test_requests_end_and_new_ones_are_refused(self):
        with Server() as server:
            answers = []
            slow = threading.Thread(target=lambda: answers.append(server.chat("slow", max_tokens=60)))
            slow.start()
            server.wait_until(running=1)
            server.drain(10_000)
            eventually(lambda: server.get("/ready")[0] == 503)
            status, answer = server.chat()
            self.assertEqual(status, 503, answer)
            slow.join()
            self.assertEqual(answers[0][0], 200)
            self.assertEqual(answers[0][1]["usage"]["completion_tokens"], 60)

    def test_what_does_not_end_in_time_gets_an_error(self):
        server = Server()
        results = []
        streams = [threading.Thread(target=lambda: results.append(server.events("/v1/chat/completions", {
            "model": "script", "stream": True, "messages": [{"role": "user", "content": "slow"}]}))) for _ in range(2)]
        whole = threading.Thread(target=lambda: results.append(server.chat("slow")))
        for thread in (*streams, whole):
            thread.start()
        server.wait_until(running=3)
        server.drain(500)
        for thread in (*streams, whole):
            thread.join()
        server.stop()
        for result in results:
            if isinstance(result, tuple):
                self.assertEqual(result[0], 503)
            else:
                self.assertIn("shutting down", result[-2]["error"]["message"])


if __name__ == "__main__":
    server_support.main()

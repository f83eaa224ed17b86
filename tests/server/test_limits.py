"""Limits of requests, and the weaknesses that other local servers had: each is a test."""
import contextlib
import gzip
import http.client
import json
import re
import threading
import time
import unittest

import server_support
from server_support import SCRIPT, TestCase, raw_request, read_all, status_of
from support import eventually, within

ADDRESS = re.compile(rb"0x[0-9a-fA-F]{6,}|at [0-9a-fA-F]{10,}")


class Requests(TestCase):
    def chat(self, **fields):
        return self.server.chat(**fields)

    def test_json(self):
        deep, many = "[" * 70 + "]" * 70, json.dumps(list(range(1_000_001)))
        for text, says in ((deep, "64 levels"), (many, "1000000 values"), (json.dumps({str(i): 1 for i in range(10_001)}), "10000 members")):
            body = '{"model": "script", "prompt": "hi", "metadata": %s}' % text
            status, _, content = self.server.ask("POST", "/v1/completions", body)
            self.assertEqual(status, 400)
            self.assertIn(says.encode(), content)

    def test_lists(self):
        message = {"role": "user", "content": ""}
        self.refused(self.chat(messages=[message] * 10_001), 400, param="messages")
        tool = {"type": "function", "function": {"name": "f"}}
        self.refused(self.chat(tools=[tool] * 513, tool_choice="none"), 400, param="tools")
        self.assertEqual(self.chat(tools=[tool] * 512, tool_choice="none")[0], 200)
        self.refused(self.chat(stop=["a"] * 17), 400, param="stop")
        self.assertEqual(self.chat(stop=["q" * 256] * 16)[0], 200)
        self.refused(self.chat(stop="a" * 257), 400, param="stop")
        self.assertEqual(self.chat(stop="\U0001f600" * 256)[0], 200)  # characters, not bytes
        self.refused(self.chat(stop="\U0001f600" * 257), 400, param="stop")
        self.refused(self.server.post("/v1/completions", {"model": "script", "prompt": ["a"] * 129}), 400, param="prompt")

    def test_a_long_text_is_counted(self):
        """GHSA-7rxv-5jhh-j6xx: sizes of texts are 64-bit."""
        status, answer = self.server.post("/tokenize", {"content": "ab" * 1_000_000})
        self.assertEqual((status, len(answer["tokens"])), (200, 2_000_000))
        self.refused(self.chat(messages=[{"role": "user", "content": "ab" * 1_000_000}]), 400, code="context_length_exceeded")


class Connections(TestCase):
    config = {"connections": 5}

    def test_of_all_addresses(self):
        held = [self.server.connect() for _ in range(5)]
        for connection in held:  # an answer proves that a connection was taken
            connection.sendall(raw_request("GET", "/health"))
            self.assertEqual(status_of(connection.recv(1000)), 200)
        with self.server.connect() as connection:
            content = read_all(connection)
            self.assertEqual(status_of(content), 503)
            self.assertIn(b"too many connections", content)
        for connection in held:
            connection.close()
        eventually(self.is_served)

    def is_served(self):
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            return self.server.get("/health")[0] == 200
        return False


class Weaknesses(TestCase):
    config = {"models": {"script": SCRIPT}}

    def ask(self, path, body, **headers):
        return self.server.ask("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})

    def test_no_model_comes_over_http(self):
        """CVE-2026-7482, CVE-2026-5530, GO-2025-4251: models that are made, pulled or deleted by requests."""
        for path in ("/api/create", "/api/pull", "/api/push", "/api/copy"):
            self.assertEqual(self.ask(path, {"model": "http://169.254.169.254/x", "path": "/etc/passwd"})[0], 501, path)
        self.assertEqual(self.server.ask("DELETE", "/api/delete", {"model": "script"})[0], 501)
        self.assertEqual(self.ask("/api/blobs/sha256:00", b"x")[0], 404)

    def test_names_are_no_paths(self):
        """CVE-2026-7020, CVE-2024-12886."""
        for name in ("../../etc/passwd", "/etc/passwd", "..\\..\\x", "sha256:../x", "script/../script", "file:///etc/passwd", "a" * 5000, "\x01"):
            self.assertEqual(self.ask("/v1/completions", {"model": name, "prompt": "hi"})[0], 404, name[:20])
            self.assertEqual(self.ask("/api/show", {"model": name})[0], 404, name[:20])
            self.assertEqual(self.server.ask("GET", "/v1/models/" + name.encode().hex())[0], 404)
        self.assertEqual(self.server.ask("GET", "/v1/models/..%2f..%2fetc%2fpasswd")[0], 404)
        self.assertEqual(self.server.ask("GET", "/../../etc/passwd")[0], 404)

    def test_bodies_are_not_unpacked(self):
        """CVE-2025-0315: a small body that becomes large."""
        bomb = gzip.compress(b" " * 50_000_000)
        self.assertIn(self.ask("/v1/completions", bomb, Content_Encoding="gzip")[0], (400, 415))

    def test_numbers_are_checked(self):
        """CVE-2026-21869, CVE-2026-34756: negative and huge numbers."""
        for name in ("n", "max_tokens", "top_k", "seed", "logprobs", "min_tokens", "repeat_last_n", "best_of", "n_discard", "n_keep"):
            for value in (-(1 << 63), -2, 1 << 31, 1 << 62, 1 << 64, 1e300, -1e300):
                status, _, content = self.ask("/v1/completions", {"model": "script", "prompt": "hi", "max_tokens": 2, name: value})
                self.assertIn(status, (200, 400), (name, value))
                self.assertTrue(status == 400 or name in ("seed", "n_discard", "n_keep") or -2 <= value <= 1 << 31, (name, value, content))

        def attempt():
            start = time.monotonic()
            self.assertEqual(self.ask("/v1/completions", {"model": "script", "prompt": "hi", "n": 10**9})[0], 400)
            return time.monotonic() - start
        within(1, attempt)

    def test_headers_are_bounded(self):
        """CVE-2025-48956."""
        with self.server.connect() as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nA: " + b"x" * 20_000 + b"\r\n\r\n")
            self.assertEqual(status_of(read_all(connection, 5)), 431)

    def test_schemas_of_tools_do_no_harm(self):
        """CVE-2025-48944: patterns and types that are none."""
        harmless = {"type": "object", "pattern": "(a+)+$" * 100}  # patterns are of strings
        for parameters in ({"type": 5}, {"properties": {"a": {"pattern": "("}}}, harmless, "x", []):
            tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
            self.assertIn(self.server.chat(tools=[tool], tool_choice="none")[0], (200, 400))
            # Calls that the model may make are read as they come; those that it must make need the schema.
            self.assertEqual(self.server.chat(tools=[tool])[0], 200 if isinstance(parameters, dict) else 400)
            self.assertEqual(self.server.chat(tools=[tool], tool_choice="required")[0], 200 if parameters is harmless else 400)
        self.assertEqual(self.server.chat()[0], 200)

    def test_variables_of_templates_hold_nothing_up(self):
        """CVE-2025-62426."""
        for variables in ({"add_generation_prompt": [0] * 100_000}, {"messages": "x" * 1_000_000}, {"x": {"y": [1]}}, {"open_thoughts": 10**18}):
            def attempt(variables=variables):
                thread = threading.Thread(target=self.server.chat, kwargs={"chat_template_kwargs": variables})
                start = time.monotonic()
                thread.start()
                self.assertEqual(self.server.get("/health")[0], 200)
                seconds = time.monotonic() - start
                thread.join(timeout=60)
                self.assertFalse(thread.is_alive())
                return seconds
            within(1, attempt)

    def test_no_tensors_and_no_files_in_requests(self):
        """CVE-2025-62164, CVE-2026-22773, CVE-2026-5497."""
        self.assertEqual(self.ask("/v1/completions", {"model": "script", "prompt_embeds": "gAR9cQAu"})[0], 400)
        for part in ({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, {"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}},
                     {"type": "input_audio", "input_audio": {"data": "x"}}, {"type": "file", "file": {"file_id": "x"}}):
            self.assertEqual(self.server.chat(messages=[{"role": "user", "content": [part]}])[0], 400)

    def test_errors_tell_no_addresses(self):
        """CVE-2026-22778."""
        for path, body in (("/v1/completions", b"{"), ("/v1/completions", {}), ("/v1/chat/completions", {"model": "script", "messages": [{}]}),
                           ("/v1/completions", {"model": "script", "prompt": "broken"}), ("/v1/embeddings", {"model": "script", "input": "x"}),
                           ("/nothing", {}), ("/api/show", {"model": "nothing"})):
            status, _, content = self.ask(path, body)
            self.assertGreaterEqual(status, 400)
            self.assertIsNone(ADDRESS.search(content), content)

    def test_pages_of_other_sites_are_refused(self):
        """CVE-2024-28224, CVE-2026-2611: a page in any tab; names that are bound again."""
        body = {"model": "script", "prompt": "hi"}
        self.assertEqual(self.ask("/v1/completions", body, Host="evil.example")[0], 403)
        for origin in ("https://evil.example", "null"):
            status, headers, _ = self.ask("/v1/completions", body, Origin=origin)
            self.assertEqual(status, 403)
            self.assertIsNone(headers["Access-Control-Allow-Origin"])
        status, headers, _ = self.server.ask("OPTIONS", "/v1/completions", headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST",
                                                                                    "Access-Control-Request-Private-Network": "true"})
        self.assertEqual(status, 403)
        self.assertIsNone(headers["Access-Control-Allow-Private-Network"])
        # A simple request, which browsers send without asking.
        self.assertEqual(self.server.ask("POST", "/v1/completions", json.dumps(body), {"Content-Type": "text/plain"})[0], 415)
        self.assertEqual(self.server.ask("POST", "/api/generate", json.dumps(body), {"Content-Type": "text/plain"})[0], 415)


class WrongKeys(TestCase):
    config = {"keys": "a-key-of-tests-1\n"}

    def test_they_take_the_same_time(self):
        """CVE-2025-59425."""
        for key in ("", "a", "a-key-of-tests-2", "b" * 16, "a-key-of-tests-1x", "a-key-of-tests"):
            start = time.monotonic()
            self.assertEqual(self.server.ask("GET", "/v1/models", headers={"x-api-key": key})[0], 401)
            self.assertGreaterEqual(time.monotonic() - start, 0.05)


if __name__ == "__main__":
    server_support.main()

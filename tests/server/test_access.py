"""Hosts, origins and keys."""
import time
import unittest

import server_support
from server_support import TestCase

KEY, OTHER = "a-key-of-tests-1", "another-key-of-tests"
SHA256_OF_OTHER = __import__("hashlib").sha256(OTHER.encode()).hexdigest()


class Hosts(TestCase):
    config = {"allowed_hosts": ["box.example"], "allowed_origins": ["https://chat.example"]}

    def status(self, path="/v1/models", method="GET", body=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.server.ask(method, path, body, headers)[0]

    def test_host(self):
        for host in ("localhost", "LOCALHOST:80", "127.0.0.1:11434", "127.1.2.3", "[::1]:80", "a.localhost", "box.example:1"):
            self.assertEqual(self.status(Host=host), 200, host)
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "[::2]", "", "127.evil",
                     "xlocalhost", "[::1].evil.example"):
            self.assertEqual(self.status(Host=host), 403, host)
        _, answer = self.server.get("/v1/models", Host="evil.example")
        self.assertIn("--allowed-hosts", answer["error"]["message"])

    def test_origin(self):
        own = f"http://127.0.0.1:{self.server.port}"
        for origin, status in ((own, 200), ("https://chat.example", 200), ("https://evil.example", 403), ("null", 403), ("", 403),
                               (own + ".evil.example", 403), ("https://chat.example.evil", 403), ("http://chat.example", 403)):
            self.assertEqual(self.status(Origin=origin), status, origin)
            self.assertEqual(self.status("/api/generate", "POST", {"model": "script", "prompt": "x", "stream": False}, Origin=origin), status)
            self.assertEqual(self.status("/metrics", Origin=origin), status)

    def test_sites(self):
        self.assertEqual(self.status(Sec_Fetch_Site="cross-site"), 403)
        self.assertEqual(self.status("/", Sec_Fetch_Site="cross-site"), 200)
        self.assertEqual(self.status(Sec_Fetch_Site="same-origin"), 200)

    def test_cors(self):
        _, headers, _ = self.server.ask("GET", "/v1/models", headers={"Origin": "https://chat.example"})
        self.assertEqual((headers["Access-Control-Allow-Origin"], headers["Vary"]), ("https://chat.example", "Origin"))
        _, headers, _ = self.server.ask("GET", "/v1/models")
        self.assertIsNone(headers["Access-Control-Allow-Origin"])
        preflight = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, x-stainless-os"}
        status, headers, _ = self.server.ask("OPTIONS", "/v1/chat/completions", headers={"Origin": "https://chat.example", **preflight})
        self.assertEqual(status, 204)
        self.assertEqual(headers["Access-Control-Allow-Headers"], "authorization, x-stainless-os")
        self.assertEqual(headers["Access-Control-Max-Age"], "600")
        self.assertIsNone(headers["Access-Control-Allow-Credentials"])
        status, _, _ = self.server.ask("OPTIONS", "/v1/chat/completions", headers={"Origin": "https://evil.example", **preflight})
        self.assertEqual(status, 403)

    def test_the_body_of_a_refused_request_is_not_read(self):
        head = b"POST /v1/completions HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1000000\r\n\r\n"
        with self.server.connect() as connection:
            connection.sendall(head)
            self.assertEqual(server_support.status_of(connection.recv(1000)), 403)


class Keys(TestCase):
    config = {"keys": f"# keys\n\nalice: {KEY}\nbob:{SHA256_OF_OTHER}\n"}

    def test_keys(self):
        for headers, status in (({"Authorization": f"Bearer {KEY}"}, 200), ({"Authorization": f"bearer {OTHER}"}, 200),
                                ({"x-api-key": OTHER}, 200), ({}, 401), ({"Authorization": "Bearer "}, 401), ({"Authorization": KEY}, 401),
                                ({"Authorization": f"Bearer {KEY}x"}, 401), ({"Authorization": f"Bearer {SHA256_OF_OTHER}"}, 401),
                                ({"Authorization": f"Basic {KEY}"}, 401)):
            self.assertEqual(self.server.ask("GET", "/v1/models", headers=headers)[0], status, headers)

    def test_refusal(self):
        start = time.monotonic()
        status, headers, content = self.server.ask("GET", "/v1/models")
        self.assertGreater(time.monotonic() - start, 0.045)
        self.assertEqual((status, headers["WWW-Authenticate"]), (401, "Bearer"))
        self.assertIn(b'"code":"invalid_api_key"', content)
        _, _, content = self.server.ask("GET", "/api/tags")
        self.assertRegex(content, rb'^\{"error":"[^"]+"\}$')

    def test_what_is_free(self):
        for path in ("/health", "/v1/health", "/ready", "/"):
            self.assertEqual(self.server.ask("GET", path)[0], 200)
        for path in ("/metrics", "/props", "/version", "/openapi.json"):
            self.assertEqual(self.server.ask("GET", path)[0], 401)


if __name__ == "__main__":
    server_support.main()

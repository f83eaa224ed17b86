"""Hosts, origins and keys."""
import http.client
import json
import os
import shutil
import socket
import ssl
import stat
import subprocess
import tempfile
import time
import unittest
import warnings

import server_support
from server_support import TestCase
from support import eventually

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


class Scopes(TestCase):
    config = {"keys": "all: a-key-of-tests-1 scopes=infer,metrics,admin\nusual: a-key-of-tests-2\nwatch: a-key-of-tests-3 scopes=metrics\n"
                      "one: a-key-of-tests-4 models=other\n",
              "models": {"script": server_support.SCRIPT, "other": server_support.SCRIPT}}

    def status(self, number, method, path, body=None):
        return self.server.ask(method, path, body, {"Authorization": f"Bearer a-key-of-tests-{number}"})[0]

    def test_scopes(self):
        body = {"model": "script", "prompt": "hi"}
        for number, infer, metrics, admin in ((1, 200, 200, 501), (2, 200, 200, 403), (3, 403, 200, 403)):
            self.assertEqual(self.status(number, "POST", "/v1/completions", body), infer)
            self.assertEqual(self.status(number, "GET", "/metrics"), metrics)
            self.assertEqual(self.status(number, "POST", "/api/pull", {"model": "x"}), admin)

    def test_models(self):
        for path in ("/v1/completions", "/api/generate", "/tokenize"):
            fields = {"prompt": "hi", "stream": False}
            self.assertEqual(self.status(4, "POST", path, {"model": "other", **fields}), 200)
            self.assertEqual(self.status(4, "POST", path, {"model": "script", **fields}), 403)
            self.assertEqual(self.status(1, "POST", path, {"model": "script", **fields}), 200)


class KeyLimits(TestCase):
    config = {"keys": "few: a-key-of-tests-1 requests=3\nsmall: a-key-of-tests-2 tokens=30\nlone: a-key-of-tests-3 concurrent=1\n"}

    def ask(self, number, prompt="hi", **fields):
        return self.server.ask("POST", "/v1/completions", {"model": "script", "prompt": prompt, **fields}, {"x-api-key": f"a-key-of-tests-{number}"})

    def test_requests(self):
        for _ in range(3):
            self.assertEqual(self.ask(1)[0], 200)
        status, headers, content = self.ask(1)
        self.assertEqual((status, headers["Retry-After"]), (429, "20"), content)
        self.assertIn(b"rate_limit_exceeded", content)
        self.assertEqual(self.server.ask("GET", "/v1/models", headers={"x-api-key": "a-key-of-tests-1"})[0], 200)

    def test_tokens(self):
        status = 200
        answers = 0
        while status == 200:
            status, headers, _ = self.ask(2)
            answers += 1
        self.assertEqual((status, answers), (429, 6))  # each has two and five tokens

    def test_requests_at_once(self):
        head = b"x-api-key: a-key-of-tests-3"
        request = server_support.raw_request("POST", "/v1/completions", {"model": "script", "prompt": "slow", "stream": True}, [head.decode()])
        with self.server.connect() as connection:
            connection.sendall(request)
            self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 200 "))
            self.assertEqual(self.ask(3)[0], 429)
        eventually(lambda: self.ask(3)[0] == 200)
        # A body that does not come holds the place from the moment that its head is read, and gives it back.
        def is_taken():  # not while the last answer still has the place
            with self.server.connect() as connection:
                connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n" + head +
                                   b"\r\nContent-Length: 100\r\n\r\n")
                return connection.recv(100).startswith(b"HTTP/1.1 100 ") and self.ask(3)[0] == 429
        eventually(is_taken)
        eventually(lambda: self.ask(3)[0] == 200)


@unittest.skipUnless(shutil.which("openssl"), "no openssl")
class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.files = {}
        for name in ("first", "second"):
            cls.files[name] = [f"{cls.folder.name}/{name}.{kind}" for kind in ("crt", "key")]
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                            "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", cls.files[name][0],
                            "-keyout", cls.files[name][1]], check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def context(self, name):
        context = ssl.create_default_context(cafile=self.files[name][0])
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context

    def test_requests(self):
        certificate, key = self.files["first"]
        with server_support.Server(certificate=certificate, private_key=key) as server:
            connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=self.context("first"), timeout=30)
            for stream in (False, True, False):
                connection.request("POST", "/v1/completions", json.dumps({"model": "script", "prompt": "megabyte", "stream": stream, "max_tokens": 1000}),
                                   {"Content-Type": "application/json"})
                answer = connection.getresponse()
                self.assertEqual(answer.status, 200)
                self.assertEqual(answer.read().count(b"y" * 1000), 1000)
                self.assertEqual(connection.sock.selected_alpn_protocol(), "http/1.1")
                self.assertIn(connection.sock.version(), ("TLSv1.2", "TLSv1.3"))
            connection.close()
            # Large bodies, byte by byte too, and an answer that ends with close_notify.
            with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
                with self.context("first").wrap_socket(raw, server_hostname="localhost") as wrapped:
                    request = server_support.raw_request("POST", "/tokenize", {"content": "x" * 200}, ["Connection: close"])
                    for byte in request:
                        wrapped.sendall(bytes([byte]))
                    content = b""
                    while piece := wrapped.recv(65536):
                        content += piece
                    self.assertEqual(server_support.status_of(content), 200)

    def test_others_are_refused(self):
        certificate, key = self.files["first"]
        with server_support.Server(certificate=certificate, private_key=key) as server:
            with server.connect() as connection:  # plain text
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertNotIn(b"HTTP/1.1 200", server_support.read_all(connection))
            for change in ({"maximum_version": ssl.TLSVersion.TLSv1_1}, {}):
                context = self.context("second")  # which does not know this certificate
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    for name, value in change.items():
                        context.minimum_version = ssl.TLSVersion.TLSv1
                        setattr(context, name, value)
                with self.assertRaises(ssl.SSLError):
                    context.wrap_socket(server.connect(), server_hostname="localhost")
            with server.connect() as connection:
                connection.sendall(os.urandom(5000))
                server_support.read_all(connection)
            connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=self.context("first"), timeout=30)
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().status, 200)
            connection.close()

    def test_files(self):
        first, second = self.files["first"], self.files["second"]
        for files, says in (((first[0], second[1]), "does not belong to the certificate"), (("/nothing", first[1]), "cannot be used as a certificate"),
                            ((first[0], "/nothing"), "cannot be used as a private key"), ((first[1], first[1]), "cannot be used as a certificate")):
            with self.assertRaisesRegex(AssertionError, says):
                server_support.Server(certificate=files[0], private_key=files[1])


class Paths(unittest.TestCase):
    def ask(self, path):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(path)
            connection.sendall(server_support.raw_request("GET", "/health", headers=["Connection: close"]))
            return server_support.status_of(server_support.read_all(connection))

    def test_a_socket_of_a_path(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/socket"
            with server_support.Server(paths=[path], connections_per_address=2) as server:
                self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o660)
                self.assertEqual(self.ask(path), 200)
                many = [socket.socket(socket.AF_UNIX) for _ in range(5)]  # they have no address to count
                for connection in many:
                    connection.connect(path)
                self.assertEqual(self.ask(path), 200)
                for connection in many:
                    connection.close()
                self.assertEqual(server.get("/health")[0], 200)
                with self.assertRaisesRegex(AssertionError, "a process listens on"):
                    server_support.Server(paths=[path])
            self.assertFalse(os.path.exists(path))
            # A socket that a killed process left is replaced, another file is not.
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(path)
            with server_support.Server(paths=[path]):
                self.assertEqual(self.ask(path), 200)
            with open(path, "w", encoding="utf-8"):
                pass
            with self.assertRaisesRegex(AssertionError, "is not a socket"):
                server_support.Server(paths=[path])
            with self.assertRaisesRegex(AssertionError, "a path has 1 to 107 bytes"):
                server_support.Server(paths=["x" * 108])


if __name__ == "__main__":
    server_support.main()

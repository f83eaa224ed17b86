"""A stand-in for the Hugging Face Hub on loopback, for tests: its API, its files, and a second host for large ones.

Files that end in .gguf or .safetensors are in LFS: `resolve` redirects to the second host, which knows no tokens. Faults
are queued by a part of the request's path: each request that has it takes the next one.
"""
import contextlib
import hashlib
import http.server
import json
import re
import socket
import struct
import threading
import time
import urllib.parse


def git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def is_lfs(path):
    return path.endswith((".gguf", ".safetensors"))


class Repo:
    def __init__(self):
        self.commits, self.refs = {}, {}
        self.token, self.gated = None, False

    def commit(self, files, revision="main"):
        """Adds a commit with these files (path -> bytes); returns its hash."""
        sha = hashlib.sha1(f"{len(self.commits)} {sorted(files)}".encode()).hexdigest()
        self.commits[sha] = dict(files)
        self.refs[revision] = sha
        return sha


class HubServer:
    """`with HubServer() as hub:`; `hub.url` is what HF_ENDPOINT has to be. `tls`: an ssl.SSLContext, or None, of the Hub
    and of the host of large files."""

    def __init__(self, page_size=1000, tls=(None, None)):
        self.tls = tls
        self.repos, self.faults, self.requests = {}, [], []
        self.page_size = page_size
        self.chunk_seconds = 0.0  # after each 64 KiB of a large file
        self.cut_lists = {}       # repository -> text in place of its list of files
        self.lock = threading.Lock()
        self.bytes_sent = 0

    def __enter__(self):
        self.hosts = [self._start("hub", self.tls[0]), self._start("files", self.tls[1])]
        self.url, self.files_url = (f"http{'s' if tls else ''}://127.0.0.1:{host.server_port}"
                                    for host, tls in zip(self.hosts, self.tls))
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            host.shutdown()
            host.server_close()

    def _start(self, role, tls):
        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request, client_address):
                pass  # clients that are killed are what many tests are about

        server = Server(("127.0.0.1", 0), type("Handler", (Handler,), {"hub": self, "role": role}))
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return server

    def repo(self, name):
        return self.repos.setdefault(name, Repo())

    def fault(self, part, kind, times=1, **details):
        """kind: status (code, headers), body, redirect (to), headers, break (after, reset), stall and drip (after, seconds),
        endless, endless_error (code), longer (by how much), wrong, ignore_range, other_range."""
        self.faults.append({"part": part, "kind": kind, "times": times, **details})

    def take_fault(self, role, path):
        with self.lock:
            for fault in self.faults:
                if fault["times"] > 0 and fault["part"] in f"{role}:{path}":
                    fault["times"] -= 1
                    return fault
        return None

    def blob(self, digest):
        for repo in self.repos.values():
            for files in repo.commits.values():
                for data in files.values():
                    if sha256(data) == digest:
                        return data
        return None

    def tokens_at(self, role):
        return [r["token"] for r in self.requests if r["role"] == role and r["token"]]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        with self.hub.lock:
            self.hub.requests.append({"role": self.role, "path": self.path, "token": token,
                                      "range": self.headers.get("Range")})
        self.fault = self.hub.take_fault(self.role, self.path) or {"kind": ""}
        if self.fault["kind"] == "status":
            return self.answer(self.fault["code"], b"", self.fault.get("headers", {}))
        if self.fault["kind"] == "endless_error":
            self.send_response(self.fault["code"])
            self.send_header("Connection", "close")
            self.end_headers()
            while True:
                self.send_body(b"\0" * 65536)
        if self.fault["kind"] == "redirect":
            return self.answer(302, b"", {"Location": self.fault["to"]})
        if self.fault["kind"] == "body":
            return self.answer(200, self.fault["body"], self.fault.get("headers", {}))
        url = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(url.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if self.role == "files":
            data = self.hub.blob(path.strip("/"))
            return self.send_file(data, {}) if data is not None else self.answer(404, b"")
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path):
            return self.with_repo(match[1], match[2], lambda repo, sha: self.send_json({"id": match[1], "sha": sha}))
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)", path):
            return self.with_repo(match[1], match[2], lambda repo, sha: self.send_tree(match[1], repo, sha, query))
        if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self.with_repo(match[1], match[2], lambda repo, sha: self.resolve(repo, sha, match[3]), files=True)
        return self.answer(404, b"")

    def with_repo(self, name, revision, then, files=False):
        repo = self.hub.repos.get(name)
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token == "bad":
            return self.answer(401, b"", {"X-Error-Message": "Invalid credentials in Authorization header"})
        if repo is None or (repo.token and not repo.gated and token != repo.token):
            return self.answer(404 if token else 401, b"", {"X-Error-Code": "RepoNotFound"})
        if repo.gated and files and token != repo.token:
            return self.answer(403 if token else 401, b"", {"X-Error-Code": "GatedRepo"})
        sha = repo.refs.get(revision, revision)
        if sha not in repo.commits:
            return self.answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
        return then(repo, sha)

    def send_tree(self, name, repo, sha, query):
        if name in self.hub.cut_lists:
            return self.answer(200, self.hub.cut_lists[name])
        entries = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": folder}
                   for folder in sorted({p.rsplit("/", 1)[0] for p in repo.commits[sha] if "/" in p})]
        for path, data in sorted(repo.commits[sha].items()):
            entry = {"type": "file", "oid": git_hash(data), "size": len(data), "path": path}
            if is_lfs(path):
                entry["lfs"] = {"oid": sha256(data), "size": len(data), "pointerSize": 134}
            entries.append(entry)
        start, end = int(query.get("cursor", 0)), int(query.get("cursor", 0)) + self.hub.page_size
        headers = {}
        if end < len(entries):
            headers["Link"] = f'<{self.hub.url}/api/models/{name}/tree/{sha}?recursive=true&cursor={end}>; rel="next"'
        self.send_json(entries[start:end], headers)

    def resolve(self, repo, sha, path):
        if path not in repo.commits[sha]:
            return self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        data = repo.commits[sha][path]
        headers = {"X-Repo-Commit": sha}
        if not is_lfs(path):
            return self.send_file(data, {**headers, "ETag": f'"{git_hash(data)}"'})
        headers |= {"X-Linked-Etag": f'"{sha256(data)}"', "X-Linked-Size": str(len(data)),
                    "Location": f"{self.hub.files_url}/{sha256(data)}?signature=s"}
        if self.fault["kind"] == "headers":
            headers |= self.fault["headers"]
        return self.answer(302, b"", headers)

    def send_json(self, document, headers=None):
        self.answer(200, json.dumps(document).encode(), {"Content-Type": "application/json", **(headers or {})})

    def answer(self, code, body, headers=None):
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_file(self, data, headers):
        kind = self.fault["kind"]
        start, end, code = 0, len(data), 200
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if match and kind != "ignore_range":
            start, end, code = int(match[1]), int(match[2]) + 1, 206
            headers = {**headers, "Content-Range": f"bytes {start}-{end - 1}/{len(data)}"}
        body = data[start:end]
        if kind == "wrong":
            body = bytes([body[0] ^ 1]) + body[1:]
        if kind == "other_range":
            headers["Content-Range"] = f"bytes {start + 1}-{end}/{len(data)}"
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        if kind == "endless":
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(len(body) + self.fault.get("longer", 0)))
        self.end_headers()
        if self.command == "HEAD":
            return None
        if kind == "break":
            self.send_body(body[:self.fault["after"]])
            return self.abort() if self.fault.get("reset") else self.end()
        if kind in ("stall", "drip"):
            self.send_body(body[:self.fault.get("after", 0)])
            for byte in body[self.fault.get("after", 0):self.fault.get("after", 0) + self.fault["seconds"]]:
                time.sleep(1)
                if kind == "drip":
                    self.send_body(bytes([byte]))
            return self.abort()
        self.send_body(body)
        while kind == "endless":
            self.send_body(b"\0" * 65536)
        if kind == "longer":
            self.send_body(b"x" * self.fault["longer"])
        return None

    def send_body(self, body):
        for at in range(0, len(body), 65536):
            piece = body[at:at + 65536]
            self.wfile.write(piece)
            with self.hub.lock:
                self.hub.bytes_sent += len(piece)
            if self.hub.chunk_seconds:
                time.sleep(self.hub.chunk_seconds)

    def end(self):
        self.close_connection = True

    def abort(self):
        """A reset, not an end."""
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.flush()
        self.connection.close()

"""`gabbro pull` against a stand-in for the Hub: the protocol, the cache, and everything that goes wrong on the way.

GABBRO_PULL_KILLS=50 python3 tests/cli/test_pull.py Kills kills downloads at 50 random moments (a few by default).
"""
import json
import os
import random
import shutil
import signal
import ssl
import subprocess
import sys
import time
import unittest

import support
from hub_server import HubServer, git_hash, sha256
from pseudo_terminal import Terminal
from pull_support import MIB, PullTest, noise

KILLS = int(os.environ.get("GABBRO_PULL_KILLS", "4"))


class Downloads(PullTest):
    def test_a_quantization_is_one_file_and_the_default_is_q4_k_m(self):
        repo = self.hub.repo("own/m-GGUF")
        commit = repo.commit({"m-Q4_K_M.gguf": noise(3 * MIB + 5), "m-Q8_0.gguf": noise(99), "README.md": b"hi",
                              "mmproj-m-f16.gguf": b"projector"})
        result = self.pull("own/m-GGUF")
        path = self.snapshot_file("own/m-GGUF", commit, "m-Q4_K_M.gguf")
        self.assertEqual(result.text, f"{path}\n")
        self.check_cache("own/m-GGUF", commit, ["m-Q4_K_M.gguf"])
        for name in "own/m-GGUF:Q8_0", "hf.co/own/m-GGUF:q8_0", "own/m-GGUF:m-Q8_0.gguf":
            self.assertIn("m-Q8_0.gguf\n", self.pull(name).text)
        self.check_cache("own/m-GGUF", commit, ["m-Q4_K_M.gguf", "m-Q8_0.gguf"])
        self.pull_fails(2, "own/m-GGUF:q5_0", says=["no model 'q5_0'", "hint: ", "q4_k_m, q8_0"])

    def test_a_quantization_has_all_of_its_parts(self):
        files = {f"q4_k_m/m-q4_k_m-0000{i}-of-00003.gguf": noise(MIB + i, i) for i in (1, 2, 3)}
        commit = self.hub.repo("own/split").commit({**files, "f16/m-f16.gguf": b"x"})
        document = json.loads(self.pull("own/split:q4_k_m", "--json").text)
        self.check_cache("own/split", commit, list(files))
        self.assertTrue(document["path"].endswith("m-q4_k_m-00001-of-00003.gguf"))
        self.assertEqual(document["bytes"], sum(map(len, files.values())))
        self.assertEqual(document["bytes_received"], document["bytes"])
        self.assertEqual({f["path"]: f["hash"] for f in document["files"]}, {p: sha256(d) for p, d in files.items()})
        self.hub.repo("own/split").commit({"m-q4_k_m-00001-of-00002.gguf": b"x"})
        self.pull_fails(2, "own/split:q4_k_m", says="only some of its parts")

    def test_a_folder_has_what_a_model_takes(self):
        model = {"config.json": b"{}", "tokenizer.json": b"[]", "model.safetensors": noise(2 * MIB), "LICENSE": b"l",
                 "chat_template.jinja": b"t"}
        rest = {"pytorch_model.bin": b"b", "consolidated.safetensors": b"c", "onnx/model.onnx": b"o", "x.py": b"p",
                ".gitattributes": b"g"}
        commit = self.hub.repo("own/folder").commit({**model, **rest})
        self.pull("own/folder")
        self.check_cache("own/folder", commit, model)
        pipeline = {"model_index.json": b"{}", "unet/config.json": b"{}", "unet/model.safetensors": b"u"}
        commit = self.hub.repo("own/sd").commit({**pipeline, "unet/model.fp16.safetensors": b"f", "sd.safetensors": b"s"})
        self.pull("own/sd")
        self.check_cache("own/sd", commit, pipeline)

    def test_single_files(self):
        card = b"---\nlicense: other\nlicense_name: 'openrail++'\n---\n# m\n"
        model = {"sd.safetensors": b"s", "README.md": card}
        commit = self.hub.repo("own/single").commit({**model, "a.png": b"p", "sd.ckpt": b"c"})
        result = self.pull("own/single")
        self.check_cache("own/single", commit, model)
        self.assertTrue(result.text.strip().endswith("/sd.safetensors"), result)
        self.assertIn(b"license: openrail++", result.err)
        document = json.loads(self.pull("own/single", "--json").text)
        self.assertEqual(document["license"], "openrail++")
        offline = self.pull("own/single", HF_HUB_OFFLINE="1")
        self.assertEqual(offline.text, result.text)
        self.hub.repo("own/several").commit({"a.safetensors": b"a", "b.safetensors": b"b", "LICENSE": b"\n MIT License\n"})
        self.pull_fails(2, "own/several", says=["2 safetensors files", "--include", "a.safetensors, b.safetensors"])
        result = self.pull("own/several", "--include", "b.safetensors", "--include", "LICENSE")
        self.assertTrue(result.text.strip().endswith("/b.safetensors"), result)
        self.assertIn(b"license: MIT License", result.err)

    def test_patterns_choose_files(self):
        commit = self.hub.repo("own/m").commit({"a.txt": b"a", "b.txt": b"b", "d/c.txt": b"c", "d/e.bin": b"e"})
        self.pull("own/m", "--include", "*.txt", "--exclude", "b*", "--exclude", "nothing")
        self.check_cache("own/m", commit, ["a.txt", "d/c.txt"])
        self.pull_fails(2, "own/m", "--include", "*.gguf", says="no file that matches *.gguf")
        self.pull_fails(2, "own/m:q8_0", "--include", "*.gguf", says="names a model already")
        self.pull_fails(2, "own/m", says=["neither GGUF files nor safetensors", "--include"])

    def test_names_that_mean_nothing(self):
        for name in "nope", "a/b/c", "../x", "own/..", "own/a--b", "own/m@../x", "own/m:", "-x/y", "own/m.git", "o/m@a..b":
            self.pull_fails(2, "--", name, says="is not the name of a model")
        self.pull_fails(2, "own/m", "--revision", "a/../b", says="--revision")
        self.pull_fails(2, "own/m", "--connections", "0", says="--connections")
        self.pull_fails(2, "own/m", says="HF_ENDPOINT", HF_ENDPOINT="ftp://x")
        self.assertEqual(self.hub.requests, [])

    def test_short_names(self):
        commit = self.hub.repo("Qwen/Qwen3-8B-GGUF").commit({"Qwen3-8B-Q4_K_M.gguf": b"q", "Qwen3-8B-Q8_0.gguf": b"r"})
        self.pull("qwen3:8b")
        self.check_cache("Qwen/Qwen3-8B-GGUF", commit, ["Qwen3-8B-Q4_K_M.gguf"])

    def test_revisions(self):
        repo = self.hub.repo("own/m")
        old = repo.commit({"m-q8_0.gguf": b"old"}, "v1.0")
        new = repo.commit({"m-q8_0.gguf": b"new"})
        self.pull("own/m@v1.0")
        self.check_cache("own/m", old, ["m-q8_0.gguf"], "v1.0")
        self.pull("own/m", "--revision", new)
        self.assertFalse((self.repo_folder("own/m") / "refs" / "main").exists())
        self.pull("own/m")
        self.check_cache("own/m", new, ["m-q8_0.gguf"])
        self.pull_fails(2, "own/m@nope", says="no revision 'nope'")

    def test_a_second_pull_transfers_only_what_is_new(self):
        repo = self.hub.repo("own/m")
        files = {"config.json": b"{}", "model.safetensors": noise(MIB)}
        old = repo.commit(files)
        self.pull("own/m")
        sent = self.hub.bytes_sent
        document = json.loads(self.pull("own/m", "--json").text)
        self.assertEqual((document["bytes_received"], self.hub.bytes_sent), (0, sent))
        new = repo.commit({**files, "config.json": b'{"new": 1}'})
        document = json.loads(self.pull("own/m", "--json").text)
        self.assertEqual(document["bytes_received"], len(b'{"new": 1}'))
        self.check_cache("own/m", new, files)
        link = self.snapshot_file("own/m", new, "config.json")
        link.unlink()
        link.symlink_to("../../../nowhere")
        self.pull("own/m")
        self.check_cache("own/m", new, files)
        self.assertEqual(self.snapshot_file("own/m", old, "config.json").read_bytes(), b"{}")

    def test_two_names_of_one_content_are_one_download(self):
        commit = self.hub.repo("own/m").commit({"a.txt": b"same" * 999, "b.txt": b"same" * 999, "empty.txt": b""})
        self.pull("own/m", "--include", "*")
        self.check_cache("own/m", commit, ["a.txt", "b.txt", "empty.txt"])
        self.assertEqual(self.hub.bytes_sent, 4 * 999)

    def test_a_proxy_of_the_environment(self):
        commit = self.hub.repo("own/m").commit({"m-q8_0.gguf": b"data"})
        self.pull("own/m", HF_ENDPOINT="http://hub.invalid", http_proxy=self.hub.url, no_proxy="127.0.0.1")
        self.check_cache("own/m", commit, ["m-q8_0.gguf"])

    def test_offline(self):
        self.hub.repo("own/m").commit({"m-q8_0.gguf": b"data"})
        self.pull_fails(1, "own/m", says="HF_HUB_OFFLINE is set", HF_HUB_OFFLINE="1")
        path = self.pull("own/m").text
        seen = len(self.hub.requests)
        self.assertEqual(self.pull("own/m:q8_0", HF_HUB_OFFLINE="1").text, path)
        self.assertEqual(len(self.hub.requests), seen)

    def test_without_network_a_cached_model_is_found(self):
        repo = self.hub.repo("own/m")
        commit = repo.commit({"m-q8_0.gguf": b"data", "m-f16.gguf": b"more", "x.txt": b"x"})
        path = self.pull("own/m:q8_0").text
        away = {"HF_ENDPOINT": "http://127.0.0.1:9"}
        for environment, says in (away, "127.0.0.1:9"), ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set"):
            for name in "own/m", "own/m:q8_0", "OWN/m:Q8_0", "own/m@main", f"own/m@{commit}":
                result = self.pull(name, **environment)
                self.assertEqual(result.text, path)
                self.assertRegex(result.err.decode(), f"gabbro: note: .*{says}.*this is what is on this machine")
            document = json.loads(self.pull("own/m", "--json", **environment).text)
            self.assertEqual((document["path"] + "\n", document["model"], document["commit"], document["bytes_received"]),
                             (path, "own/m:q8_0", commit, 0))
            self.assertEqual(document["files"], [{"path": "m-q8_0.gguf", "bytes": 4, "hash": sha256(b"data")}])
            self.assertEqual(self.pull("own/m", "--include", "*.gguf", **environment).text.strip(),
                             str(self.repo_folder("own/m") / "snapshots" / commit))
            for name in "own/m:f16", "own/other", "own/m@v2":
                self.pull_fails(1, name, says=says, **environment)
            self.pull_fails(1, "own/m", "--include", "*.bin", says=says, **environment)
        # A server that does not work is as good as none.
        self.hub.fault("/api", "status", times=3, code=503)
        self.assertEqual(self.pull("own/m", "--retries", "0").text, path)
        self.hub.faults.clear()
        folder = self.hub.repo("own/folder").commit({"config.json": b"{}", "model.safetensors": b"w"})
        expected = self.pull("own/folder").text
        self.assertEqual(self.pull("own/folder", **away).text, expected)
        self.snapshot_file("own/folder", folder, "model.safetensors").resolve().unlink()
        self.pull_fails(1, "own/folder", says="127.0.0.1:9", **away)

    def test_nothing_listens(self):
        self.pull_fails(1, "own/m", says=["127.0.0.1:9", "hint: check the connection"], HF_ENDPOINT="http://127.0.0.1:9")


class Pages(PullTest):
    PAGE_SIZE = 3

    def test_a_list_in_pages(self):
        files = {f"d{i % 4}/f{i}.txt": str(i).encode() for i in range(31)}
        commit = self.hub.repo("own/m").commit(files)
        self.pull("own/m", "--include", "*")
        self.check_cache("own/m", commit, files)


class Access(PullTest):
    def test_the_token_goes_to_the_hub_alone(self):
        repo = self.hub.repo("own/private")
        repo.token = "hf_secret"
        commit = repo.commit({"m-q8_0.gguf": b"x"})
        self.pull_fails(1, "own/private", says=["no such model, or it is private", "HF_TOKEN"])
        self.pull("own/private", HF_TOKEN="hf_secret")
        self.check_cache("own/private", commit, ["m-q8_0.gguf"])
        self.assertEqual(self.hub.tokens_at("files"), [])
        self.assertIn("hf_secret", self.hub.tokens_at("hub"))
        (self.folder / "hf" / "token").write_text("hf_secret\n")
        self.pull("own/private")

    def test_a_redirect_of_the_api_to_another_host_gets_no_token(self):
        self.hub.repo("own/m").commit({"m-q8_0.gguf": b"x"})
        self.hub.fault("hub:/api", "redirect", to=self.hub.files_url + "/api/models/own/m/revision/main")
        self.pull_fails(2, "own/m", says="no model", HF_TOKEN="hf_secret")
        self.assertEqual(self.hub.requests[-1]["role"], "files")
        self.assertEqual(self.hub.tokens_at("files"), [])

    def test_gated(self):
        repo = self.hub.repo("own/gated")
        repo.token, repo.gated = "hf_good", True
        repo.commit({"m-q8_0.gguf": b"x"})
        self.pull_fails(1, "own/gated", says=["is gated: it needs a token", "accept its terms at", "HF_TOKEN"])
        self.pull_fails(1, "own/gated", says="this token has no access", HF_TOKEN="hf_other")
        self.pull("own/gated", HF_TOKEN="hf_good")

    def test_tokens_that_are_wrong(self):
        self.hub.repo("own/m").commit({"m-q8_0.gguf": b"x"})
        self.pull_fails(1, "own/m", says=["does not accept the token of HF_TOKEN", "settings/tokens"], HF_TOKEN="bad")
        self.pull_fails(2, "own/m", says="HF_TOKEN: is not a token", HF_TOKEN="a\nX-Header: b")

    def test_what_the_hub_refuses(self):
        self.hub.repo("own/m").commit({"m-q8_0.gguf": b"x"})
        self.pull_fails(2, "own/nope", says="the Hub has no model own/nope", HF_TOKEN="hf_x")
        self.hub.fault("/api", "status", code=403)
        self.pull_fails(1, "own/m", says="refuses access (403)")
        self.hub.fault("/api", "status", code=418)
        self.pull_fails(1, "own/m", says="the Hub answers 418")
        self.hub.fault("files:", "status", code=404)
        self.pull_fails(1, "own/m", says="m-q8_0.gguf: the Hub answers 404")


class Encryption(PullTest):
    def setUp(self):
        if shutil.which("openssl") is None:
            self.skipTest("no openssl command, which makes the certificate")
        super().setUp()
        self.certificate = self.folder / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.certificate, "-out",
                        self.folder / "public.pem"], check=True, capture_output=True)
        with open(self.certificate, "a") as file:
            file.write((self.folder / "public.pem").read_text())
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(self.certificate)

    def serve(self, files_tls):
        hub = HubServer(tls=(self.tls, files_tls))
        hub.__enter__()
        self.addCleanup(hub.__exit__)
        self.hub, self.environment["HF_ENDPOINT"] = hub, hub.url
        self.commit = hub.repo("own/m").commit({"m-q8_0.gguf": noise(2 * MIB), "x.txt": b"x"})

    def test_certificates_are_checked(self):
        self.serve(self.tls)
        self.pull_fails(1, "own/m", says=["certificate", "hint: CURL_CA_BUNDLE or SSL_CERT_FILE"], SSL_CERT_FILE="")
        for name in "SSL_CERT_FILE", "CURL_CA_BUNDLE":
            self.pull("own/m", **{name: str(self.folder / "public.pem")})
        self.check_cache("own/m", self.commit, ["m-q8_0.gguf"])

    def test_no_redirect_leads_to_a_connection_without_encryption(self):
        self.serve(None)
        self.pull_fails(1, "own/m", says="a redirect leads from https to 'http://127.0.0.1",
                        SSL_CERT_FILE=str(self.folder / "public.pem"))
        self.assertEqual([r for r in self.hub.requests if r["role"] == "files"], [])


class Faults(PullTest):
    """One thing goes wrong, and the download is right in the end, or says what is wrong and leaves nothing wrong."""

    SIZE = 9 * MIB + 321

    def setUp(self):
        super().setUp()
        self.data = noise(self.SIZE)
        self.commit = self.hub.repo("own/m").commit({"m-q8_0.gguf": self.data})
        self.incomplete = self.repo_folder("own/m") / "blobs" / f"{sha256(self.data)}.gabbro.incomplete"

    def succeeds_in_the_end(self, *arguments, **environment):
        self.pull("own/m", *arguments, **environment)
        self.check_cache("own/m", self.commit, ["m-q8_0.gguf"])

    def leaves_no_model(self):
        self.assertEqual(list((self.repo_folder("own/m") / "snapshots").iterdir()), [])
        self.assertFalse((self.repo_folder("own/m") / "blobs" / sha256(self.data)).exists())

    def test_broken_connections(self):
        self.hub.fault("files:", "break", times=6, after=3 * MIB + 7)
        self.succeeds_in_the_end("--connections", "2")
        self.assertLess(self.hub.bytes_sent, 2 * self.SIZE)
        self.assertTrue(any(r["range"] and not r["range"].startswith("bytes=0-") for r in self.hub.requests))

    def test_connections_that_are_reset(self):
        self.hub.fault("files:", "break", times=2, after=3 * MIB + 7, reset=True)
        self.succeeds_in_the_end("--connections", "2")

    def test_attempts_without_data_are_counted(self):
        self.hub.fault("files:", "break", times=100, after=10)
        self.pull_fails(1, "own/m", "--retries", "1", says="127.0.0.1")
        self.leaves_no_model()
        self.hub.faults.clear()
        self.succeeds_in_the_end()

    def test_a_server_that_is_busy(self):
        self.hub.fault("/api", "status", code=503)
        self.hub.fault("hub:/own", "status", code=429, headers={"Retry-After": "2"})
        self.hub.fault("files:", "status", code=500)
        start = time.monotonic()
        self.succeeds_in_the_end("--connections", "1")
        self.assertGreater(time.monotonic() - start, 2.5)
        self.hub.fault("/api", "status", times=9, code=429, headers={"RateLimit": '"api";r=0;t=1'})
        self.pull_fails(1, "own/m", "--retries", "1", says=["the Hub answers 429 (too many requests)", "try again later"])
        self.hub.fault("/api", "status", code=429, headers={"Retry-After": "86400"})
        self.hub.faults = self.hub.faults[-1:]
        self.pull_fails(1, "own/m", says="429")

    def test_an_address_that_expired(self):
        self.hub.fault("files:", "status", code=403)  # the first range is read from it, the second not any more
        self.hub.faults[0]["times"] = 0
        original = self.hub.take_fault
        count = {"files": 0}

        def expire(role, path):
            count[role] = count.get(role, 0) + 1
            return {"kind": "status", "code": 403} if role == "files" and count[role] == 2 else original(role, path)

        self.hub.take_fault = expire
        self.succeeds_in_the_end("--connections", "1")
        self.assertEqual(len([r for r in self.hub.requests if "/resolve/" in r["path"]]), 2)

    def test_a_wrong_hash(self):
        self.hub.fault("files:", "wrong")
        self.pull_fails(1, "own/m", says=["m-q8_0.gguf: the downloaded file has SHA-256", sha256(self.data)])
        self.leaves_no_model()
        self.assertFalse(self.incomplete.exists())
        self.succeeds_in_the_end()
        commit = self.hub.repo("own/small").commit({"x.txt": b"text"})
        self.hub.fault("x.txt", "wrong")
        self.pull_fails(1, "own/small", "--include", "*", says=["git hash", git_hash(b"text")])
        self.pull("own/small", "--include", "*")
        self.check_cache("own/small", commit, ["x.txt"])

    def begin(self):
        """A download that broke off; returns the bytes of its incomplete file."""
        self.hub.fault("files:", "break", times=100, after=2 * MIB + 9)
        self.pull_fails(1, "own/m", "--retries", "0", "--connections", "1")
        self.hub.faults.clear()
        return bytearray(self.incomplete.read_bytes())

    def test_a_damaged_beginning_is_downloaded_again(self):
        content = self.begin()
        content[100] ^= 1
        self.incomplete.write_bytes(content)
        self.succeeds_in_the_end()

    def test_a_beginning_of_another_kind_is_not_used(self):
        for content in b"", b"x" * 100, bytes(self.SIZE), bytes(self.SIZE + 26), self.data[:-1]:
            self.incomplete.parent.mkdir(parents=True, exist_ok=True)
            self.incomplete.write_bytes(content)
            self.succeeds_in_the_end()
            (self.repo_folder("own/m") / "blobs" / sha256(self.data)).unlink()

    def test_a_blob_of_another_size_is_downloaded_again(self):
        self.succeeds_in_the_end()
        blob = self.repo_folder("own/m") / "blobs" / sha256(self.data)
        blob.write_bytes(b"cut")
        self.succeeds_in_the_end()

    def test_a_server_without_ranges(self):
        self.begin()
        self.hub.fault("files:", "ignore_range", times=100)
        self.succeeds_in_the_end()

    def test_a_body_that_is_too_long(self):
        self.hub.fault("files:", "endless", times=100)
        self.pull_fails(1, "own/m", "--connections", "1", says="sends more than")
        self.leaves_no_model()
        commit = self.hub.repo("own/small").commit({"x.txt": b"text"})
        self.hub.fault("x.txt", "longer", longer=5)
        self.pull_fails(1, "own/small", "--include", "*", says="the server has 9 bytes, the Hub's listing says 4")
        self.hub.faults.clear()
        self.pull("own/small", "--include", "*")
        self.check_cache("own/small", commit, ["x.txt"])

    def test_an_error_without_an_end(self):
        self.hub.fault("/resolve/", "endless_error", code=404)
        self.pull_fails(1, "own/m", says="m-q8_0.gguf: the Hub answers 404")

    def test_another_range(self):
        self.hub.fault("files:", "other_range", times=100)
        self.pull_fails(1, "own/m", "--connections", "1", says="another range than was asked for")
        self.leaves_no_model()

    def test_slow_bodies(self):
        for kind in "stall", "drip":
            self.hub.fault("files:", kind, seconds=30, after=MIB)
            start = time.monotonic()
            self.succeeds_in_the_end("--connections", "1", HF_HUB_DOWNLOAD_TIMEOUT="2")
            self.assertLess(time.monotonic() - start, 20)
            (self.repo_folder("own/m") / "blobs" / sha256(self.data)).unlink()

    def test_headers_that_contradict_the_list(self):
        for header, value in {"X-Linked-Etag": '"' + "0" * 64 + '"', "X-Linked-Size": "7", "X-Repo-Commit": "0" * 40}.items():
            self.hub.fault("/resolve/", "headers", headers={header: value})
            self.pull_fails(1, "own/m", says=[header.lower(), "its listing says"])
            self.leaves_no_model()

    def test_redirects_without_an_end(self):
        self.hub.fault("/resolve/", "redirect", times=100, to="/own/m/resolve/main/m-q8_0.gguf")
        self.pull_fails(1, "own/m", says="more than 8 redirects")
        self.hub.faults.clear()
        self.hub.fault("/resolve/", "redirect", to="file:///etc/passwd")
        self.pull_fails(1, "own/m", says="'file:///etc/passwd': is not an http address")

    def test_too_small_a_disk(self):
        listing = [{"type": "file", "path": "m-q8_0.gguf", "size": 1 << 60, "oid": "0" * 40,
                    "lfs": {"oid": "0" * 64, "size": 1 << 60, "pointerSize": 1}}]
        self.hub.cut_lists["own/m"] = json.dumps(listing).encode()
        self.pull_fails(1, "own/m", says=["1073741824.00 GiB are needed", "HF_HUB_CACHE"])

    def test_a_cache_that_cannot_be_written(self):
        self.folder.joinpath("hf").write_text("a file")
        self.pull_fails(1, "own/m", says="cannot be created")


class HostileLists(PullTest):
    def entry(self, **changes):
        entry = {"type": "file", "path": "m-q8_0.gguf", "size": 4, "oid": git_hash(b"data")}
        return {k: v for k, v in {**entry, **changes}.items() if v is not None}

    def refuses(self, listing, says):
        text = listing if isinstance(listing, bytes) else json.dumps(listing).encode()
        self.hub.repo("own/m").commit({"x": b""})
        self.hub.cut_lists["own/m"] = text
        before = sorted(self.folder.rglob("*"))
        self.pull_fails(1, "own/m", "--include", "*", says=says)
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_paths_that_leave_the_folder(self):
        for path in ("../../x", "/etc/x", "a/../../x", "..", ".", "", "a//b", "a/", "a/./b", "a\\..\\b", "a\nb", "a\0b", "a" * 250,
                     "a/" * 600 + "a"):
            self.refuses([self.entry(path=path)], says="refused the path")

    def test_hashes_and_sizes(self):
        self.refuses([self.entry(oid="../../x")], says="is not a hash")
        self.refuses([self.entry(oid="A" * 40)], says="is not a hash")
        self.refuses([self.entry(lfs={"oid": "../" * 21 + "x", "size": 1})], says="is not a hash")
        self.refuses([self.entry(lfs={"size": 1})], says="'oid' is not a text")
        self.refuses([self.entry(lfs=[])], says="is not a JSON object")
        for size in -1, 1.5, "4", 1 << 63, None:
            self.refuses([self.entry(size=size)], says="size")
        self.refuses([self.entry(path=7)], says="'path' is not a text")

    def test_other_documents(self):
        for text in b"", b"{", b"[" * 5000, b'[{"type": "file"', b"\xff", b"[1e999]":
            self.refuses(text, says="the Hub's list of files of own/m")
        self.refuses({}, says="is not a list of files")
        self.refuses([7], says="is not a JSON object")
        self.refuses(b'[{"type":"file","type":"x"}]', says="there twice")
        self.refuses([self.entry(), self.entry()], says="there twice")
        self.refuses([self.entry(path="a"), self.entry(path="a/b")], says="is a file and a folder")

    def test_commits(self):
        for text in b'{"sha": "../../x"}', b"{}", b"[]", b'{"sha": 7}', b"", b"x" * 100:
            self.hub.fault("/revision/", "body", body=text)
            self.pull_fails(1, "own/m", says="the Hub's answer about own/m")
        self.assertFalse(self.cache.exists())

    def test_pages_and_answers_without_an_end(self):
        self.hub.repo("own/m").commit({"x": b""})
        self.hub.fault("/tree/", "body", times=10000, body=b"[]", headers={"Link": '</api/models/own/m/tree/x>; rel="next"'})
        self.pull_fails(1, "own/m", says="more than 1000 pages")
        self.hub.faults.clear()
        self.hub.fault("/tree/", "body", body=b" " * (33 << 20))
        self.pull_fails(1, "own/m", says="larger than 32 MiB")


class Together(PullTest):
    def test_two_pulls_are_one_download(self):
        data = noise(6 * MIB)
        commit = self.hub.repo("own/m").commit({"config.json": b"{}", "model.safetensors": data})
        self.hub.chunk_seconds = 0.01
        pulls = [subprocess.Popen([support.PROGRAM, "pull", "own/m"], env={**os.environ, **self.environment},
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
        for process in pulls:
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err)
            self.assertIn(commit, out.decode())
        self.check_cache("own/m", commit, ["config.json", "model.safetensors"])
        self.assertEqual(self.hub.bytes_sent, len(data) + 2)

    def start(self, *arguments):
        return subprocess.Popen([support.PROGRAM, "pull", "own/m", *arguments], env={**os.environ, **self.environment},
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def test_ctrl_c(self):
        data = noise(8 * MIB)
        commit = self.hub.repo("own/m").commit({"m-q8_0.gguf": data})
        self.hub.chunk_seconds = 0.02
        process = self.start()
        while self.hub.bytes_sent < 3 * MIB:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
        self.assertEqual((process.returncode, err), (130, b""))
        self.hub.chunk_seconds = 0
        sent = self.hub.bytes_sent
        self.pull("own/m")
        self.assertLess(self.hub.bytes_sent - sent, len(data))
        self.check_cache("own/m", commit, ["m-q8_0.gguf"])

    def test_progress_is_for_terminals(self):
        self.hub.repo("own/m").commit({"m-q8_0.gguf": noise(4 * MIB)})
        self.hub.chunk_seconds = 0.02
        self.assertNotIn(b"%", self.pull("own/m").err)
        self.hub.repo("own/n").commit({"m-q8_0.gguf": noise(4 * MIB, 1)})
        terminal = Terminal("pull", "own/n", environment=self.environment)
        self.addCleanup(terminal.close)
        terminal.wait_for(rb"own/n +[0-9]+ %  [0-9.]+ MiB of 4.0 MiB  [0-9.]+ MiB/s  0:0[0-9] left")
        terminal.wait_for(rb"own/n:q8_0: 4.0 MiB in 1 file")


class Kills(PullTest):
    def test_a_download_that_is_killed_goes_on(self):
        """Killed at random moments until it is done: the hash is right, and nothing was a whole model before."""
        chance, kills = random.Random(KILLS), 0
        for round_ in range(1000):
            name = f"own/m{round_}"
            files = {"config.json": b"{}", "model-00001-of-00002.safetensors": noise(5 * MIB + 77, round_),
                     "model-00002-of-00002.safetensors": noise(3 * MIB, -round_)}
            commit = self.hub.repo(name).commit(files)
            self.hub.chunk_seconds = 0.004
            while kills < KILLS:
                process = subprocess.Popen([support.PROGRAM, "pull", name, "--connections", "3"], stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL, env={**os.environ, **self.environment})
                time.sleep(chance.uniform(0, 0.4))
                process.kill()
                if process.wait() == 0:
                    break
                kills += 1
                snapshot = self.repo_folder(name) / "snapshots" / commit
                if (snapshot / "config.json").exists():  # killed after the last link
                    self.assertEqual({p.name: p.read_bytes() for p in snapshot.iterdir() if not p.name.endswith(".tmp")}, files)
            self.hub.chunk_seconds = 0
            self.pull(name)
            for path, data in files.items():
                self.assertEqual(self.snapshot_file(name, commit, path).read_bytes(), data)
            self.check_blobs(name)
            if kills >= KILLS:
                break
        self.assertGreaterEqual(kills, KILLS)


class HuggingFaceHub(PullTest):
    """The library itself reads our cache, and we read the one that it wrote."""

    def setUp(self):
        try:
            import huggingface_hub  # noqa: F401
        except ImportError:
            self.skipTest("huggingface_hub is not installed")
        super().setUp()

    def python(self, code):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                              env={**os.environ, **self.environment, "HF_HUB_CACHE": str(self.cache),
                                   "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
                                   "HF_HUB_DOWNLOAD_TIMEOUT": "10"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_it_finds_ours(self):
        files = {"config.json": b"{}", "sub/tokenizer.json": b"[]", "model.safetensors": noise(MIB + 1)}
        commit = self.hub.repo("own/m").commit(files)
        self.pull("own/m", "--include", "*")
        code = ("import json, huggingface_hub as h\n"
                "i = h.scan_cache_dir(); r = next(iter(i.repos)); v = next(iter(r.revisions))\n"
                "print(json.dumps([[str(w) for w in i.warnings], len(i.repos), r.repo_id, r.repo_type, r.size_on_disk, "
                "v.commit_hash, sorted(v.refs), len(v.files), len(i.incomplete_files), "
                "h.snapshot_download('own/m', local_files_only=True), "
                "h.hf_hub_download('own/m', 'sub/tokenizer.json', local_files_only=True)]))")
        snapshot = str(self.repo_folder("own/m") / "snapshots" / commit)
        self.assertEqual(json.loads(self.python(code)),
                         [[], 1, "own/m", "model", sum(map(len, files.values())), commit, ["main"], 3, 0, snapshot,
                          snapshot + "/sub/tokenizer.json"])

    def test_it_goes_on_with_ours_and_we_with_its(self):
        repo = self.hub.repo("own/m")
        commit = repo.commit({"m-q8_0.gguf": noise(MIB), "m-f16.gguf": noise(MIB, 1)})
        self.pull("own/m:q8_0")
        sent = self.hub.bytes_sent
        self.python("import huggingface_hub as h; h.snapshot_download('own/m')")
        self.assertEqual(self.hub.bytes_sent - sent, MIB)  # the other file alone
        self.check_cache("own/m", commit, ["m-q8_0.gguf", "m-f16.gguf"])
        names = [m["name"] for m in json.loads(self.run_gabbro("list", "--json").text)["models"]]
        self.assertEqual(names, ["own/m:f16", "own/m:q8_0"])
        self.assertEqual(json.loads(self.pull("own/m:f16", "--json").text)["bytes_received"], 0)

    def test_it_takes_no_incomplete_file_of_ours(self):
        data = noise(6 * MIB)
        self.hub.repo("own/m").commit({"m-q8_0.gguf": data})
        self.hub.fault("files:", "break", times=100, after=3 * MIB)
        self.pull_fails(1, "own/m", "--retries", "0", "--connections", "1")
        self.hub.faults.clear()
        path = self.python("import huggingface_hub as h; print(h.hf_hub_download('own/m', 'm-q8_0.gguf'))").strip()
        with open(path, "rb") as file:
            self.assertEqual(file.read(), data)

    def test_its_names_are_valid_where_ours_are(self):
        code = ("import sys; from huggingface_hub.utils import validate_repo_id\n"
                "for n in sys.stdin.read().split(): \n"
                "  try: validate_repo_id(n); print(1)\n"
                "  except Exception: print(0)")
        names = ["a/b", "a--b/c", "a/b.git", "-a/b", "a/b-", "a/.b", "a/b.", "a/b_", "_a/b", "a/" + "b" * 96, "a/" + "b" * 97,
                 "a/b c", "a/b..c", "A.b/c-d_e.f"]
        done = subprocess.run([sys.executable, "-c", code], input="\n".join(n.replace(" ", "\\") for n in names), text=True,
                              capture_output=True, check=True)
        for name, valid in zip(names, done.stdout.split()):
            self.pull_fails(2 if valid == "0" else 1, "--", name)


if __name__ == "__main__":
    support.main()

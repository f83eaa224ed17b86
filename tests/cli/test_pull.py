"""`gabbro pull` against a stand-in for the Hub: the protocol, the cache, access, and huggingface_hub on the same cache."""
import json
import os
import shutil
import ssl
import subprocess
import sys

import support
from hub_server import HubServer, sha256
from pull_support import MIB, PullTest, noise


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

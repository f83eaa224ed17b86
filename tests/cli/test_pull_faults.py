"""`gabbro pull` when something goes wrong: connections, servers, lists, disks, two pulls at once, and kills.

GABBRO_PULL_KILLS=50 python3 tests/cli/test_pull_faults.py Kills kills downloads at 50 random moments (a few by default).
"""
import json
import os
import random
import signal
import subprocess
import time

import support
from hub_server import git_hash, sha256
from pseudo_terminal import Terminal
from pull_support import MIB, PullTest, noise

KILLS = int(os.environ.get("GABBRO_PULL_KILLS", "4"))


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


if __name__ == "__main__":
    support.main()

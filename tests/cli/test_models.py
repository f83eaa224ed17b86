"""Models on this machine: Gabbro's own, the Hub's cache, Ollama and LM Studio; finding, listing, removing."""
import fcntl
import hashlib
import json
import os
import pathlib
import shutil

import support
from pseudo_terminal import Terminal
from pull_support import PullTest
from support import TINY_F16, TINY_Q8_0

MODEL = pathlib.Path(TINY_Q8_0).read_bytes()
OTHER = pathlib.Path(TINY_F16).read_bytes()


class ModelsTest(PullTest):
    def listed(self):
        models = json.loads(self.run_gabbro("list", "--json").text)["models"]
        return {m["name"]: m for m in models}

    def put(self, path, data):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def ollama(self, name, data, media_type="application/vnd.ollama.image.model", digest=None):
        digest = digest or "sha256:" + hashlib.sha256(data).hexdigest()
        self.put(f".ollama/models/blobs/sha256-{hashlib.sha256(data).hexdigest()}", data)
        layers = [{"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:" + "0" * 64, "size": 1},
                  {"mediaType": media_type, "digest": digest, "size": len(data)}]
        return self.put(f".ollama/models/manifests/{name}", json.dumps({"schemaVersion": 2, "layers": layers}))

    def opens(self, name, data):
        """`inspect` reads this model, which is the one in the file of these bytes."""
        document = json.loads(self.run_gabbro("inspect", name, "--json").text)
        self.assertEqual(pathlib.Path(document["path"]).read_bytes(), data)

    def refuses(self, *arguments, says):
        return self.fails(2, *arguments, says=says, environment=self.environment)


class Finding(ModelsTest):
    def test_models_of_the_hub(self):
        self.hub.repo("Own/M-GGUF").commit({"M-Q8_0.gguf": MODEL, "M-F16.gguf": OTHER})
        self.pull("Own/M-GGUF:q8_0")
        self.opens("Own/M-GGUF", MODEL)
        self.pull("Own/M-GGUF:f16")
        for name in "Own/M-GGUF:q8_0", "own/m-gguf:Q8_0", "hf.co/Own/M-GGUF:q8_0", "Own/M-GGUF@main:q8_0", "Own/M-GGUF:M-Q8_0.gguf":
            self.opens(name, MODEL)
        self.refuses("inspect", "Own/M-GGUF", says=["could be one of 2 models", "f16, q8_0"])
        self.refuses("inspect", "Own/M-GGUF:q4_0", says=["no model", "hint: gabbro pull Own/M-GGUF:q4_0"])
        answer = json.loads(self.run_gabbro("run", "own/m-gguf:q8_0", "Hi", "-n", "1", "--json").text)
        self.assertEqual(answer["generated_tokens"], 1)
        listed = self.listed()
        self.assertEqual(sorted(listed), ["Own/M-GGUF:f16", "Own/M-GGUF:q8_0"])
        self.assertEqual((listed["Own/M-GGUF:q8_0"]["bytes"], listed["Own/M-GGUF:q8_0"]["source"]), (len(MODEL), "hub"))

    def test_revisions_of_the_hub(self):
        repo = self.hub.repo("own/m")
        repo.commit({"m-q8_0.gguf": MODEL}, "v1")
        commit = repo.commit({"m-q8_0.gguf": OTHER}, "v2")
        self.pull("own/m@v1")
        self.opens("own/m", MODEL)  # the only one that is there
        self.pull("own/m@v2")
        self.opens("own/m@v1", MODEL)
        self.opens("own/m@v2:q8_0", OTHER)
        self.opens(f"own/m@{commit}", OTHER)
        self.refuses("inspect", "own/m", says="no model 'own/m'")
        self.assertEqual(sorted(self.listed()), ["own/m@v1:q8_0", "own/m@v2:q8_0"])

    def test_short_names(self):
        self.hub.repo("Qwen/Qwen3-8B-GGUF").commit({"Qwen3-8B-Q4_K_M.gguf": MODEL})
        self.refuses("run", "qwen3:8b", "hi", says=["no model 'qwen3:8b'", "hint: gabbro pull qwen3:8b downloads it"])
        self.pull("qwen3:8b")
        self.opens("Qwen3:8B", MODEL)

    def test_what_is_not_whole_is_not_there(self):
        repo = self.hub.repo("own/m")
        commit = repo.commit({f"m-q8_0-0000{i}-of-00002.gguf": bytes([i]) for i in (1, 2)})
        self.pull("own/m:q8_0")
        self.assertEqual(list(self.listed()), ["own/m:q8_0"])
        self.snapshot_file("own/m", commit, "m-q8_0-00002-of-00002.gguf").unlink()
        self.assertEqual(self.listed(), {})
        self.refuses("inspect", "own/m:q8_0", says="gabbro pull own/m:q8_0")

    def test_folders_that_are_not_caches(self):
        for name in "models--x", "models--a--b", "models--..--..", "datasets--a--b", "models--a--b--c--d":
            (self.cache / name / "snapshots" / "x").mkdir(parents=True)
        (self.cache / "models--a--b" / "refs").mkdir()
        (self.cache / "models--a--b" / "refs" / "main").write_text("../../../..")
        self.assertEqual(self.listed(), {})
        self.refuses("inspect", "a/b", says="no model")

    def test_models_of_ollama(self):
        self.ollama("registry.ollama.ai/library/tiny/latest", MODEL)
        self.ollama("registry.ollama.ai/me/tiny/8b", OTHER)
        self.ollama("hf.co/own/m-GGUF/Q8_0", OTHER)
        for name in "tiny", "tiny:latest", "TINY":
            self.opens(name, MODEL)
        self.opens("me/tiny:8b", OTHER)
        self.opens("hf.co/own/m-GGUF:Q8_0", OTHER)
        self.assertEqual({n: m["source"] for n, m in self.listed().items()},
                         dict.fromkeys(["tiny:latest", "me/tiny:8b", "hf.co/own/m-GGUF:Q8_0"], "ollama"))
        self.refuses("inspect", "tiny:7b", says="no model 'tiny:7b'")
        self.refuses("rm", "tiny", "--yes", says=["in Ollama's folder", "hint: ollama rm tiny:latest"])

    def test_manifests_that_are_hostile(self):
        self.put("secret", OTHER)
        self.ollama("registry.ollama.ai/library/a/latest", MODEL, digest="sha256:../../../../secret")
        self.ollama("registry.ollama.ai/library/b/latest", MODEL, media_type="application/vnd.ollama.image.adapter")
        self.put(".ollama/models/manifests/registry.ollama.ai/library/c/latest", "{" * 100000)
        self.put(".ollama/models/manifests/registry.ollama.ai/library/d", "{}")
        self.ollama("registry.ollama.ai/library/e/latest", MODEL)
        self.put(f".ollama/models/blobs/sha256-{hashlib.sha256(MODEL).hexdigest()}", MODEL[:-1])
        self.assertEqual(self.listed(), {})
        for name in "abcde":
            self.refuses("inspect", name, says="no model")

    def test_models_of_lm_studio(self):
        self.put(".lmstudio/models/own/m-GGUF/m-Q8_0.gguf", MODEL)
        self.put(".lmstudio/models/own/m-GGUF/mmproj-m-f16.gguf", b"projector")
        self.opens("own/m-gguf", MODEL)
        self.opens("own/m-GGUF:q8_0", MODEL)
        self.assertEqual({n: m["source"] for n, m in self.listed().items()}, {"own/m-GGUF:q8_0": "lmstudio"})
        self.refuses("rm", "own/m-GGUF:q8_0", "--yes", says="in LM Studio's folder")
        (self.folder / ".lmstudio-home-pointer").write_text(f"{self.folder}/elsewhere\n")
        self.assertEqual(self.listed(), {})
        shutil.move(self.folder / ".lmstudio", self.folder / "elsewhere")
        self.assertEqual(list(self.listed()), ["own/m-GGUF:q8_0"])

    def test_own_models_come_first(self):
        self.put("gabbro/models/tiny.gguf", MODEL)
        self.ollama("registry.ollama.ai/library/tiny/latest", OTHER)
        self.opens("tiny", MODEL)
        self.opens("tiny:latest", OTHER)


class Broken(ModelsTest):
    """Models with missing files: shown as such, refused with what helps, and removed like others."""

    def broken(self):
        return {m["name"]: m["problem"] for m in json.loads(self.run_gabbro("list", "--json").text)["broken"]}

    def rm(self, *arguments):
        return json.loads(self.succeeds("rm", *arguments, "--yes", "--json", environment=self.environment).text)

    def test_blobs_and_shards_that_are_missing(self):
        shards = {f"model-0000{i}-of-00002.safetensors": bytes([i]) * 50 for i in (1, 2)}
        index = json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})
        files = {"config.json": b"{}", "model.safetensors.index.json": index.encode(), "m-q8_0.gguf": MODEL, "m-f16.gguf": OTHER, **shards}
        commit = self.hub.repo("own/m").commit(files)
        self.pull("own/m", "--include", "*")
        self.assertEqual((sorted(self.listed()), self.broken()), (["own/m", "own/m:f16", "own/m:q8_0"], {}))
        shard = self.snapshot_file("own/m", commit, "model-00002-of-00002.safetensors")
        (self.snapshot_file("own/m", commit, "m-q8_0.gguf").resolve()).unlink()
        shard.unlink()
        said = {"own/m": "model-00002-of-00002.safetensors is missing", "own/m:q8_0": "m-q8_0.gguf is missing"}
        self.assertEqual((sorted(self.listed()), self.broken()), (["own/m:f16"], said))
        table = self.run_gabbro("list", "OWN/M").text
        self.assertEqual(table.count("broken: "), 2)
        self.assertIn("broken: m-q8_0.gguf is missing: ", table)
        self.opens("own/m:f16", OTHER)
        self.refuses("run", "own/m:q8_0", "hi", says=["broken: m-q8_0.gguf is missing", "hint: gabbro pull own/m:q8_0"])
        self.pull_fails(1, "own/m:q8_0", says="HF_HUB_OFFLINE", HF_HUB_OFFLINE="1")
        shard.symlink_to("../../blobs/" + "0" * 64)
        self.assertEqual(self.broken(), said)
        self.pull("own/m", "--include", "*")
        self.assertEqual(self.broken(), {})

    def test_a_snapshot_that_is_missing(self):
        commit = self.hub.repo("own/m").commit({"m-q8_0.gguf": MODEL})
        self.pull("own/m")
        shutil.rmtree(self.repo_folder("own/m") / "snapshots" / commit)
        self.assertEqual(self.broken(), {"own/m": "the snapshot of main is missing"})
        (self.repo_folder("own/m") / "refs" / "main").write_text("x" * 500)  # no commit at all
        self.assertEqual(self.broken(), {})

    def test_own_models_that_are_broken(self):
        self.put("gabbro/models/part-00001-of-00002.gguf", b"x")
        (self.folder / "gabbro/models/link.gguf").symlink_to("nowhere.gguf")
        self.put("gabbro/models/folder/config.json", "{}")
        self.put("gabbro/models/folder/model.safetensors.index.json", '{"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}')
        self.assertEqual(self.broken(), {"part": "part-00002-of-00002.gguf is missing", "link": "link.gguf is missing",
                                         "folder": "a.safetensors and 1 more are missing"})
        self.assertEqual(self.listed(), {})
        for name in "part", "link", "folder":
            self.rm(name)
        self.assertEqual(list((self.folder / "gabbro/models").iterdir()), [])

    def test_a_broken_model_of_ollama(self):
        self.ollama("registry.ollama.ai/library/tiny/latest", MODEL)
        next((self.folder / ".ollama/models/blobs").iterdir()).unlink()
        self.assertIn("is missing", self.broken()["tiny:latest"])

    def test_broken_models_are_removed(self):
        commit = self.hub.repo("own/m").commit({"m-q8_0.gguf": MODEL, "m-f16.gguf": OTHER})
        self.pull("own/m", "--include", "*")
        self.snapshot_file("own/m", commit, "m-q8_0.gguf").resolve().unlink()
        self.assertEqual(self.rm("own/m:q8_0")["bytes"], 0)
        self.assertEqual((list(self.listed()), self.broken()), (["own/m:f16"], {}))
        self.snapshot_file("own/m", commit, "m-f16.gguf").resolve().unlink()
        self.assertEqual(self.rm("own/m")["removed"], ["own/m:f16"])
        self.assertFalse(self.repo_folder("own/m").exists())


class CaseOfNames(ModelsTest):
    def test_own_models(self):
        self.put("gabbro/models/Upper.gguf", MODEL)
        for name in "upper", "UPPER.GGUF":
            self.opens(name, MODEL)
        self.assertEqual(self.run_gabbro("list", "uPP").text.split()[0], "Upper")
        self.run_gabbro("rm", "upper", "--yes")
        self.assertEqual(self.listed(), {})
        for name in "Two", "tWo":
            self.put(f"gabbro/models/{name}.gguf", MODEL)
        for command in ["inspect", "two"], ["rm", "two", "--yes"]:
            self.refuses(*command, says=["could be", "Two", "tWo"])
        self.run_gabbro("rm", "tWo", "--yes")
        self.assertEqual(list(self.listed()), ["Two"])

    def test_models_of_the_hub(self):
        self.hub.repo("Own/Mod-GGUF").commit({"Mod-Q8_0.gguf": MODEL})
        self.pull("Own/Mod-GGUF")
        pulled = self.pull("own/mod-gguf:Q8_0").text  # no second folder
        self.assertEqual(len(list(self.cache.glob("models--*"))), 1)
        self.assertEqual(self.pull("OWN/mod-gguf:mod-q8_0.GGUF").text, pulled)
        self.run_gabbro("rm", "own/MOD-gguf:q8_0", "--yes")
        self.assertEqual(self.listed(), {})
        for name in "Own/M", "own/m":
            self.hub.repo(name).commit({"m-q8_0.gguf": MODEL})
        self.pull("Own/M")
        shutil.copytree(self.repo_folder("Own/M"), self.repo_folder("own/m"), symlinks=True)
        for command in ["inspect", "OWN/M"], ["rm", "OWN/M", "--yes"], ["pull", "OWN/M"]:
            self.refuses(*command, says=["could be", "Own/M", "own/m"])
        self.run_gabbro("rm", "own/m", "--yes")
        self.assertEqual(list(self.listed()), ["Own/M:q8_0"])

    def test_models_of_lm_studio(self):
        for name in "own/m", "own/M":
            self.put(f".lmstudio/models/{name}/x-Q8_0.gguf", MODEL)
        self.opens("own/M", MODEL)
        self.refuses("inspect", "OWN/m", says=["could be", "own/m", "own/M"])

    def test_the_list_can_be_filtered(self):
        for name in "Alpha", "beta":
            self.put(f"gabbro/models/{name}.gguf", MODEL)
        self.assertEqual([line.split()[0] for line in self.run_gabbro("list", "ALPH").text.splitlines()], ["Alpha"])
        self.assertEqual(len(json.loads(self.run_gabbro("list", "BE", "--json").text)["models"]), 1)
        none = self.run_gabbro("list", "gamma")
        self.assertEqual((none.text, b"none of 2 models" in none.err), ("", True))


class Removing(ModelsTest):
    def files(self):
        return {str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if not p.is_dir()}

    def rm(self, *arguments):
        return self.succeeds("rm", *arguments, environment=self.environment)

    def test_it_asks(self):
        self.put("gabbro/models/tiny.gguf", MODEL)
        self.refuses("rm", "tiny", says=["not a terminal", "--yes"])
        terminal = Terminal("rm", "tiny", environment=self.environment)
        self.addCleanup(terminal.close)
        terminal.wait_for(rb"tiny\r\n  \S+/gabbro/models/tiny.gguf\r\nRemove [0-9.]+ KiB\? \[y/N\] ")
        terminal.type("n\n")
        terminal.wait_for(b"nothing was removed")
        self.assertEqual(terminal.leave(), 0)
        self.assertEqual(list(self.listed()), ["tiny"])
        terminal = Terminal("rm", "tiny", environment=self.environment)
        self.addCleanup(terminal.close)
        terminal.wait_for(rb"\[y/N\] ")
        terminal.type("y\n")
        terminal.wait_for(b"removed tiny")
        self.assertEqual((terminal.leave(), self.listed()), (0, {}))

    def test_own_models(self):
        for name in "a.gguf", "b-00001-of-00002.gguf", "b-00002-of-00002.gguf", "c/config.json", "c/x.safetensors", "notes.txt":
            self.put(f"gabbro/models/{name}", b"x")
        outside = self.put("outside/config.json", b"{}")
        (self.folder / "gabbro/models/link").symlink_to(outside.parent)
        (self.folder / "gabbro/models/c/link").symlink_to(outside.parent)
        for name in "b", "c", "link":
            self.rm(name, "--yes")
        self.assertEqual(self.files(), {"gabbro/models/a.gguf", "gabbro/models/notes.txt", "outside/config.json"})

    def test_paths_are_refused(self):
        path = self.put("gabbro/models/a.gguf", MODEL)
        for name in str(path), "../a", "..", ".", "/", "notes.txt", "own/../a", "":
            self.fails(2, "rm", "--yes", "--", name, environment=self.environment)
        self.assertTrue(path.exists())

    def test_a_quantization_of_the_hub(self):
        files = {"m-q8_0-00001-of-00002.gguf": b"1", "m-q8_0-00002-of-00002.gguf": b"2", "m-f16.gguf": b"2", "x.txt": b"t"}
        commit = self.hub.repo("own/m").commit(files)
        self.pull("own/m", "--include", "*")
        self.rm("own/m:q8_0", "--yes")  # its second part has the content of another file
        self.check_cache("own/m", commit, ["m-f16.gguf", "x.txt"])
        self.assertEqual(len(list((self.repo_folder("own/m") / "blobs").iterdir())), 2)
        self.refuses("rm", "own/m:q8_0", "--yes", says="no model 'own/m:q8_0'")

    def test_other_snapshots_keep_their_files(self):
        repo = self.hub.repo("own/m")
        old = repo.commit({"m-q8_0.gguf": MODEL, "m-f16.gguf": b"old"}, "old")
        new = repo.commit({"m-q8_0.gguf": MODEL, "m-f16.gguf": b"new"})
        self.pull("own/m@old", "--include", "*")
        self.pull("own/m", "--include", "*")
        self.rm("own/m:q8_0", "--yes")
        self.check_cache("own/m", old, ["m-q8_0.gguf", "m-f16.gguf"], "old")
        self.check_cache("own/m", new, ["m-f16.gguf"])
        self.rm("own/m@old:q8_0", "--yes")
        self.rm("own/m@old:f16", "--yes")
        self.check_cache("own/m", new, ["m-f16.gguf"])
        self.assertFalse((self.repo_folder("own/m") / "refs" / "old").exists())
        self.assertFalse((self.repo_folder("own/m") / "snapshots" / old).exists())

    def test_a_snapshot(self):
        repo = self.hub.repo("own/m")
        old = repo.commit({"config.json": b"{}", "model.safetensors": b"old", "d/x.txt": b"x"}, "v1")
        new = repo.commit({"config.json": b"{}", "model.safetensors": b"new"})
        self.pull("own/m@v1", "--include", "*")
        self.pull("own/m")
        self.assertEqual(sorted(self.listed()), ["own/m", "own/m@v1"])
        self.rm("own/m@v1", "--yes")
        self.check_cache("own/m", new, ["config.json", "model.safetensors"])
        self.assertFalse((self.repo_folder("own/m") / "snapshots" / old).exists())
        self.assertEqual(len(list((self.repo_folder("own/m") / "blobs").iterdir())), 2)

    def test_a_whole_repository(self):
        self.hub.repo("own/m").commit({"config.json": b"{}", "model.safetensors": b"w"})
        self.hub.repo("own/other").commit({"m-q8_0.gguf": b"o"})
        self.pull("own/m")
        self.pull("own/other")
        self.rm("own/m", "--yes")
        self.assertFalse(self.repo_folder("own/m").exists())
        self.assertEqual(list(self.listed()), ["own/other:q8_0"])
        document = json.loads(self.rm("own/other:q8_0", "--yes", "--json").text)  # the last of its files
        self.assertEqual((document["removed"], document["bytes"]), (["own/other:q8_0"], 1 + 40))
        self.assertIn(str(self.repo_folder("own/other")), document["paths"])
        self.assertEqual(self.files(), {"hf/hub/CACHEDIR.TAG"})

    def freed(self, *arguments):
        before = self.disk_use()
        document = json.loads(self.rm(*arguments, "--yes", "--json").text)
        self.assertEqual(document["bytes"], before - self.disk_use(), document)
        return document["bytes"]

    def disk_use(self):
        """Bytes of all files, each inode once."""
        states = [p.lstat() for p in self.folder.rglob("*") if p.is_file() and not p.is_symlink()]
        return sum({(s.st_dev, s.st_ino): s.st_size for s in states}.values())

    def test_the_space_that_becomes_free(self):
        repo = self.hub.repo("own/m")
        repo.commit({"m-q8_0.gguf": MODEL, "m-f16.gguf": OTHER}, "old")
        repo.commit({"m-q8_0.gguf": MODEL, "m-q4_0.gguf": b"new"})
        self.pull("own/m@old", "--include", "*")
        self.pull("own/m", "--include", "*")
        self.assertEqual(self.freed("own/m:q8_0"), 0)  # the other snapshot has it
        self.assertEqual(self.freed("own/m@old:f16"), len(OTHER))
        # A second name of the file, as `cp -l` makes it.
        blob = next(p for p in (self.repo_folder("own/m") / "blobs").iterdir() if p.read_bytes() == MODEL)
        second = self.folder / "second.gguf"
        os.link(blob, second)
        self.assertLess(self.freed("own/m"), len(MODEL))
        self.assertEqual(second.read_bytes(), MODEL)
        # In Gabbro's own folder links free nothing, two names of one file free it with the last of them.
        own = self.put("gabbro/models/a.gguf", MODEL)
        os.link(own, own.with_name("b.gguf"))
        (own.with_name("c.gguf")).symlink_to(second)
        self.assertEqual([self.freed(name) for name in "cab"], [0, 0, len(MODEL)])
        self.put("gabbro/models/d/config.json", "{}")
        self.put("gabbro/models/d/model.safetensors", OTHER)
        os.link(self.folder / "gabbro/models/d/model.safetensors", self.folder / "gabbro/models/d/copy.safetensors")
        self.assertEqual(self.freed("d"), 2 + len(OTHER))
        sparse = self.put("gabbro/models/e.gguf", b"GGUF")
        os.truncate(sparse, 1 << 24)
        self.assertLess(json.loads(self.rm("e", "--yes", "--json").text)["bytes"], 1 << 20)

    def test_links_that_lead_out_are_removed_alone(self):
        commit = self.hub.repo("own/m").commit({"m-q8_0.gguf": MODEL, "m-f16.gguf": b"x"})
        self.pull("own/m", "--include", "*")
        outside = self.put("outside.gguf", MODEL)
        link = self.snapshot_file("own/m", commit, "m-q8_0.gguf")
        link.unlink()
        link.symlink_to(outside)
        self.rm("own/m:q8_0", "--yes")
        self.assertEqual(outside.read_bytes(), MODEL)
        self.assertFalse(link.is_symlink())

    def test_a_download_that_is_running_stops_it(self):
        self.hub.repo("own/m").commit({"m-q8_0.gguf": MODEL})
        self.pull("own/m")
        lock = next((self.cache / ".locks" / "models--own--m").iterdir())
        with open(lock, "r+") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            self.fails(1, "rm", "own/m", "--yes", says="own/m:q8_0 is being downloaded", environment=self.environment)
        self.rm("own/m", "--yes")


if __name__ == "__main__":
    support.main()

"""Models on this machine: Gabbro's own, the Hub's cache, Ollama and LM Studio; finding and listing."""
import hashlib
import json
import shutil

import support
from model_folders import MODEL, OTHER, ModelsTest


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
        self.refuses("inspect", "own/m", says="model 'own/m' could be own/m@")
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
        for name, says in {"a": "is not a digest", "b": "broken", "c": "broken", "d": "no model", "e": "broken"}.items():
            self.refuses("inspect", name, says=says)

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


if __name__ == "__main__":
    support.main()

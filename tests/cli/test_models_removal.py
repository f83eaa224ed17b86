"""`gabbro rm`: models of each place on this machine, and what else needs their files."""
import fcntl
import json
import os

import support
from model_folders import MODEL, OTHER, ModelsTest
from pseudo_terminal import Terminal


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

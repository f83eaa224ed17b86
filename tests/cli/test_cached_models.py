"""Odd states of the Hub's cache: snapshots without a name, several, none, and downloads that have only begun."""
import shutil

import support
from support import TINY_F16, TestCase

A, B = "a" * 40, "b" * 40


class CachedModels(TestCase):
    def setUp(self):
        super().setUp()
        self.environment = {"HF_HUB_CACHE": str(self.folder), "GABBRO_HOME": str(self.folder / "home"), "HOME": str(self.folder)}

    def repository(self, name, *commits, main=None, files=("m-Q8_0.gguf",)):
        folder = self.folder / f"models--own--{name}"
        (folder / "refs").mkdir(parents=True)
        for commit in commits:
            (folder / "snapshots" / commit).mkdir(parents=True)
            for file in files:
                path = folder / "snapshots" / commit / file
                shutil.copy(TINY_F16, path) if file.endswith(".gguf") else path.write_text("{}")
        if main:
            (folder / "refs" / "main").write_text(main)
        return folder

    def refuses(self, name, says):
        self.fails(2, "run", name, "hi", says=says, environment=self.environment)

    def test_snapshots_without_a_name(self):
        self.repository("one", A)
        self.succeeds("run", "own/one", "hi", "-n", "1", environment=self.environment)
        self.repository("two", A, B)
        self.refuses("own/two", f"could be own/two@{A} or own/two@{B}: write it in full")
        self.succeeds("run", f"own/two@{B}", "hi", "-n", "1", environment=self.environment)

    def test_a_snapshot_that_is_missing(self):
        self.repository("gone", A, main=B)
        self.refuses("own/gone", ["the snapshot of main is missing", "hint: gabbro pull own/gone"])
        folder = self.repository("file", main=A)
        (folder / "snapshots").mkdir()
        (folder / "snapshots" / A).write_text("x")
        self.refuses("own/file", "the snapshot of main is missing")

    def test_a_download_that_has_begun_is_not_there(self):
        self.repository("begun", A, main=A, files=("config.json", "tokenizer.json"))
        for variables in ({}, {"HF_HUB_OFFLINE": "1"}):
            self.fails(1, "pull", "own/begun", environment={**self.environment, **variables})
        self.repository("tokenizer", A, main=A, files=("tokenizer.json",))
        self.succeeds("pull", "own/tokenizer", environment=self.environment)


if __name__ == "__main__":
    support.main()

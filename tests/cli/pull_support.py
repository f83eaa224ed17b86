"""What the tests of downloads share: a stand-in Hub, an empty cache, and what a sound cache looks like."""
import os
import pathlib
import random
import re

from hub_server import HubServer, git_hash, is_lfs, sha256
from support import TestCase

MIB = 1 << 20


def noise(size, seed=0):
    return random.Random(seed).randbytes(size)


class PullTest(TestCase):
    PAGE_SIZE = 1000

    def setUp(self):
        super().setUp()
        self.hub = self.enterContext(HubServer(self.PAGE_SIZE)) if hasattr(self, "enterContext") else self.enter()
        self.cache = self.folder / "hf" / "hub"
        self.environment = {"HF_ENDPOINT": self.hub.url, "HF_HOME": str(self.folder / "hf"), "HF_HUB_CACHE": "",
                            "GABBRO_HOME": str(self.folder / "gabbro"), "HOME": str(self.folder), "XDG_CACHE_HOME": "",
                            "OLLAMA_MODELS": "", "HF_TOKEN": "", "HF_HUB_OFFLINE": "", "HF_HUB_DOWNLOAD_TIMEOUT": "",
                            **dict.fromkeys(["http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY",
                                             "NO_PROXY", "CURL_CA_BUNDLE", "SSL_CERT_FILE"], "")}

    def enter(self):  # Python before 3.11
        hub = HubServer(self.PAGE_SIZE)
        self.addCleanup(hub.__exit__)
        return hub.__enter__()

    def pull(self, *arguments, **environment):
        return self.succeeds("pull", *arguments, environment={**self.environment, **environment})

    def pull_fails(self, code, *arguments, says=(), **environment):
        return self.fails(code, "pull", *arguments, says=says, environment={**self.environment, **environment})

    def run_gabbro(self, *arguments):
        return self.succeeds(*arguments, environment=self.environment)

    def repo_folder(self, name):
        return self.cache / ("models--" + name.replace("/", "--"))

    def check_cache(self, name, commit, paths, revision="main"):
        """These files of the commit, and no others, in the layout of huggingface_hub, with the right bytes."""
        folder = self.repo_folder(name)
        files = self.hub.repos[name].commits[commit]
        snapshot = folder / "snapshots" / commit
        there = {str(p.relative_to(snapshot)) for p in snapshot.rglob("*") if not p.is_dir()}
        self.assertEqual(there, set(paths))
        for path in paths:
            digest = sha256(files[path]) if is_lfs(path) else git_hash(files[path])
            self.assertTrue((snapshot / path).is_symlink())
            self.assertEqual(os.readlink(snapshot / path), "../" * (2 + path.count("/")) + "blobs/" + digest)
            self.assertEqual((snapshot / path).read_bytes(), files[path])
        self.assertEqual((folder / "refs" / revision).read_text(), commit)
        self.check_blobs(name)

    def check_blobs(self, name):
        """Nothing is in the folder of blobs but whole files under their hashes."""
        for blob in (self.repo_folder(name) / "blobs").iterdir():
            data = blob.read_bytes()
            self.assertRegex(blob.name, re.compile(r"^([0-9a-f]{40}|[0-9a-f]{64})$"))
            self.assertIn(blob.name, (sha256(data), git_hash(data)))

    def snapshot_file(self, name, commit, path):
        return pathlib.Path(self.repo_folder(name), "snapshots", commit, path)

"""No command overwrites what it reads, by any of its names and with --force too; "-" is standard output or refused."""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

import support
from support import PROGRAM, ROOT, TINY_F16, TestCase

FAMILIES = ROOT / "tests" / "data" / "families"
ADAPTERS = ROOT / "tests" / "data" / "adapters"
TEXT = "The sea is deep, and basalt is a rock. " * 40


def hashes(folder):
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*")) if path.is_file()}


class Inputs(TestCase):
    def setUp(self):
        super().setUp()
        self.model = self.copy(TINY_F16, "m.gguf")
        self.text = self.file("t.txt", TEXT)
        self.before = hashes(self.folder)

    def copy(self, source, name):
        return shutil.copy(source, self.folder / name)

    def names(self, path):
        """Other names of a file."""
        path = pathlib.Path(path)
        link, hard = path.with_name("link-" + path.name), path.with_name("hard-" + path.name)
        link.symlink_to(path.name)
        os.link(path, hard)
        chain = path.with_name("chain-" + path.name)
        chain.symlink_to(link.name)
        return [path, f"{path.parent}/./{path.name}", f"{path.parent}/../{path.parent.name}/{path.name}", link, hard, chain]

    def keeps(self, *arguments, says="that is read", **options):
        """Refused, and every file is as before."""
        before = hashes(self.folder)
        result = self.fails(2, *arguments, says=says, **options)
        self.assertEqual(hashes(self.folder), before, result)

    def test_the_model_under_every_name_and_of_every_command(self):
        for name in self.names(self.model):
            self.keeps("logits", self.model, "--tokens", "1,2", "--out", name)
        for name in self.names(self.text)[:4]:
            self.keeps("imatrix", self.model, "--text", self.text, "-o", name, "--force")
        link = self.folder / "link-m.gguf"
        for out in (self.model, link):
            self.keeps("imatrix", self.model, "--text", self.text, "-o", out, "--force")
            self.keeps("convert", self.model, "-o", out, "--force")
            self.keeps("convert", link, "-o", self.model, "--force")
            self.keeps("tune", self.model, "--tuning-file", out)
            self.keeps("run", self.model, "hi", environment={"GABBRO_STREAM_TIMES": str(out)})

    def test_matrices_adapters_and_texts(self):
        matrix = self.folder / "i.gguf"
        self.succeeds("imatrix", self.model, "--text", self.text, "--ctx", "64", "-o", matrix)
        self.keeps("convert", self.model, "--imatrix", matrix, "-o", matrix, "--force")
        adapter = next(path for path in sorted(ADAPTERS.iterdir()) if (path / "adapter_config.json").exists())
        shutil.copytree(adapter, self.folder / "lora")
        weights = self.folder / "lora" / "adapter_model.safetensors"
        for out in (weights, weights.with_name("adapter_config.json")):
            self.keeps("convert", self.model, "--lora", self.folder / "lora:0.5", "-o", out, "--force")
            self.keeps("logits", self.model, "--lora", self.folder / "lora", "--tokens", "1", "--out", out)
        encoder = next(path for path in sorted((ROOT / "tests/data/encoders").iterdir()) if (path / "config.json").exists())
        shutil.copytree(encoder, self.folder / "encoder")
        self.keeps("embed", self.folder / "encoder", "--file", self.text, "--out", self.text)
        self.keeps("embed", self.folder / "encoder", "a", "--out", self.folder / "encoder" / "config.json")

    def test_every_file_of_a_folder(self):
        folder = shutil.copytree(FAMILIES / "qwen3", self.folder / "qwen3")
        for path in sorted(folder.iterdir()):
            if path.suffix == ".npy":
                continue
            self.keeps("convert", folder, "-o", path, "--force")
            self.keeps("logits", folder, "--tokens", "1", "--out", path)
            self.keeps("logits", folder / "model.safetensors", "--tokens", "1", "--out", path)
        # Results next to the model are not inputs.
        for _ in range(2):
            self.succeeds("logits", folder, "--tokens", "1", "--out", folder / "x.npy")
            self.succeeds("convert", folder, "-o", folder / "x.gguf", "--force")

    def test_parts_and_what_is_written_meanwhile(self):
        partial = self.copy(TINY_F16, "n.gguf.partial")
        self.keeps("convert", partial, "-o", self.folder / "n.gguf")
        trace = self.folder / "trace"
        trace.mkdir()
        (trace / "embed.npy").symlink_to(self.model)
        self.keeps("logits", self.model, "--tokens", "1", "--trace", trace)
        default = self.folder / "m-q8_0.gguf"
        default.symlink_to(self.model)
        self.keeps("convert", self.model, "--type", "q8_0", "--force", cwd=self.folder)

    def test_standard_input_and_output_that_are_files(self):
        with open(self.text, "rb") as text:
            self.keeps("imatrix", self.model, "--text", "-", "-o", self.text, "--force", stdin=text)
        before = hashes(self.folder)
        with open(self.model, "ab") as out:
            done = subprocess.run([PROGRAM, "run", self.model, "hi"], stdout=out, stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"is the model that is read, and standard output", done.stderr)
        self.assertEqual(hashes(self.folder), before)

    def test_testgen(self):
        config = self.file("config.json", (FAMILIES / "qwen3" / "config.json").read_bytes())
        pack = self.folder / "pack"
        self.succeeds("testgen", config, "-o", pack)
        shutil.copy(config, pack / "mine.json")
        self.keeps("testgen", pack / "mine.json", "-o", pack, "--force", says="holds the configuration that is read")
        self.file("results.json", config.read_bytes())
        self.keeps("testgen", "--run", self.folder / "results.json", "--report", self.folder)
        folder = shutil.copytree(FAMILIES / "qwen3", self.folder / "qwen3")
        self.keeps("testgen", "--golden", folder / "model.safetensors", folder, "--force")

    def test_a_dash_is_standard_output_or_refused(self):
        for arguments in (["convert", self.model, "-o"], ["tune", self.model, "--tuning-file"],
                          ["logits", self.model, "--tokens", "1", "--trace"], ["testgen", "llama", "-o"],
                          ["testgen", "--run", "x", "--report"], ["testgen", "x", "--golden"]):
            self.keeps(*arguments, "-", says="is standard output", cwd=self.folder)
        self.keeps("convert", self.model, "-o", "/dev/stdout", says="is standard output")
        matrix = self.succeeds("imatrix", self.model, "--text", self.text, "--ctx", "64", "-o", "-", cwd=self.folder)
        self.assertTrue(matrix.out.startswith(b"GGUF"))
        shape = "layers=1,embedding=32,heads=2,kv-heads=1,head-dimension=16,feed-forward=32,vocabulary=64,context=64"
        model = self.succeeds("bench", "llm", "--shape", shape, "--type", "f16", "--write", "-", cwd=self.folder)
        self.file("made.gguf", model.out)
        self.succeeds("logits", self.folder / "made.gguf", "--tokens", "1", "--out", "/dev/null")
        self.assertEqual([path.name for path in self.folder.glob("-*")], [])
        self.keeps("imatrix", self.model, "--text", self.text, "-o", "-", "--json", says="both write standard output")


class Declarations(TestCase):
    def test_every_option_that_names_a_file_says_what_it_is_for(self):
        """The check of outputs sees options by their declared use alone."""
        source = "".join(path.read_text() for path in sorted((ROOT / "apps" / "cli").glob("*.cc")))
        undeclared = []
        for statement in re.split(r";\n", source):
            placeholder = re.search(r'\.placeholder\("(FILE|DIR)', statement)
            if placeholder and ".file(FileUse::" not in statement:
                undeclared.append(statement.strip()[-200:])
        self.assertEqual(undeclared, [])

    def test_files_are_written_in_known_places(self):
        """A place that opens files for writing is atomic, or writes what no command reads."""
        known = {"src/base/mapped_file.cc", "src/base/resumable_file.cc", "src/base/file_faults.cc",  # the two writers
                 "src/hub/repo_cache.cc", "src/hub/incomplete_file.cc",  # downloads, below the cache's names
                 "src/testgen/write_pack.cc", "apps/cli/testgen_python.cc", "src/pictures/converted_folder.cc",  # new folders
                 "src/report/part_table.cc", "src/report/part_memory.cc", "apps/probe/mapped_copy.cc",  # temporary
                 "src/engine/streaming/stream_times.cc", "apps/cli/terminal.cc", "src/backend/discovery/process.cc",
                 "apps/cli/processes.cc"}  # /dev/null
        pattern = re.compile(r"ofstream|fopen|O_CREAT|O_WRONLY|O_RDWR")
        found = {str(path.relative_to(ROOT)) for folder in ("src", "apps") for path in (ROOT / folder).rglob("*.cc")
                 if not path.name.endswith("_test.cc") and pattern.search(path.read_text())}
        self.assertLessEqual(found, known)


if __name__ == "__main__":
    support.main()

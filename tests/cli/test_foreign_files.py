"""Files and folders that were given for others: each is named, with a hint; holes of a download; adapters as models."""
import shutil
import struct

import gguf_edit
import support
from support import ROOT, TINY_F16, TestCase

FAMILIES = ROOT / "tests" / "data" / "families"
ADAPTERS = ROOT / "tests" / "data" / "adapters"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 123456\n"
PAGE = b"<!DOCTYPE html><html><body>Sign in to go on</body></html>"


class ForeignFiles(TestCase):
    def folder_with(self, name, content, source=FAMILIES / "qwen3"):
        folder = self.folder / "model"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("expected*"))
        (folder / name).write_bytes(content)
        return folder

    def logits(self, folder, *says, **options):
        self.fails(2, "logits", folder, "--tokens", "1", "--out", "/dev/null", says=["hint: ", *says], **options)

    def test_weights(self):
        whole = (FAMILIES / "qwen3" / "model.safetensors").read_bytes()
        hole = bytes(4096) + whole[4096:]
        files = {POINTER: "Git LFS pointer", PAGE: "web page", b"": "empty", hole: "begins with zeros",
                 whole[:len(whole) // 2]: f"{len(whole) // 2} bytes of {len(whole)}", whole[:100]: "100 bytes so far",
                 whole[:5]: "5 bytes so far", b"PK\3\4..archive/data.pkl": "PyTorch", b"GGUF\3": "a GGUF file",
                 b'{"error": "Repository not found"}': "JSON", b"\x1f\x8b\x08": "gzip", b"\x93NUMPY": "NumPy"}
        files |= {b"Access to model x/y is restricted.\nLog in": "a text: 'Access to model x/y is restricted.'",
                  b"Entry not found": "a text: 'Entry not found'"}
        for content, says in files.items():
            folder = self.folder_with("model.safetensors", content)
            self.logits(folder, says, str(folder / "model.safetensors"))
            self.logits(folder / "model.safetensors", says)

    def test_configuration_and_index(self):
        config = (FAMILIES / "qwen3" / "config.json").read_bytes()
        for name in ("config.json", "generation_config.json", "model.safetensors.index.json"):
            for content, says in {POINTER: "Git LFS pointer", PAGE: "web page", config[:-40]: "unfinished", b"": "unfinished",
                                  bytes(100): "begins with zeros"}.items():
                self.logits(self.folder_with(name, content), name, says)

    def test_tokenizers(self):
        tokenizers = sorted(path.parent for path in (ROOT / "tests/data").rglob("tokenizer.json"))
        folder = self.folder / "tokenizer"
        folder.mkdir()
        for name in ("tokenizer.json", "tokenizer.model"):
            for content, says in {POINTER: "Git LFS pointer", PAGE: "web page", b"": "empty"}.items():
                (folder / name).write_bytes(content)
                for path in (folder, folder / name):
                    self.fails(2, "tokenize", path, "x", says=["hint: ", name, says])
            (folder / name).unlink()
        if tokenizers:
            whole = (tokenizers[0] / "tokenizer.json").read_bytes()
            (folder / "tokenizer.json").write_bytes(whole[:-200])
            self.fails(2, "tokenize", folder, "x", says=["hint: ", "unfinished"])
            (folder / "tokenizer.json").write_bytes(whole)
            for name in ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"):
                (folder / name).write_bytes(PAGE)
                self.fails(2, "tokenize", folder, "x", says=["hint: ", name, "web page"])
                (folder / name).unlink()

    def test_adapters_and_matrices(self):
        folder = shutil.copytree(ADAPTERS / "llama", self.folder / "lora", ignore=shutil.ignore_patterns("expected*"))
        for command in (["run", folder, "hi"], ["inspect", folder], ["embed", folder, "hi"], ["convert", folder],
                        ["run", folder / "adapter_model.safetensors", "hi"]):
            self.fails(2, *command, says=["hint: ", "is a LoRA adapter", "--lora"], cwd=self.folder)
        shutil.copy(FAMILIES / "llama" / "config.json", folder / "config.json")
        self.fails(2, "run", folder, "hi", says=["is a LoRA adapter", "--lora"])
        self.fails(2, "run", ADAPTERS / "llama.gguf", "hi", says=["is a LoRA adapter", "--lora"])
        self.fails(2, "run", TINY_F16, "hi", "--lora", FAMILIES / "llama", says="is not a LoRA adapter")
        page = self.file("page.dat", PAGE)
        self.fails(2, "convert", TINY_F16, "--imatrix", page, "-o", self.folder / "x.gguf", says=["hint: ", "web page"])
        text = self.file("t.txt", "The sea is deep. " * 60)
        self.succeeds("imatrix", TINY_F16, "--text", text, "--ctx", "32", "-o", self.folder / "i.gguf")
        self.fails(2, "run", self.folder / "i.gguf", "hi", says="is an importance matrix")

    def test_an_answer_of_a_server(self):
        answer = self.file("model.gguf", b"Entry not found")
        self.fails(2, "run", answer, "hi", says=["this is not a GGUF file but a text: 'Entry not found'", "server's answer"])

    def test_folders_that_hold_a_model_elsewhere(self):
        cached = self.folder / "models--own--m"
        (cached / "snapshots" / "abc").mkdir(parents=True)
        self.fails(2, "run", cached, "hi", says=f"hint: it is a folder of the Hub's cache: name a snapshot in it, {cached}/snapshots/abc")
        (self.folder / "pipeline").mkdir()
        (self.folder / "pipeline" / "model_index.json").write_text("{}")
        self.fails(2, "run", self.folder / "pipeline", "hi", says="gabbro image draws with it")

    def test_an_unfinished_download_by_its_name(self):
        whole = (FAMILIES / "qwen3" / "model.safetensors").read_bytes()
        part = self.file("model.safetensors.incomplete", whole[:len(whole) // 2])
        self.fails(2, "run", part, "hi", says=["hint: ", "unfinished"])
        folder = self.folder_with("model.safetensors.incomplete", whole[:1000])
        (folder / "model.safetensors").unlink()
        self.logits(folder, "unfinished: model.safetensors.incomplete")

    def test_holes(self):
        model = gguf_edit.Gguf(TINY_F16)
        names = [tensor.name.decode() for tensor in model.tensors]
        whole = self.folder / "whole.gguf"
        shutil.copy(TINY_F16, whole)
        self.succeeds("inspect", whole, "--check")
        hole = self.file("hole.gguf", whole.read_bytes()[:-50000] + bytes(50000))
        failed = self.fails(2, "inspect", hole, "--check", says=["hint: ", "zeros throughout", "unfinished"])
        named = failed.err.decode().split("throughout: ")[1].splitlines()[0].split(" and ")[0].split(", ")
        self.assertTrue(named and set(named) <= set(names), named)
        self.fails(2, "inspect", hole, "--check", "--json", says="zeros throughout")
        self.succeeds("inspect", hole)
        # One matrix, and a vector, may be meant so.
        for name in ("blk.1.ffn_down.weight", "blk.0.attn_norm.weight"):
            one = gguf_edit.Gguf(TINY_F16)
            tensor = one.tensor(name)
            tensor.data = bytes(len(tensor.data))
            one.write(self.folder / "one.gguf")
            said = self.succeeds("inspect", self.folder / "one.gguf", "--check")
            self.assertEqual(b"warning" in said.err, name.endswith("down.weight"), said)

    def test_holes_of_a_folder(self):
        path = FAMILIES / "qwen3" / "model.safetensors"
        whole = path.read_bytes()
        header = 8 + struct.unpack("<Q", whole[:8])[0]
        folder = self.folder_with("model.safetensors", whole[:header + 3000] + bytes(len(whole) - header - 3000))
        self.fails(2, "inspect", folder, "--check", says="zeros throughout")


if __name__ == "__main__":
    support.main()

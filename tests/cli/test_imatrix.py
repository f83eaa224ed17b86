"""`imatrix` and `convert --imatrix`, and adapters on the command line: `--lora`, `convert --lora`."""
import json
import math
import struct

import support
from gguf_edit import Gguf
from support import ROOT, TINY_F16, TestCase

TEXT = ROOT / "tests" / "data" / "english.txt"
FAMILIES, ADAPTERS = ROOT / "tests" / "data" / "families", ROOT / "tests" / "data" / "adapters"


class Imatrix(TestCase):
    def json(self, *arguments, **options):
        return json.loads(self.succeeds(*arguments, **options).text)

    def matrix(self, *options):
        out = self.folder / "imatrix.gguf"
        said = self.json("imatrix", TINY_F16, "--text", TEXT, "--ctx", "64", "--chunks", "3", "-o", out, "--json",
                         *options)
        return out, said

    def test_a_text_becomes_a_file_that_convert_takes(self):
        out, said = self.matrix()
        self.assertEqual((said["chunks"], said["ctx"], said["experts_without_tokens"]), (3, 64, 0))
        file = Gguf(out)
        self.assertEqual(file.fields[b"general.type"][1], b"imatrix")
        self.assertEqual(file.fields[b"imatrix.datasets"][1][1], [b"english.txt"])
        self.assertEqual((file.fields[b"imatrix.chunk_count"][1], file.fields[b"imatrix.chunk_size"][1]), (3, 64))
        tensors = {tensor.name.decode(): tensor for tensor in file.tensors}
        self.assertEqual(len(tensors), 2 * said["entries"])
        counts = tensors["blk.0.ffn_down.weight.counts"]
        self.assertEqual(struct.unpack("<f", counts.data[:4]), (192.0,))  # in every layer all tokens of all chunks
        last = max(int(name.split(".")[1]) for name in tensors)
        self.assertEqual(tensors[f"blk.{last}.ffn_down.weight.counts"].data[:4], counts.data[:4])
        sums = tensors["blk.0.attn_q.weight.in_sum2"]
        values = struct.unpack(f"<{sums.shape[0]}f", sums.data[:4 * sums.shape[0]])
        self.assertTrue(all(math.isfinite(value) and value > 0 for value in values))
        self.assertEqual(sums.data, tensors["blk.0.attn_k.weight.in_sum2"].data)  # the same inputs
        plain, weighted = self.folder / "plain.gguf", self.folder / "weighted.gguf"
        self.succeeds("convert", TINY_F16, "--type", "q4_0", "-o", plain)
        self.succeeds("convert", TINY_F16, "--type", "q4_0", "--imatrix", out, "-o", weighted)
        self.assertEqual(Gguf(weighted).fields[b"quantize.imatrix.file"][1], b"imatrix.gguf")
        self.assertEqual(Gguf(weighted).fields[b"quantize.imatrix.chunks_count"][1], 3)
        before, after = ({t.name.decode(): t.data for t in Gguf(path).tensors} for path in (plain, weighted))
        changed = {name for name in before if before[name] != after[name]}
        self.assertIn("blk.0.attn_q.weight", changed)
        self.assertTrue(all(name.startswith("blk.") for name in changed), changed)

    def test_what_is_wrong_is_named(self):
        out, _ = self.matrix()
        self.fails(2, "imatrix", TINY_F16, "--text", TEXT, "-o", out, says="is there already")
        self.fails(2, "imatrix", TINY_F16, "--text", self.file("short.txt", "a b"), "-o", self.folder / "x",
                   says="less than one chunk")
        new = self.folder / "new.gguf"
        self.fails(2, "convert", TINY_F16, "--imatrix", TINY_F16, "-o", new, says="not an importance matrix")
        damaged = self.file("x.dat", b"\1\0\0\0\2\0\0\0ab")
        self.fails(2, "convert", TINY_F16, "--imatrix", damaged, "-o", new, says="x.dat")
        self.fails(2, "convert", FAMILIES / "qwen3", "--type", "q8_0", "--imatrix", out, "-o", new,
                   says="the model's sizes ask for")
        self.assertFalse(new.exists())


class Lora(TestCase):
    def logits(self, model, *options):
        out = self.folder / "logits.npy"
        self.succeeds("logits", model, "--tokens", "5,6,7,8", "--out", out, *options)
        raw = out.read_bytes()
        count = (len(raw) - 128) // 4
        return struct.unpack(f"<{count}f", raw[128:])

    def assert_close(self, one, other, tolerance):
        scale = max(abs(x) for x in other)
        self.assertLess(max(abs(x - y) for x, y in zip(one, other, strict=True)), tolerance * scale)

    def test_merged_and_applied_are_the_same(self):
        model, adapter = FAMILIES / "llama", ADAPTERS / "llama"
        merged = self.folder / "merged.gguf"
        self.succeeds("convert", model, "--type", "f32", "--lora", f"{adapter}:0.5", "-o", merged)
        applied = self.logits(model, "--lora", f"{adapter}:0.5")
        self.assert_close(self.logits(merged), applied, 1e-2)  # the folder's weights are bf16
        self.assert_close(self.logits(model, "--lora", f"{ADAPTERS / 'llama.gguf'}:0.5"), applied, 1e-5)
        self.assert_close(self.logits(model, "--lora", f"{adapter}:0.25", "--lora", f"{adapter}:0.25"), applied, 1e-3)
        plain = self.logits(model)
        self.assertGreater(max(abs(x - y) for x, y in zip(plain, applied, strict=True)), 0.01)
        self.assertEqual(self.logits(model, "--lora", f"{adapter}:0"), plain)

    def test_what_is_wrong_is_named(self):
        model = FAMILIES / "llama"
        for value, says in ((ADAPTERS / "gpt2", "has no linear layer of that name"), ("nowhere", "nowhere"),
                            (f"{ADAPTERS / 'llama'}:half", "has no number after its last colon"),
                            (TINY_F16, "not a LoRA adapter")):
            self.fails(2, "logits", model, "--tokens", "5", "--out", self.folder / "x.npy", "--lora", value, says=says)
            self.fails(2, "convert", model, "--lora", value, "-o", self.folder / "x.gguf", says=says)


if __name__ == "__main__":
    support.main()

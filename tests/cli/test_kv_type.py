"""--kv-type in every command that has it: each type, the defaults, and what is refused."""
import json
import struct

import support
from support import ROOT, TINY_F16, TestCase, gabbro

TYPES = ("f32", "bf16", "f16", "q8_0", "q4_0")
FAMILIES = ROOT / "tests" / "data" / "families"
BERT = ROOT / "tests" / "data" / "encoders" / "bert"
TEXT = "the quick brown fox jumps over the lazy dog. " * 20


class KvType(TestCase):
    def logits(self, model, *options):
        out = self.folder / "x.npy"
        self.succeeds("logits", model, "--tokens", "5,6,7,8,9,10,11,12,13,14", "--out", out, *options)
        raw = out.read_bytes()
        start = 10 + struct.unpack("<H", raw[8:10])[0]
        return struct.unpack(f"<{(len(raw) - start) // 4}f", raw[start:])

    def in_f32(self):
        file = self.folder / "f32.gguf"
        self.succeeds("convert", TINY_F16, "--type", "f32", "-o", file)
        return file

    def test_every_command_takes_every_type(self):
        text = self.file("text.txt", TEXT)
        for kv_type in TYPES:
            option = ("--kv-type", kv_type)
            self.succeeds("run", TINY_F16, "Hi", "-n", "3", *option)
            self.logits(TINY_F16, *option)
            document = json.loads(self.succeeds("perplexity", TINY_F16, "--file", text, "--ctx", "64", "--json", *option).text)
            self.assertEqual(document["kv_type"], kv_type)
            document = json.loads(self.succeeds("bench", "llm", TINY_F16, "-p", "8", "-n", "2", "-r", "1", "--json", *option).text)
            self.assertEqual(document["kv_type"], kv_type)
            document = json.loads(self.succeeds("fit", TINY_F16, "--json", *option).text)
            self.assertEqual(document["kv_type"], kv_type)

    def test_bytes_are_those_of_the_type(self):
        def kv_bytes(kv_type):
            arguments = ("fit", "--shape", "llama-8b", "--ctx", "4096", "--json", "--kv-type", kv_type)
            return json.loads(self.succeeds(*arguments).text)["kv_bytes_per_token"]
        numbers = 2 * 32 * 8 * 128  # keys and values of 32 layers with 8 heads of 128
        self.assertEqual([kv_bytes(kv_type) for kv_type in TYPES],
                         [4 * numbers, 2 * numbers, 2 * numbers, numbers // 32 * 34, numbers // 32 * 18])

    def test_closer_types_give_closer_logits(self):
        model = self.in_f32()
        exact = self.logits(model, "--kv-type", "f32")
        errors = [max(abs(a - b) for a, b in zip(exact, self.logits(model, "--kv-type", kv_type)))
                  for kv_type in ("f16", "bf16", "q8_0", "q4_0")]
        self.assertGreater(errors[0], 0)
        self.assertEqual(errors, sorted(errors))

    def test_logits_of_f32_weights_have_an_f32_cache(self):
        model = self.in_f32()
        self.assertEqual(self.logits(model), self.logits(model, "--kv-type", "f32"))
        self.assertNotEqual(self.logits(model), self.logits(model, "--kv-type", "f16"))
        # Others have f16, also where f32 weights become blocks.
        self.assertEqual(self.logits(TINY_F16), self.logits(TINY_F16, "--kv-type", "f16"))
        blocks = ("--quantize", "q8_0")
        self.assertEqual(self.logits(model, *blocks), self.logits(model, "--kv-type", "f16", *blocks))

    def test_unknown_types_are_refused_with_the_list(self):
        commands = (["run", TINY_F16, "hi"], ["logits", TINY_F16, "--tokens", "1", "--out", self.folder / "x.npy"],
                    ["perplexity", TINY_F16, "--file", self.file("t.txt", TEXT)], ["embed", BERT, "hi"],
                    ["bench", "llm", TINY_F16], ["fit", TINY_F16])
        for command in commands:
            for value in ("q5_0", "f64", "F16", "16"):
                self.fails(2, *command, "--kv-type", value, says=["--kv-type", value, *TYPES])

    def test_heads_that_blocks_do_not_divide(self):
        llama = FAMILIES / "llama"  # heads of 8 elements
        for kv_type in ("q8_0", "q4_0"):
            option = ("--kv-type", kv_type)
            says = [f"a {kv_type} KV cache has blocks of 32 elements", "heads of 8"]
            self.fails(2, "logits", llama, "--tokens", "1", "--out", self.folder / "x.npy", *option, says=says)
            self.fails(2, "bench", "llm", llama, *option, says=says)
            self.fails(2, "fit", llama, *option, says=says)

    def test_text_encoders_take_f32_alone(self):
        self.assertEqual(self.succeeds("embed", BERT, "Hello", "--kv-type", "f32").out, self.succeeds("embed", BERT, "Hello").out)
        for kv_type in TYPES[1:]:
            self.fails(2, "embed", BERT, "Hello", "--kv-type", kv_type, says=[f"--kv-type {kv_type}", "text encoders"])


if __name__ == "__main__":
    support.main()

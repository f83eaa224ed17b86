"""Malformed model files: each command ends with one clear line and code 2 (or runs), within seconds and in bounded memory."""
import pathlib
import random
import resource
import struct
import subprocess

import support
from gguf_edit import ARRAY, F32, STRING, U32, U64, Gguf
from support import TINY_F16, TINY_Q4_0, TestCase

MEMORY = 2 << 30  # address space that any of them may take; the files are 150 KB


def limit_memory():
    if not support.SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


class HostileModels(TestCase):
    def refused(self, change, says="", code=2, model=TINY_F16):
        file = Gguf(model)
        change(file)
        path = self.folder / "model.gguf"
        file.write(path)
        self.fails(code, "run", path, "hi", "-n", "2", "--threads", "1", says=says, preexec_fn=limit_memory)

    def test_missing_tensors(self):
        for name in (b"token_embd.weight", b"blk.0.attn_norm.weight", b"blk.1.attn_q.weight", b"blk.1.ffn_down.weight",
                     b"output_norm.weight"):
            self.refused(lambda f: f.tensors.remove(f.tensor(name.decode())), says=name.decode())

    def test_no_tensors(self):
        self.refused(lambda f: f.tensors.clear())

    def test_missing_fields(self):
        for key in (b"general.architecture", b"llama.block_count", b"llama.embedding_length",
                    b"llama.attention.head_count", b"tokenizer.ggml.model", b"tokenizer.ggml.tokens"):
            with self.subTest(key=key):
                self.refused(lambda f: f.fields.pop(key), says=key.decode())

    def test_absurd_numbers(self):
        for key, values in {
            b"llama.block_count": [0, 3, 2**31, 2**32 - 1],
            b"llama.embedding_length": [0, 1, 63, 2**32 - 1],
            b"llama.attention.head_count": [0, 3, 2**32 - 1],
            b"llama.attention.head_count_kv": [0, 3, 5, 2**32 - 1],
            b"llama.feed_forward_length": [0, 65, 2**32 - 1],
            b"llama.rope.dimension_count": [17, 2**32 - 1],
            b"llama.context_length": [0],
        }.items():
            for value in values:
                def change(file):
                    file.fields[key] = (U32, value)
                with self.subTest(key=key, value=value):
                    self.refused(change)
        with self.subTest("a context of 2^62"):
            file = Gguf(TINY_F16)
            file.fields[b"llama.context_length"] = (U64, 2**62)
            file.write(self.folder / "long.gguf")
            result = support.gabbro("run", self.folder / "long.gguf", "hi", "-n", "1",
                                                       preexec_fn=limit_memory)
            self.assertIn(result.code, (0, 2), result)

    def test_absurd_reals(self):
        for key in (b"llama.attention.layer_norm_rms_epsilon", b"llama.rope.freq_base"):
            for value in (float("nan"), float("inf"), -1.0):
                def change(file):
                    file.fields[key] = (F32, value)
                with self.subTest(key=key, value=value):
                    self.refused(change)

    def test_fields_of_another_type(self):
        for key in (b"llama.block_count", b"llama.attention.head_count", b"general.architecture", b"tokenizer.ggml.tokens",
                    b"tokenizer.ggml.merges", b"tokenizer.ggml.token_type", b"tokenizer.chat_template"):
            for field in ((F32, 1.5), (STRING, b"text"), (ARRAY, (F32, [1.0, 2.0]))):
                if key in (b"general.architecture", b"tokenizer.chat_template") and field[0] == STRING:
                    continue

                def change(file):
                    file.fields[key] = field
                with self.subTest(key=key, field=field):
                    self.refused(change, says=key.decode())

    def test_architecture_that_we_do_not_know(self):
        def change(file):
            file.fields[b"general.architecture"] = (STRING, b"unheard-of")
        self.refused(change, says="unheard-of")

    def test_wrong_shapes(self):
        for name in ("token_embd.weight", "blk.0.attn_k.weight", "blk.0.ffn_up.weight", "output_norm.weight"):
            def swap(file):
                tensor = file.tensor(name)
                tensor.shape = [tensor.shape[0] // 2, tensor.shape[1] * 2] if len(tensor.shape) == 2 else [32, 2]
            with self.subTest(name=name):
                self.refused(swap, says=name)

    def test_weights_that_are_not_numbers(self):
        def poison(file):
            tensor = file.tensor("output_norm.weight")
            tensor.data = struct.pack("<f", float("nan")) * (len(tensor.data) // 4)
        for extra in ([], ["--temperature", "0"]):
            file = Gguf(TINY_F16)
            poison(file)
            file.write(self.folder / "nan.gguf")
            result = self.fails_with_either("run", self.folder / "nan.gguf", "hi", "-n", "4", *extra)
            self.assertRegex(result.err.decode(), "not (a )?number")

    def test_damaged_weights_that_are_used_in_the_file(self):
        file = Gguf(TINY_F16)
        tensor = file.tensor("blk.0.ffn_up.weight")
        tensor.data = struct.pack("<e", float("nan")) + tensor.data[2:]
        file.write(self.folder / "nan.gguf")
        self.fails(2, "inspect", self.folder / "nan.gguf", "--check", says="blk.0.ffn_up.weight")
        good = support.gabbro("inspect", TINY_F16, "--check")
        self.assertEqual(good.code, 0, good)

    def fails_with_either(self, *arguments):
        code = support.gabbro(*arguments).code
        self.assertIn(code, (1, 2))
        return self.fails(code, *arguments)

    def test_vocabularies_that_do_not_fit(self):
        def longer(file):
            element, tokens = file.fields[b"tokenizer.ggml.tokens"][1]
            file.fields[b"tokenizer.ggml.tokens"] = (ARRAY, (element, tokens + [b"x%d" % i for i in range(50)]))
            del file.fields[b"tokenizer.ggml.token_type"]
        self.refused(longer)

        def outside(file):
            file.fields[b"tokenizer.ggml.eos_token_id"] = (U32, 5000)
        model = Gguf(TINY_F16)  # llama.cpp does not use such a token either
        outside(model)
        model.write(self.folder / "outside.gguf")
        result = self.succeeds("run", self.folder / "outside.gguf", "hi", "-n", "2")
        self.assertIn(b"eos_token_id: token 5000 is outside the vocabulary of 300 tokens: not used", result.err)

        def unknown(file):
            file.fields[b"tokenizer.ggml.model"] = (STRING, b"hieroglyphs")
        self.refused(unknown, says="hieroglyphs")

    def test_templates_that_do_harm(self):
        for source, says in ((b"{% for i in range(1000000000) %}{{ i }}{% endfor %}", ""), (b"{% if %}", "template"),
                             (b"{{ 'x' * 9999999999 }}", ""), (b"(" * 100000, None), (b"{{" + b"(" * 100000, "template")):
            file = Gguf(TINY_F16)
            file.fields[b"tokenizer.chat_template"] = (STRING, source)
            file.write(self.folder / "harm.gguf")
            if says is None:  # a text without a template in it is merely long
                result = support.gabbro("run", self.folder / "harm.gguf", "hi", "-n", "1")
                self.assertIn(result.code, (0, 2), result)
            else:
                self.fails(2, "run", self.folder / "harm.gguf", "hi", says=says, preexec_fn=limit_memory)

    def test_truncated_and_garbled_files(self):
        whole = pathlib.Path(TINY_Q4_0).read_bytes()
        generator = random.Random(1)
        for length in [*generator.sample(range(len(whole) - 40), 12), 7, 30]:
            self.fails(2, "run", self.file("cut.gguf", whole[:length]), "hi", preexec_fn=limit_memory)
        for _ in range(60):
            garbled = bytearray(whole)
            for _ in range(generator.randrange(1, 8)):
                garbled[generator.randrange(10000)] = generator.randrange(256)  # header and metadata
            path = self.file("garbled.gguf", bytes(garbled))
            done = subprocess.run([support.PROGRAM, "run", path, "hi", "-n", "2", "--threads", "1"], timeout=60,
                                  capture_output=True, stdin=subprocess.DEVNULL, preexec_fn=limit_memory)
            self.assertIn(done.returncode, (0, 1, 2), done)
            if done.returncode:
                lines = [line for line in done.stderr.decode().splitlines() if line.startswith("gabbro: error: ")]
                self.assertEqual(len(lines), 1, done)


if __name__ == "__main__":
    support.main()

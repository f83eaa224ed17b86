"""`convert` never writes a worse file in silence: end tokens and sampling, values that overflow or are not numbers,
formats that rows do not fit, importance matrices of other models; and one writer at a time."""
import array
import fcntl
import json
import math
import os
import shutil
import struct
import subprocess

import gguf_edit
import support
import tiny_folder
from gguf_edit import ARRAY, F32, STRING, Gguf, Tensor
from support import PROGRAM, ROOT, TestCase

QUANTIZED, ENCODERS = ROOT / "tests" / "data" / "quantized", ROOT / "tests" / "data" / "encoders"
TENSOR = "model.layers.0.mlp.up_proj.weight"


def with_value(tensors, name, index, value):
    """A copy with another value in one tensor."""
    shape, values = tensors[name]
    values = array.array("f", values)
    values[index] = value
    return {**tensors, name: (shape, values)}


def write_imatrix(path, entries):
    """entries: {name: (columns, sums, counts)}"""
    file = Gguf(support.TINY_F16)
    file.fields = {b"general.type": (STRING, b"imatrix"), b"imatrix.datasets": (ARRAY, (STRING, [b"text"]))}
    file.tensors = []
    for name, (columns, sums, counts) in entries.items():
        for suffix, values, width in ((".in_sum2", sums, columns), (".counts", counts, 1)):
            file.tensors.append(Tensor((name + suffix).encode(), [width, len(values) // width], 0,
                                       struct.pack(f"<{len(values)}f", *values)))
    file.write(path)


class Case(TestCase):
    def json(self, *arguments, **options):
        return json.loads(self.succeeds(*arguments, **options).text)

    def convert(self, model, *options, name="out.gguf"):
        out = self.folder / name
        said = self.succeeds("convert", model, "-o", out, "--force", *options)
        return out, said.err.decode()

    def refuses(self, model, *options, says):
        out = self.folder / "refused.gguf"
        self.fails(2, "convert", model, "-o", out, *options, says=says)
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith("refused")], [])


class Generation(Case):
    NAMES = ["<unk>", "<s>", "</s>", "a", "b", "c", "<|end6|>", "e", "<|end8|>", "g", "<|end10|>", "i", "<|end12|>",
             *tiny_folder.LETTERS[13:36]]

    def chain(self, name, **files):
        """After each letter its end: rows of the head are highest at the letter before."""
        size = 36
        tensors = tiny_folder.llama_tensors(hidden=size, feed_forward=16)
        identity = [float(i == j) for i in range(size) for j in range(size)]
        head = [10.0 * (j == i - 1 or (j == 2 and i == 3)) for i in range(size) for j in range(size)]
        tensors = {key: (shape, array.array("f", [0.0] * len(values)) if len(shape) > 1 else values)
                   for key, (shape, values) in tensors.items()}
        tensors["model.embed_tokens.weight"] = ((size, size), identity)
        tensors["lm_head.weight"] = ((size, size), head)
        folder = self.folder / name
        tiny_folder.write_llama(folder, tensors, names=self.NAMES, **files)
        return folder

    def answers(self, model):
        return [self.succeeds("run", model, "--raw", "--temp", "0", "-n", "3", letter).out for letter in "cegi"]

    def test_all_end_tokens_survive(self):
        ends = [6, 8, 10, 12]
        for name, files in {"config": {"eos_token_id": ends}, "file": {"generation": {"eos_token_id": ends}}}.items():
            folder = self.chain(name, **files)
            expected = self.answers(folder)
            self.assertEqual(expected, [b"\n"] * 4 if expected[0].endswith(b"\n") else [b""] * 4)
            out, _ = self.convert(folder, "--type", "f32", name=name + ".gguf")
            self.assertEqual(self.answers(out), expected, name)
            self.assertEqual(self.answers(self.convert(out, "--type", "bf16")[0]), expected, name)
            fields = Gguf(out).fields
            self.assertEqual(fields[b"tokenizer.ggml.eos_token_ids"][1][1], [2, *ends])
            known = {fields[b"tokenizer.ggml.%s_token_id" % key][1] for key in (b"eos", b"eot", b"eom")}
            self.assertEqual(len(known), 3)  # that many llama.cpp has names for

    def test_end_tokens_of_another_type_are_refused(self):
        for ends in ("2", [2, None], [2, "3"], 2.5, True, {"a": 2}):
            folder = self.chain("wrong", generation={"eos_token_id": ends})
            for command in (["run", folder, "--raw", "a"], ["convert", folder, "-o", self.folder / "x.gguf"]):
                self.fails(2, *command, says=["generation_config.eos_token_id", "not a token id or a list of token ids"])

    def test_end_tokens_of_a_nested_configuration(self):
        folder = self.chain("nested")
        text = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(
            {"model_type": "llava", "text_config": {**text, "eos_token_id": [2, 6, 8, 10, 12]}}))
        self.assertEqual(self.answers(folder), self.answers(self.chain("flat", eos_token_id=[2, 6, 8, 10, 12])))

    def test_sampling_is_that_of_the_folder(self):
        said = {"temperature": 0.6, "top_k": 20, "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.05}
        folder = self.folder / "model"
        for generation, expected in ((said, (0.6, 20)), ({**said, "do_sample": False}, (0, 20)),
                                     ({"temperature": "hot", "top_k": 2.5}, None), ({}, None)):
            tiny_folder.write_llama(folder, generation=generation)
            out, _ = self.convert(folder, "--type", "f32")
            fields = {key: value for key, (_, value) in Gguf(out).fields.items() if key.startswith(b"general.sampling")}
            if expected:
                self.assertAlmostEqual(fields[b"general.sampling.temp"], expected[0], 6)
                self.assertEqual(fields[b"general.sampling.top_k"], expected[1])
                self.assertAlmostEqual(fields[b"general.sampling.penalty_repeat"], 1.05, 6)
            else:
                self.assertEqual(fields, {})
            run = [self.succeeds("run", model, "--raw", "-n", "20", "--seed", "7", "--log-level", "info", "abc") for model in (folder, out)]
            self.assertEqual(run[0].out, run[1].out, generation)
            lines = [next(line for line in result.err.decode().splitlines() if "sampling:" in line) for result in run]
            self.assertEqual(lines[0], lines[1])
            if expected:
                self.assertIn(f"temperature {expected[0]:g} (model)", lines[0])

    def test_what_is_no_number_is_said(self):
        folder = self.folder / "model"
        tiny_folder.write_llama(folder, generation={"temperature": "hot", "top_k": 2.5})
        for arguments in (("convert", folder, "-o", self.folder / "x.gguf"), ("run", folder, "--raw", "-n", "1", "a")):
            err = self.succeeds(*arguments).err.decode()
            self.assertIn("generation_config.json: temperature is string", err)
            self.assertIn("top_k is", err)


class Values(Case):
    def test_what_overflows_is_named(self):
        folder, tensors = self.folder / "model", tiny_folder.llama_tensors()
        tiny_folder.write_llama(folder, with_value(tensors, TENSOR, 32 * 3 + 5, 1e6))
        for kind in ("f16", "q4_0", "q4_1"):
            self.refuses(folder, "--type", kind, says=[f"'{TENSOR}'", "1000000 at (3, 5)", f"too large for {kind}",
                                                       "--type bf16"])
        npy = self.folder / "x.npy"
        for kind in ("bf16", "f32", "q8_0"):
            out, _ = self.convert(folder, "--type", kind)
            self.succeeds("logits", out, "--tokens", "1,3", "--out", npy)
        self.fails(2, "logits", folder, "--quantize", "q4_0", "--tokens", "1,3", "--out", npy,
                   says=["'blk.0.ffn_up.weight'", "1000000 at (3, 5)", "too large for q4_0"])

    def test_every_format_refuses_what_its_scales_cannot_hold(self):
        folder, tensors = self.folder / "model", tiny_folder.llama_tensors(hidden=256, feed_forward=256)
        tiny_folder.write_llama(folder, with_value(tensors, TENSOR, 256 * 7 + 9, -1e30))
        matrix = self.folder / "imatrix.gguf"
        entries = {f"blk.0.{name}.weight": (256, [1.0] * 256, [1.0]) for name in
                   ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")}
        write_imatrix(matrix, entries)
        for kind in support.gguf_types():
            if kind in ("f32", "bf16", "mxfp4"):
                continue  # they have the range
            self.refuses(folder, "--type", kind, "--imatrix", matrix, says=[f"'{TENSOR}'", "-1e+30 at (7, 9)"])
        self.convert(folder, "--type", "mxfp4")

    def test_sums_with_adapters_are_checked(self):
        folder, lora = self.folder / "model", self.folder / "lora"
        tiny_folder.write_llama(folder)
        lora.mkdir()
        (lora / "adapter_config.json").write_text(json.dumps(
            {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["up_proj"]}))
        name = "base_model.model." + TENSOR.removesuffix(".weight")
        for value, says in ((1e4, "too large for f16"), (3e38, "too large for f16"), (math.nan, "nan at (0, 0)")):
            tiny_folder.write_safetensors(lora / "adapter_model.safetensors", {
                name + ".lora_A.weight": ((1, 32), [value] * 32), name + ".lora_B.weight": ((32, 1), [1e4] * 32)})
            self.refuses(folder, "--lora", lora, "--type", "f16", says=says)

    def test_what_is_no_number_is_named_by_every_reader(self):
        tensors = tiny_folder.llama_tensors()
        for value, shown in ((math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")):
            folder = self.folder / shown
            tiny_folder.write_llama(folder, with_value(tensors, TENSOR, 32 * 30 + 31, value))
            for kind in ("f32", "bf16", "q8_0"):
                self.refuses(folder, "--type", kind, says=[f"'{TENSOR}'", f"{shown} at (30, 31)"])
            self.fails(2, "inspect", folder, "--check", says=[f"'{TENSOR}'", f"{shown} at (30, 31)"])
            text, npy = self.file("text.txt", "abc " * 40), self.folder / "x.npy"
            self.fails(1, "logits", folder, "--tokens", "3,4", "--out", npy, says=["not a number: logits: nan at (0, 0)"])
            self.fails(1, "perplexity", folder, "-f", text, "--ctx", "16", says="not a number: chunk 1")
            self.fails(1, "imatrix", folder, "-f", text, "--ctx", "16", "-o", npy, says="blk.0.ffn_down.weight")
            self.assertFalse(npy.exists())
            trace = self.folder / "trace"
            self.fails(1, "logits", folder, "--tokens", "3,4", "--trace", trace, says="not a number: layers.0: ")
            self.assertTrue((trace / "logits.npy").exists())
        shape, values = tensors["model.norm.weight"]
        tiny_folder.write_llama(folder, {**tensors, "model.norm.weight": (shape, [math.nan, *values[1:]])})
        self.fails(2, "run", folder, "--raw", "a", says="nan at (0)")

    def test_embeddings_that_are_no_numbers_are_not_printed(self):
        folder = self.folder / "bert"
        shutil.copytree(ENCODERS / "bert", folder)
        tensors = {name: (shape, (kind, data)) for name, (shape, kind, data) in
                   tiny_folder.read_safetensors(folder / "model.safetensors").items()}
        name = next(name for name in tensors if name.endswith("layer.0.output.dense.weight"))
        shape, (kind, data) = tensors[name]
        size = len(data) // (shape[0] * shape[1])
        tensors[name] = (shape, (kind, b"\xff" * size + data[size:]))
        tiny_folder.write_safetensors(folder / "model.safetensors", tensors)
        self.fails(2, "inspect", folder, "--check", says="nan at (0, 0)")
        failed = self.fails(1, "embed", folder, "--no-check-weights", "a text", says="text 1 is not a number: nan at")
        self.assertEqual(failed.out, b"")

    def test_scales_of_published_forms_are_checked(self):
        folder = self.folder / "awq"
        shutil.copytree(QUANTIZED / "awq", folder)
        path = folder / "model.safetensors"
        tensors = {name: (shape, (kind, data)) for name, (shape, kind, data) in tiny_folder.read_safetensors(path).items()}
        name = next(name for name in tensors if name.endswith(".scales"))
        shape, (kind, data) = tensors[name]
        tensors[name] = (shape, (kind, b"\xff\x7f" + data[2:]))
        tiny_folder.write_safetensors(path, tensors)
        module = name.removesuffix(".scales")
        self.fails(2, "inspect", folder, "--check", says=[module, "nan at (0, 0)"])
        self.refuses(folder, "--type", "q8_0", says=[module, "nan at"])


class Formats(Case):
    def test_tensors_in_another_format_are_one_line(self):
        folder = self.folder / "odd"
        tiny_folder.write_llama(folder, tiny_folder.llama_tensors(hidden=20, feed_forward=20, layers=2), layers=2)
        _, err = self.convert(folder, "--type", "q4_0")
        lines = [line for line in err.splitlines() if "tensors" in line]
        self.assertEqual(len(lines), 1, err)
        self.assertIn("16 of 21 tensors are not in the format of q4_0: 16 as f16 (rows of 20 are not a multiple of 32)",
                      lines[0])
        even = self.folder / "even"
        tiny_folder.write_llama(even)
        self.assertNotIn("not in the format", self.convert(even, "--type", "q8_0")[1])
        self.assertNotIn("not in the format", self.convert(folder, "--type", "f16")[1])
        self.assertIn("rows of 32 are not a multiple of 256", self.convert(even, "--type", "q4_k_m")[1])

    def test_tensors_that_are_left_out_are_said(self):
        folder, tensors = self.folder / "model", tiny_folder.llama_tensors()
        more = {"vision.patch.weight": ((2, 4), [0.0] * 8), "model.layers.0.self_attn.rotary_emb.inv_freq": ((4,), [1.0] * 4)}
        tiny_folder.write_llama(folder, {**tensors, **more})
        self.assertIn("1 of 14 tensors are left out, since the model does not use them; the first is 'vision.patch.weight'",
                      self.convert(folder, "--type", "f32")[1])

    def test_copies_of_unused_tensors_are_said(self):
        folder, changed = self.folder / "model", self.folder / "changed.gguf"
        tiny_folder.write_llama(folder)
        file = Gguf(self.convert(folder, "--type", "f32")[0])
        file.tensors.append(Tensor(b"v.patch.weight", [32, 2], 0, struct.pack("<64f", *[1.0] * 64)))
        file.write(changed)
        self.assertIn("1 as f32 (copied: the model does not use them)", self.convert(changed, "--type", "q8_0")[1])
        file.tensors[-1].data = struct.pack("<64f", *[1.0] * 40, math.inf, *[1.0] * 23)
        file.write(changed)
        self.refuses(changed, "--type", "q8_0", says=["'v.patch.weight'", "inf at (1, 8)"])


class Importance(Case):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        tiny_folder.write_llama(self.model, tiny_folder.llama_tensors(hidden=256, feed_forward=256))
        self.names = [f"blk.0.{name}.weight" for name in
                      ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")]
        self.matrix = self.folder / "imatrix.gguf"

    def said(self, kind):
        """All but the line about the tokenizer."""
        err = self.convert(self.model, "--type", kind, "--imatrix", self.matrix)[1]
        return "".join(line for line in err.splitlines(True) if "tokenizer" not in line)

    def write(self, names):
        write_imatrix(self.matrix, {name: (256, [1.0] * 256, [1.0]) for name in names})

    def test_types_that_need_one_are_refused_without(self):
        for kind in ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "q2_k_s"):
            self.refuses(self.model, "--type", kind, says=f"--type {kind} needs an importance matrix")
        for kind in ("iq2_m", "iq3_xxs"):  # by a tensor
            self.refuses(self.model, "--type", kind, says=["needs an importance matrix", "'blk.0.attn_q.weight'", "iq2_s"])
        for kind in ("q2_k", "iq3_s", "iq4_xs", "tq1_0"):
            self.convert(self.model, "--type", kind)
        self.fails(2, "run", self.model, "--quantize", "iq2_xs", "--raw", "a", says="importance matrix")

    def test_a_whole_one_is_taken_without_a_word(self):
        self.write(self.names)
        for kind in ("iq1_m", "iq2_xs", "q2_k_s", "q4_k_m"):
            self.assertEqual(self.said(kind), "")
        self.assertIn("not used, bf16 has no blocks", self.said("bf16"))

    def test_missing_and_foreign_entries_are_said(self):
        self.write(self.names[1:])
        self.refuses(self.model, "--type", "iq2_xs", "--imatrix", self.matrix, says=["'blk.0.attn_q.weight'", "iq2_xs"])
        self.assertIn("no entry for 1 of 7 matrices, the first 'blk.0.attn_q.weight'",
                      self.said("q4_0"))
        self.write([*self.names, "blk.7.attn_q.weight"])
        self.assertIn("1 of 8 entries are of no matrix of this model, the first 'blk.7.attn_q.weight'",
                      self.said("q4_0"))
        self.write(["blk.7.attn_q.weight"])
        self.refuses(self.model, "--type", "q4_0", "--imatrix", self.matrix, says="no entry is for a matrix of this model")

    def test_one_with_damaged_values_is_refused(self):
        write_imatrix(self.matrix, {self.names[0]: (256, [1.0] * 255 + [math.nan], [1.0])})
        self.refuses(self.model, "--type", "q4_0", "--imatrix", self.matrix, says="sums: nan at (0, 255)")


class Encoders(Case):
    def test_modules_without_fields_in_gguf_survive(self):
        folder = self.folder / "bert"
        shutil.copytree(ENCODERS / "bert", folder)
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
        kind = "sentence_transformers.models."
        (folder / "modules.json").write_text(json.dumps(
            [{"idx": 0, "name": "0", "path": "", "type": kind + "Transformer"},
             {"idx": 1, "name": "1", "path": "1_Pooling", "type": kind + "Pooling"}]))  # no Normalize
        (folder / "config_sentence_transformers.json").write_text(json.dumps(
            {"prompts": {"query": "the "}, "default_prompt_name": "query"}))
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 9}))
        out, _ = self.convert(folder, "--type", "f32")
        for arguments in (("a",), ("--prefix", "", "a"), ("--prompt-name", "query", "a")):
            vectors = [self.json("embed", model, *arguments, "--json")["embeddings"] for model in (folder, out)]
            self.assertEqual(vectors[0], vectors[1], arguments)
        long = "a " * 20
        for model in (folder, out):
            self.fails(2, "embed", model, long, says="takes 9 at most")


class Writers(Case):
    def setUp(self):
        super().setUp()
        self.model, self.out = self.folder / "model", self.folder / "out.gguf"
        tiny_folder.write_llama(self.model)

    def names(self):
        return sorted(path.name for path in self.folder.iterdir() if path.name.startswith("out"))

    def test_a_second_writer_is_refused(self):
        with open(str(self.out) + ".partial.parts", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.fails(2, "convert", self.model, "-o", self.out, says="another process is writing it")
        self.succeeds("convert", self.model, "-o", self.out)
        self.assertEqual(self.names(), ["out.gguf"])

    def test_of_several_at_once_one_writes(self):
        runs = [subprocess.Popen([PROGRAM, "convert", self.model, "--type", kind, "-o", self.out], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE) for kind in ("f32", "f16", "bf16", "q8_0", "f32", "q8_0")]
        results = [(run, run.communicate()[1].decode()) for run in runs]
        done = [run for run, _ in results if run.returncode == 0]
        self.assertEqual(len(done), 1, results)
        for run, err in results:
            if run.returncode != 0:
                self.assertRegex(err, "another process is writing it|is there already|is there by now")
        self.assertEqual(self.names(), ["out.gguf"])
        self.succeeds("logits", self.out, "--tokens", "1,3", "--out", self.folder / "x.npy")

    def test_a_foreign_file_in_the_way_is_kept(self):
        partial = self.folder / "out.gguf.partial"
        partial.write_text("precious")
        self.fails(2, "convert", self.model, "-o", self.out, says="was not begun by a conversion")
        self.assertEqual(partial.read_text(), "precious")
        self.assertEqual(self.names(), ["out.gguf.partial"])

    def test_a_source_with_the_old_times_is_not_taken_for_the_old_one(self):
        big = self.folder / "big"
        tensors = tiny_folder.llama_tensors(hidden=256, feed_forward=512, layers=2)
        tiny_folder.write_llama(big, tensors, layers=2)
        source = big / "model.safetensors"
        times = source.stat()
        for wait in (0.05, 0.1, 0.2, 0.4):
            run = subprocess.Popen([PROGRAM, "convert", big, "--type", "q3_k_m", "--threads", "1", "-o", self.out],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                run.wait(wait)
            except subprocess.TimeoutExpired:
                run.terminate()
                run.wait()
            if self.out.exists():
                self.out.unlink()
            elif (self.folder / "out.gguf.partial").exists():
                break
        changed = with_value(tensors, TENSOR, 0, 0.5)
        with open(source, "r+b") as file:
            tiny_folder.write_safetensors(self.folder / "other.safetensors", changed)
            file.write((self.folder / "other.safetensors").read_bytes())
        os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.succeeds("convert", big, "--type", "q3_k_m", "-o", self.out)
        fresh, _ = self.convert(big, "--type", "q3_k_m", name="fresh.gguf")
        self.assertEqual(self.out.read_bytes(), fresh.read_bytes())
        self.assertEqual(self.names(), ["out.gguf"])


if __name__ == "__main__":
    support.main()

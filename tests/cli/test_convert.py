"""`convert`: folders to GGUF, other formats, and what it refuses; interrupted conversions go on."""
import json
import pathlib
import signal
import struct
import subprocess
import time

import gguf_edit
import support
from support import PROGRAM, ROOT, TINY_F16, TINY_Q8_0, TestCase

FAMILIES = ROOT / "tests" / "data" / "families"


class Convert(TestCase):
    def json(self, *arguments, **options):
        return json.loads(self.succeeds(*arguments, **options).text)

    def test_a_folder_becomes_a_file_that_runs(self):
        out = self.folder / "qwen3.gguf"
        said = self.succeeds("convert", FAMILIES / "qwen3", "--type", "q8_0", "-o", out)
        self.assertIn("qwen3.gguf: 36 tensors", said.text)
        facts = self.json("inspect", out, "--json")
        self.assertEqual(facts["metadata"]["general.architecture"], "qwen3")
        self.assertEqual(facts["metadata"]["general.name"], "qwen3")
        self.assertEqual(facts["metadata"]["general.file_type"], 7)
        self.assertEqual(facts["formats"]["Q8_0"], 20)  # a row of 48 is not a whole number of blocks
        self.succeeds("logits", out, "--tokens", "1,2,3", "--out", self.folder / "x.npy")
        self.assertEqual(list(self.folder.glob("*.partial*")), [])

    def test_the_default_name_is_that_of_the_model_and_the_type(self):
        said = self.json("convert", FAMILIES / "gpt2", "--type", "bf16", "--json", cwd=self.folder)
        self.assertEqual(said["path"], "gpt2-bf16.gguf")
        self.assertEqual(said["bytes"], (self.folder / "gpt2-bf16.gguf").stat().st_size)

    def test_nothing_is_replaced_without_force(self):
        out = self.folder / "model.gguf"
        out.write_text("precious")
        self.fails(2, "convert", TINY_F16, "-o", out, says="is there already")
        self.assertEqual(out.read_text(), "precious")
        self.succeeds("convert", TINY_F16, "--type", "q8_0", "-o", out, "--force")
        self.fails(2, "convert", out, "-o", out, "--force", says="is the model that is read")
        self.fails(2, "convert", TINY_F16, "-o", self.folder, "--force", says="is there, and is not a file")
        self.fails(1, "convert", TINY_F16, "-o", self.folder / "no" / "where.gguf", says="where.gguf")

    def test_unknown_types_are_listed(self):
        failed = self.fails(2, "convert", TINY_F16, "--type", "q9_9", says="'q9_9' is not known")
        self.assertIn(b"q4_k_m", failed.err)

    def test_quantizing_again_gives_a_warning(self):
        said = self.succeeds("convert", TINY_Q8_0, "--type", "q4_0", "-o", self.folder / "x.gguf")
        self.assertIn(b"quantized again", said.err)

    def test_the_same_model_again_gives_the_same_bytes(self):
        for name in ("a", "b"):
            self.succeeds("convert", FAMILIES / "gemma2", "--type", "f16", "-o", self.folder / name)
        self.assertEqual((self.folder / "a").read_bytes(), (self.folder / "b").read_bytes())

    def test_mixtures_have_the_fields_that_llama_cpp_requires(self):
        """Named as its src/llama-arch.cpp has them; tests/reference/compare_llama_families.py loads the files there."""
        lead, count, step = "leading_dense_block_count", "expert_shared_count", "interleave_moe_layer_step"
        width = "expert_shared_feed_forward_length"
        expected = {
            "dots1": {lead: 1, count: 2, step: 1},
            "glm4_moe": {lead: 1, count: 1, step: 1},
            "ernie4_5_moe": {lead: 1, width: 48, step: 1},
            "llama4_text": {lead: 1, step: 2, width: 20},
            "lfm2_moe": {lead: 1, width: None},
            "granitemoe": {lead: 0, count: 0, width: None},  # with a width llama.cpp asks for the tensors
            "granitemoeshared": {count: 1, width: 40},
            "phimoe": {"attention.layer_norm_rms_epsilon": 1e-5},
        }
        for name, fields in expected.items():
            out = self.folder / f"{name}.gguf"
            self.succeeds("convert", FAMILIES / name, "--type", "f32", "-o", out)
            metadata = self.json("inspect", out, "--json")["metadata"]
            prefix = metadata["general.architecture"] + "."
            for field, value in fields.items():
                found = metadata.get(prefix + field)
                self.assertEqual(round(found, 9) if isinstance(found, float) else found, value, f"{name}: {field}")

    def test_numbers_of_xielu_are_those_before_softplus(self):
        """As llama.cpp's converter writes them, of the folder's tensors, and its ggml_xielu reads them."""
        out = self.folder / "apertus.gguf"
        self.succeeds("convert", FAMILIES / "apertus", "--type", "f32", "-o", out)
        fields = gguf_edit.Gguf(out).fields
        self.assertEqual(fields[b"xielu.alpha_p"][1][1], [0.034912109375, 0.1572265625, 0.0419921875])
        self.assertEqual(fields[b"xielu.alpha_n"][1][1], [-1.0625, -1.0234375, -0.9765625])

    def test_files_by_llama_cpp_give_the_same_logits(self):
        """It writes YaRN's `mscale_all_dim` instead of a magnitude, and a bias in a row of a matrix."""
        def with_log_multiplier(file):
            del file.fields[b"mistral3.rope.scaling.attn_factor"]
            file.fields[b"mistral3.rope.scaling.yarn_log_multiplier"] = (gguf_edit.F32, 1.0)

        def with_row(file):
            bias = file.tensor("blk.1.exp_probs_b.bias")
            bias.shape = [*bias.shape, 1]

        for name, change in (("ministral3", with_log_multiplier), ("ernie4_5_moe", with_row)):
            out, changed = self.folder / f"{name}.gguf", self.folder / f"{name}-changed.gguf"
            self.succeeds("convert", FAMILIES / name, "--type", "f32", "-o", out)
            file = gguf_edit.Gguf(out)
            change(file)
            file.write(changed)
            logits = []
            for model in (out, changed):
                npy = self.folder / "x.npy"
                self.succeeds("logits", model, "--tokens", ",".join(map(str, range(1, 25))), "--out", npy)
                values = npy.read_bytes()[-24 * 96 * 4:]
                logits.append(struct.unpack(f"<{24 * 96}f", values))
            self.assertLess(max(abs(a - b) for a, b in zip(*logits)), 1e-4, name)

    def test_a_killed_conversion_goes_on(self):
        whole, out = self.folder / "whole.gguf", self.folder / "killed.gguf"
        source = FAMILIES / "gemma3"
        self.succeeds("convert", source, "--type", "q8_0", "-o", whole)
        for wait in (0.0, 0.02, 0.04, 0.08):
            process = subprocess.Popen([PROGRAM, "convert", source, "--type", "q8_0", "-o", out, "--threads", "1"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(wait)
            process.send_signal(signal.SIGKILL)
            process.wait()
            if out.exists():
                break
        if not out.exists():
            self.succeeds("convert", source, "--type", "q8_0", "-o", out)
        self.assertEqual(out.read_bytes(), whole.read_bytes())
        self.assertEqual(sorted(pathlib.Path(p).name for p in self.folder.iterdir()), ["killed.gguf", "whole.gguf"])


if __name__ == "__main__":
    support.main()

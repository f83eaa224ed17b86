"""Quantized folders of Hugging Face, and `--quantize`: inspect, convert, logits, and what is refused."""
import json
import shutil

import support
from support import ROOT, TestCase

QUANTIZED = ROOT / "tests" / "data" / "quantized"
QWEN3 = ROOT / "tests" / "data" / "families" / "qwen3"


class QuantizedFolders(TestCase):
    def json(self, *arguments, **options):
        return json.loads(self.succeeds(*arguments, **options).text)

    def test_inspect_shows_matrices_and_not_what_they_are_made_of(self):
        facts = self.json("inspect", QUANTIZED / "awq", "--json")
        self.assertEqual(facts["formats"]["AWQ 4-bit"], 7)
        self.assertEqual(sum(facts["formats"].values()), 7 + 7)

    def test_fit_counts_the_bytes_that_are_loaded(self):
        said = self.json("fit", QUANTIZED / "fp8_block", "--json")
        matrices, tables, norms = 5 * 128 * 128 + 2 * 64 * 128, 2 * 64 * 128, 3 * 128
        self.assertEqual(said["weight_bytes"], matrices * 36 // 32 + 2 * tables + 2 * norms)

    def test_symmetric_blocks_are_copied_by_convert(self):
        out = self.folder / "gptq.gguf"
        said = self.succeeds("convert", QUANTIZED / "gptq", "--type", "q4_0", "-o", out)
        self.assertNotIn(b"quantized again", said.err)
        self.assertEqual(self.json("inspect", out, "--json")["formats"]["Q4_0"], 8)  # embeddings too

    def test_other_forms_are_quantized_again_with_a_warning(self):
        out = self.folder / "nf4.gguf"
        said = self.succeeds("convert", QUANTIZED / "bitsandbytes_nf4", "--type", "q8_0", "-o", out)
        self.assertIn(b"quantized again", said.err)

    def test_a_warning_says_what_is_dequantized(self):
        model, out = QUANTIZED / "bitsandbytes_fp4", self.folder / "x.npy"
        said = self.succeeds("logits", model, "--tokens", "1,2", "--out", out)
        self.assertIn(b"7 FP4 matrices: as bf16, since its levels are not NF4's", said.err)

    def test_an_unknown_method_is_one_line(self):
        model = self.folder / "model"
        shutil.copytree(QUANTIZED / "awq", model)
        config = model / "config.json"
        config.write_text(config.read_text().replace('"awq"', '"quip"'))
        failed = self.fails(2, "inspect", model, says="quantization_config.quant_method 'quip' is not supported")
        self.assertIn(str(model).encode(), failed.err)

    def test_quantizing_while_loading_gives_the_logits_of_the_converted_file(self):
        converted = self.folder / "qwen3.gguf"
        self.succeeds("convert", QWEN3, "--type", "q8_0", "-o", converted)
        found = []
        for arguments in ((converted,), (QWEN3, "--quantize", "q8_0"), (QWEN3,)):
            out = self.folder / f"{len(found)}.npy"
            self.succeeds("logits", *arguments, "--tokens", "1,2,3", "--device", "cpu", "--out", out)
            found.append(out.read_bytes())
        self.assertEqual(found[0], found[1])
        self.assertNotEqual(found[0], found[2])

    def test_a_type_that_is_not_known_is_refused(self):
        self.fails(2, "logits", QWEN3, "--quantize", "q9", "--tokens", "1", "--out", self.folder / "x.npy",
                   says="--quantize: 'q9' is not known")
        self.fails(2, "logits", QWEN3, "--quantize", "nf4", "--tokens", "1", "--out", self.folder / "x.npy",
                   says="there is no encoder for nf4")


if __name__ == "__main__":
    support.main()

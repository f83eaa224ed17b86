"""`logits --trace` and `--step`, and `testgen --golden`, `--bisect`, `--engine`: Gabbro's blocks against f64."""
import datetime
import importlib.util
import json
import sys

import support
from support import TestCase

FAMILIES = support.ROOT / "tests" / "data" / "families"
GOLDEN = support.ROOT / "tests" / "data" / "golden"  # gabbro testgen tests/data/families/NAME --golden FILE


def load(path):
    """A Python file as a module."""
    spec = importlib.util.spec_from_file_location(f"file_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


read_npy = load(support.ROOT / "python" / "gabbro" / "testgen" / "golden.py").read_npy


class Golden(TestCase):
    def golden(self, model, file, *more):
        return support.gabbro("testgen", model, "--golden", file, "--python", sys.executable, *more)

    def in_f32(self, name):
        self.succeeds("convert", FAMILIES / name, "--type", "f32", "-o", self.folder / f"{name}.gguf")
        return self.folder / f"{name}.gguf"

    def test_blocks_of_two_families_are_those_of_transformers_in_f64(self):
        for name in ("llama", "gemma2"):
            for model, dtype in ((FAMILIES / name, "bf16"), (self.in_f32(name), "f32")):
                result = self.golden(model, GOLDEN / f"{name}.json", "--json")
                self.assertEqual(result.code, 0, result)
                rows = json.loads(result.text)["blocks"]
                self.assertEqual([row["block"] for row in rows][:2], ["embed", "layers.0"])
                self.assertEqual({row["dtype"] for row in rows}, {dtype})
                self.assertLess(max(row["ratio"] for row in rows), 1)

    def test_a_wrong_block_is_found(self):
        document = json.loads((GOLDEN / "llama.json").read_text())
        document["blocks"]["layers.1"]["values"][5] += 0.01
        result = self.golden(self.in_f32("llama"), self.file("wrong.json", json.dumps(document)))
        self.assertEqual(result.code, 1, result)
        self.assertEqual([line.split()[0] for line in result.text.splitlines() if "WRONG" in line], ["layers.1"])

    def test_bad_files_are_one_line(self):
        right = json.loads((GOLDEN / "llama.json").read_text())
        for field, value, says in (("format", "other", "not written by --golden"), ("tokens", [1, "2"], "field tokens"),
                                   ("tokens", [400], "400"), ("blocks", {}, "blocks"),
                                   ("blocks", {"embed": {"values": [1], "limits": [1]}}, "blocks.embed")):
            result = self.golden(FAMILIES / "llama", self.file("bad.json", json.dumps({**right, field: value})))
            self.assertEqual(result.code, 2, result)
            self.assertIn(says, result.err.decode())
            self.assertEqual(result.err.decode().count("\n"), 1)
        result = self.golden(self.folder, GOLDEN / "llama.json")
        self.assertEqual(result.code, 2, result)
        self.fails(2, "testgen", "--golden", "x.json", says="--golden")


class Trace(TestCase):
    def logits(self, *arguments):
        self.succeeds("logits", FAMILIES / "llama", "--tokens", "5,9,2,7,7", *arguments)

    def test_every_layer_is_written(self):
        self.logits("--trace", self.folder / "trace")
        self.logits("--out", self.folder / "plain.npy")
        shapes = {path.stem: read_npy(path)[0] for path in (self.folder / "trace").iterdir()}
        layers = {f"layers.{index}": (5, 32) for index in range(3)}
        self.assertEqual(shapes, {"embed": (5, 32), **layers, "logits": (5, 96)})
        traced, plain = (read_npy(self.folder / name)[1] for name in ("trace/logits.npy", "plain.npy"))
        self.assertLess(max(abs(a - b) for a, b in zip(traced, plain, strict=True)), 1e-4)

    def test_results_inside_of_layers_are_written(self):
        self.logits("--trace", self.folder / "all", "--operations", "all")
        shapes = {path.stem: read_npy(path)[0] for path in (self.folder / "all").iterdir()}
        for name in ("attn_norm", "mixer", "attn_residual", "ffn_norm", "ffn_output"):
            self.assertEqual(shapes[f"layers.0.{name}"], (5, 32), name)
        for name in ("attn_q", "rope_q", "attn_k", "rope_k", "attn_v", "attention", "ffn_up", "ffn_activation"):
            self.assertIn(f"layers.2.{name}", shapes)
        two = ("--operations", "attn_q", "--operations", "mixer")
        self.logits("--trace", self.folder / "two", *two)
        names = {path.stem for path in (self.folder / "two").iterdir()}
        self.assertEqual({n for n in names if n.startswith("layers.1.")}, {"layers.1.attn_q", "layers.1.mixer"})
        self.logits("--trace", self.folder / "one", "--operations", "attn_q", "--operations", "all")
        self.assertEqual({path.stem for path in (self.folder / "one").iterdir()}, set(shapes))
        layers = [read_npy(self.folder / folder / "layers.2.npy")[1] for folder in ("all", "two")]
        self.assertLess(max(abs(a - b) for a, b in zip(*layers, strict=True)), 1e-4)

    def test_steps_give_the_logits_of_one_pass(self):
        self.logits("--out", self.folder / "one.npy")
        one = read_npy(self.folder / "one.npy")
        for step in ("1", "2"):
            self.logits("--out", self.folder / "steps.npy", "--step", step)
            shape, values = read_npy(self.folder / "steps.npy")
            self.assertEqual(shape, one[0])
            self.assertLess(max(abs(a - b) for a, b in zip(values, one[1], strict=True)), 2**-8)  # weights in bf16

    def test_bad_usage(self):
        words = ["logits", FAMILIES / "llama", "--tokens", "1"]
        self.fails(2, *words, says="--trace")
        self.fails(2, *words, "--trace", self.folder, "--step", "1", says="--step")
        none = self.folder / "none"
        self.fails(2, *words, "--trace", none, "--operations", "attn_q", "--operations", "nonsense", says="'nonsense'")
        self.assertEqual(list(none.iterdir()), [])
        self.fails(2, *words, "--out", "-", "--operations", "all", says="--operations")
        self.fails(1, *words, "--trace", self.file("file", "x") / "sub", says="sub")


class Packs(TestCase):
    def pack(self, *arguments):
        self.succeeds("testgen", *arguments, "-o", self.folder / "pack")
        return self.folder / "pack"

    def test_parity_is_for_causal_models_and_the_engine_gabbro(self):
        names = {path.name for path in self.pack("llama", "--engine", "transformers,gabbro").rglob("*")}
        wanted = {"test_parity.py", "operations.py", "locate.py", "reproduce.py", "known.py", "known_faults.json"}
        self.assertLessEqual(wanted, names)
        self.assertFalse((self.pack("llama", "--engine", "transformers", "--force") / "test_parity.py").exists())
        self.fails(2, "testgen", "llama", "-o", self.folder / "other", "--engine", "nonsense", says="nonsense")

    def test_bisect_names_what_it_lacks(self):
        self.fails(2, "testgen", "--bisect", "test_layers[cpu-f32-tiny]", says="--bisect")
        result = support.gabbro("testgen", self.folder, "--bisect", "test_layers", "--python", sys.executable)
        self.assertEqual(result.code, 2, result)
        self.assertIn("locate.py", result.err.decode())

    def test_known_faults_match_by_card_version_check_and_dtype(self):
        pack = self.pack("vit")
        known = load(pack / "gabbro_testgen" / "known.py")
        rows = known.load(pack)
        facts = {"gfx": "gfx1100", "hip": "6.4.1", "transformers": "5.24.0", "type": "vit"}
        repeat = known.matching(rows, "test_repeat[cuda:0-bf16-tiny]", facts)
        self.assertTrue(any("6416" in line for line in repeat), repeat)
        self.assertEqual(known.matching(rows, "test_repeat[cuda:0-f32-tiny]", facts), [])
        self.assertEqual(known.matching(rows, "test_repeat[cuda:0-bf16-tiny]", {**facts, "gfx": "gfx942"}), [])
        attention = "test_attention[cuda:0-f32-tiny-sdpa]"
        self.assertFalse(any("147460" in line for line in known.matching(rows, attention, facts)))
        self.assertTrue(any("147460" in line for line in known.matching(rows, attention, {**facts, "hip": "6.2.0"})))

    def test_a_known_fault_of_attention_is_one_failure(self):
        # SDPA leaves out gemma2's softcap up to 5.17: test_attention shows it, the other tests take eager attention.
        pack = self.pack("gemma2", "--checks", "layers")
        known = load(pack / "gabbro_testgen" / "known.py")
        rows = known.load(pack)
        facts = {"gfx": "", "hip": None, "transformers": "5.17.0", "type": "gemma2"}
        [line] = known.avoided(rows, facts)
        self.assertRegex(line, r"^eager attention in place of sdpa: .*softcapping")
        self.assertEqual(known.avoided(rows, {**facts, "transformers": "5.24.0"}), [])
        self.assertTrue(known.matching(rows, "test_attention[cuda:0-f32-tiny-sdpa]", facts))
        self.assertEqual(known.matching(rows, "test_layers[cuda:0-f32-tiny-lively]", facts), [])
        self.assertEqual(known.avoided(known.load(self.pack("vit", "--force")), {**facts, "type": "vit"}), [])

    def test_known_faults_are_stale_where_their_tests_pass_and_after_their_day(self):
        pack = self.pack("vit")
        known = load(pack / "gabbro_testgen" / "known.py")
        rows = known.load(pack)
        facts = {"gfx": "gfx1032", "hip": "7.0.0", "transformers": "5.24.0", "type": "vit"}
        today, later = datetime.date(2026, 11, 26), datetime.date(2036, 1, 1)
        passed = [{"test": "test_probe[cuda:0-bf16-gemm]", "status": "passed"}]
        failed = [{"test": "test_probe[cuda:0-bf16-gemm]", "status": "crashed"}, *passed]
        self.assertEqual(len(known.stale(rows, facts, passed, today)), 1)
        self.assertEqual(known.stale(rows, facts, failed, today), [])
        self.assertEqual(known.stale(rows, {**facts, "gfx": "gfx1100"}, [], today), [])
        self.assertEqual(len(known.stale(rows, facts, failed, later)), len(rows))

    def test_an_overdue_known_fault_fails_verify(self):
        pack = self.pack("vit")
        words = ["testgen", "--verify", pack, "--devices", "cpu", "--python", sys.executable]
        self.assertEqual(support.gabbro(*words).code, 0)
        rows = json.loads((pack / "known_faults.json").read_text())
        rows[0]["until"] = "2020-01-01"
        (pack / "known_faults.json").write_text(json.dumps(rows))
        result = support.gabbro(*words)
        self.assertEqual(result.code, 1, result)
        self.assertIn(f"{rows[0]['link']}: to be looked at again", result.text)

    def test_every_known_fault_has_a_reason_a_link_and_a_day(self):
        rows = json.loads((support.ROOT / "src" / "testgen" / "data" / "known_faults.json").read_text())["rows"]
        fields = {"gfx", "hip", "transformers", "dtypes", "types", "checks", "attention", "reason", "link", "until"}
        for row in rows:
            self.assertLessEqual(set(row), fields)
            self.assertTrue(row["checks"] and row["reason"] and row["link"].startswith("https://github.com/"), row)
            self.assertTrue({"gfx", "hip", "transformers"} & set(row), row)
            datetime.date.fromisoformat(row["until"])


if __name__ == "__main__":
    support.main()

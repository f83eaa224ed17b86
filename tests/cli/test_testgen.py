"""`testgen`: packs are written whole and alike, stand alone, and bad input is one line."""
import ast
import json
import re
import sys
import time
import zlib

import support
from support import SANITIZED, TestCase, gabbro

TREES = support.TREES
# Forbidden in generated files: replacements for a missing device, hidden errors, names of models on the hub.
FORBIDDEN = re.compile(r"\bmock|except:|except Exception|hasattr\(torch\.version|bert-base|meta-llama|huggingface\.co/[a-z]", re.I)
LEAST_RECORDED = 75  # rows of recorded.json that are of a type's default class
LONGEST = 600  # lines of Python in a pack
MOST_BYTES = 30 << 20  # of the packs of all types
SHARED = "gabbro_testgen"
HOSTILE = {"model_type": "llama\"\n'''import os", "architectures": ["X'''"]}


def longest_function(text):
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return max((node.end_lineno - node.lineno + 1 for node in nodes), default=0)


class Packs(TestCase):
    def pack(self, *arguments, name="pack"):
        self.succeeds("testgen", *arguments, "-o", self.folder / name)
        return {path.name: path.read_text() for path in sorted((self.folder / name).rglob("*")) if path.is_file()}

    def lines_of(self, folder):
        """Lines of Python that a pack has besides the code that packs share."""
        return sum(len(path.read_text().splitlines()) for path in folder.glob("*.py"))

    def test_a_pack_is_plain_python_and_the_same_again(self):
        files = self.pack("llama")
        self.assertEqual(files, self.pack("llama", name="again"))
        for name in ("case.py", "support.py", "conftest.py", "machine.py", "endpoint.py", "inputs.py", "test_layers.py",
                     "test_properties.py", "test_generate.py", "README.md", "tiny.json", "model.json", "exceptions.json"):
            self.assertIn(name, files)
        for name, text in files.items():
            self.assertNotRegex(text, FORBIDDEN, name)
            if name.endswith(".py"):
                self.assertLessEqual(longest_function(text), 40, name)
        self.assertLess(self.lines_of(self.folder / "pack"), LONGEST)
        self.assertEqual(json.loads(files["tiny.json"])["hidden_size"], 64)
        self.assertEqual(json.loads(files["tiny.json"])["num_hidden_layers"], 2)

    def test_every_type_gives_a_pack_or_one_line(self):
        types = [row["name"] for row in json.loads(self.succeeds("testgen", "--list", "types", "--json").text)["types"]]
        started = time.monotonic()
        document = json.loads(self.succeeds("testgen", "--all", "-o", self.folder / "all", "--json").text)
        self.assertLess(time.monotonic() - started, 600 if SANITIZED else 60)
        made, skipped = document["types"], document["skipped"]
        self.assertGreaterEqual(len(types), 718)
        self.assertEqual(sorted([row["type"] for row in made] + [row["type"] for row in skipped]), sorted(types))
        self.assertGreaterEqual(len(made), 550)
        for row in skipped:
            self.assertNotIn("\n", row["reason"])
        self.check_recorded(made)
        folders = sorted(path.parent for path in (self.folder / "all").glob("*/case.py"))
        self.assertEqual(sorted(path.name for path in (self.folder / "all").iterdir() if path not in folders), [SHARED])
        self.assertLess(max(map(self.lines_of, folders)), LONGEST)
        size = sum(path.stat().st_size for path in (self.folder / "all").rglob("*"))
        self.assertLess(size, MOST_BYTES)
        texts = [path.read_text() for folder in folders[::50] for path in folder.glob("*.py")]
        for text in texts + [(folder / "inputs.py").read_text() for folder in folders]:
            self.assertLessEqual(longest_function(text), 40, text[:80])
            self.assertNotRegex(text, FORBIDDEN)

    def check_recorded(self, made):
        """Recorded values are of the configuration that the pack has; another one would skip them without a word."""
        rows = 0
        for row in made:
            recorded = self.folder / "all" / row["type"] / "recorded.json"
            if recorded.exists():
                rows += 1
                self.assertLessEqual(recorded.stat().st_size, 20 << 10, row["type"])
                tiny = (self.folder / "all" / row["type"] / "tiny.json").read_bytes()
                self.assertEqual(json.loads(recorded.read_text())["config"], zlib.crc32(tiny), row["type"])
        self.assertGreaterEqual(rows, LEAST_RECORDED)

    def test_recorded_values_are_of_defaults(self):
        self.assertIn("values", json.loads(self.pack("llama")["recorded.json"]))
        of_seed = json.loads(self.pack("llama", "--seed", "1", name="seed")["recorded.json"])
        self.assertNotIn("values", of_seed)  # which depend on the seed, as the ceilings of errors do not
        self.assertIn("errors", of_seed)
        result = self.succeeds("testgen", "llama", "--task", "token-classification", "-o", self.folder / "other")
        self.assertIn("no recorded values", result.err.decode())
        self.assertIn("no recorded values", (self.folder / "other" / "README.md").read_text())

    def test_configurations_of_files_folders_and_lists(self):
        config = {"model_type": "llama", "architectures": ["LlamaForSequenceClassification"], "hidden_size": 256,
                  "num_hidden_layers": 5, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000,
                  "eos_token_id": [999, 2]}
        path = self.file("config.json", json.dumps(config))
        files = self.pack(path, name="file")
        self.assertEqual(files, self.pack(self.folder, name="folder"))
        self.assertIn("LlamaForSequenceClassification", files["case.py"])
        tiny = json.loads(files["tiny.json"])
        self.assertEqual((tiny["num_attention_heads"], tiny["num_key_value_heads"], tiny["vocab_size"]), (4, 2, 512))
        self.assertEqual(tiny["eos_token_id"], [511, 2])
        self.assertNotIn("test_generate.py", files)
        names = self.file("list", "# a comment\nllama\nbert\n")
        self.succeeds("testgen", "--from", names, "-o", self.folder / "several")
        self.assertEqual(sorted(p.name for p in (self.folder / "several").iterdir()), ["bert", SHARED, "llama"])
        self.assertFalse((self.folder / "several" / "llama" / SHARED).exists())

    def test_shared_code_of_another_version_is_replaced_with_force(self):
        shared = self.folder / "out" / SHARED / "plugin.py"
        self.succeeds("testgen", "llama", "bert", "-o", self.folder / "out")
        self.succeeds("testgen", "t5", "gpt2", "-o", self.folder / "out")
        text = shared.read_text()
        shared.write_text(text + "# another version\n")
        self.fails(2, "testgen", "vit", "opt", "-o", self.folder / "out", says="another version")
        self.succeeds("testgen", "vit", "opt", "-o", self.folder / "out", "--force")
        self.assertEqual(shared.read_text(), text)

    def test_the_engine_gabbro_is_for_its_families(self):
        files = self.pack("llama", name="llama")
        self.assertIn("test_parity.py", files)
        self.assertIn("GABBRO_PROGRAM", files["README.md"])
        self.assertNotIn("test_parity.py", self.pack("llama", "--engine", "transformers", name="other"))
        files = self.pack("bert", name="bert")
        self.assertNotIn("test_parity.py", files)
        self.assertNotIn("GABBRO_PROGRAM", files["README.md"])

    def test_models_of_two_towers_are_tested_as_a_whole(self):
        files = self.pack("clip")
        self.assertIn('MODEL_CLASS = "CLIPModel"', files["case.py"])
        self.assertIn("def test_similarity", files["test_layers.py"])

    def test_cards_have_heads_of_the_real_size(self):
        files = self.pack("llama")
        self.assertIn('CARD_SIZES = ["heads"]', files["case.py"])
        tiny, heads = (json.loads(files[f"{name}.json"]) for name in ("tiny", "heads"))
        self.assertEqual((heads["hidden_size"], heads["num_attention_heads"]), (512, 4))
        self.assertEqual(heads["intermediate_size"], tiny["intermediate_size"])
        for name, arguments in (("asked", ["llama", "--size", "tiny"]), ("without", ["mamba"])):
            files = self.pack(*arguments, name=name)
            self.assertIn("CARD_SIZES = []", files["case.py"])
            self.assertNotIn("heads.json", files)

    def test_true_size_keeps_widths(self):
        files = self.pack("llama", "--size", "tiny,true")
        true = json.loads(files["true.json"])
        self.assertEqual((true["num_hidden_layers"], true["hidden_size"], true["vocab_size"]), (2, 4096, 32000))

    def test_an_unknown_type_goes_by_its_class(self):
        path = self.file("config.json", json.dumps({"model_type": "new_one", "architectures": ["NewOneForCausalLM"]}))
        result = self.succeeds("testgen", path, "-o", self.folder / "pack")
        self.assertIn("follows from the name of its class", result.err.decode())
        self.assertIn("AutoModelForCausalLM", (self.folder / "pack" / "case.py").read_text())

    def test_checks_are_chosen(self):
        files = self.pack("llama", "--checks", "layers,causal")
        self.assertIn("def test_causal", files["test_properties.py"])
        self.assertNotIn("def test_repeat", files["test_properties.py"])
        self.assertNotIn("test_memory.py", files)
        self.assertNotIn("def test_padding", self.pack("llama", "--without", "padding", name="b")["test_properties.py"])

    def test_bad_input_is_one_line(self):
        out = self.folder / "out"
        self.fails(2, "testgen", "no-such-model", "-o", out, says="no-such-model")
        self.fails(2, "testgen", "llama", says="-o")
        self.fails(2, "testgen", "-o", out, says="--all")
        self.fails(2, "testgen", "llama", "-o", out, "--checks", "nonsense", says="nonsense")
        self.fails(2, "testgen", "llama", "-o", out, "--size", "huge", says="huge")
        self.fails(2, "testgen", "llama", "-o", out, "--task", "ctc", says="causal-lm")
        self.fails(2, "testgen", "llama", "-o", out, "--devices", "tpu", says="tpu")
        self.fails(2, "testgen", "llama", "-o", out, "--lengths", "0", says="0")
        for name, text in (("a", "{"), ("b", "[]"), ("c", "{}"), ("d", json.dumps(HOSTILE)), ("e", '{"model_type": 3}'),
                           ("f", '{"model_type": "llama", "architectures": ["a b"]}'),
                           ("g", '{"model_type": "llama", "hidden_size": 18446744073709551615}')):
            self.fails(2, "testgen", self.file(f"{name}.json", text), "-o", out, says=f"{name}.json")
        self.assertFalse(out.exists())

    def test_values_cannot_become_code(self):
        config = {"model_type": "llama", "hidden_act": "'''\nimport os\n\"\"\"", "x\"'\\\n{{ 1 }}": "{% raw %}\\", "auto_map": {"a": "b"}}
        files = self.pack(self.file("config.json", json.dumps(config)))
        for name, text in files.items():
            if name.endswith(".py"):
                self.assertNotIn("import os\n\"", text)
                ast.parse(text)
        self.assertEqual(json.loads(files["model.json"]), config)
        self.assertNotIn("trust_remote_code", "".join(files.values()))

    def test_folders_in_the_way(self):
        self.pack("llama")
        self.fails(2, "testgen", "llama", "-o", self.folder / "pack", says="--force")
        self.succeeds("testgen", "llama", "-o", self.folder / "pack", "--force")
        (self.folder / "other").mkdir()
        mine = self.folder / "other" / "mine.txt"
        mine.write_text("x")
        self.fails(2, "testgen", "llama", "-o", self.folder / "other", "--force", says="no pack")
        self.assertEqual(mine.read_text(), "x")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["other", "pack"])

    def test_lists(self):
        for what, word in (("tasks", "causal-lm"), ("checks", "layers"), ("families", "decoder-only")):
            self.assertIn(word, self.succeeds("testgen", "--list", what).text)


class Endpoints(TestCase):
    def test_each_task_has_its_handlers(self):
        for kind, task in (("llama", "text_generation"), ("bert", "fill_mask"), ("vit", "image_classification"),
                           ("whisper", "audio_to_text"), ("t5", "translation"), ("detr", "object_detection")):
            self.succeeds("testgen", kind, "-o", self.folder / kind)
            text = (self.folder / kind / "endpoint.py").read_text()
            names = {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
            self.assertLessEqual({"init_cpu", "init_cuda", "init_rocm"}, names)
            for hardware in ("cpu", "cuda", "rocm"):
                self.assertIn(f"create_{hardware}_{task}_endpoint_handler", names)


class Running(TestCase):
    def test_detection_without_torch_names_the_broken_link(self):
        # Neither this machine's cards nor its torch count: a module of that name that cannot be found stands before it.
        (self.folder / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
        environment = {"GABBRO_SYSFS_ROOT": str(TREES / "no_driver"), "PYTHONPATH": str(self.folder)}
        result = gabbro("testgen", "--detect", "--json", "--python", sys.executable, environment=environment)
        found = json.loads(result.text)
        self.assertEqual((found["verdict"], found["link"]), ("cpu", "driver"))
        self.assertEqual(found["torch"]["error"], "torch is not installed")
        result = gabbro("testgen", "--detect", "--require", "rocm", "--python", sys.executable, environment=environment)
        self.assertEqual(result.code, 3, result)

    def test_a_missing_python_or_pack_is_an_error(self):
        self.fails(2, "testgen", "--run", says="--run")
        result = gabbro("testgen", "--run", self.folder, "--python", sys.executable)
        self.assertEqual(result.code, 2, result)
        self.fails(2, "testgen", "--detect", "--python", "/nonexistent/python", says="/nonexistent/python")


if __name__ == "__main__":
    support.main()

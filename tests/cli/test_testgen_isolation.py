"""`testgen --run`: a test that ends its process, hangs or takes all memory has failed, and the others run.

One cause is one failure, and several packs run in one pytest.
"""
import contextlib
import importlib.util
import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import time
import unittest

import support
from support import TestCase, gabbro

PYTHON = os.environ.get("GABBRO_TEST_PYTHON", sys.executable)  # one with torch, transformers and pytest
HAS_TOOLS = sys.executable != PYTHON or all(map(importlib.util.find_spec, ("torch", "transformers", "pytest")))
MEMORY = pathlib.Path("/sys/fs/cgroup/memory")  # of cgroup v1; the other one has its limits next to the processes
LIMIT = 3 << 29

# Each ends as its name says; {folder} is for what the checks need to know.
TESTS = '''
import ctypes
import os
import sys
import time


def test_before() -> None:
    pass


def test_abort() -> None:
    os.abort()


def test_segfault() -> None:
    ctypes.string_at(0)


def test_loop() -> None:
    while True:
        pass


def test_exit() -> None:
    os._exit(0)


def test_sys_exit() -> None:
    sys.exit(0)


def test_fork() -> None:
    os.fork()


def test_fork_and_leave() -> None:
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    with open("{folder}/left", "w") as file:
        file.write(str(child))


def test_fork_and_crash() -> None:
    if os.fork() == 0:
        os.abort()
    os.wait()


def test_allocate_all() -> None:
    assert "{limited}", "memory has no limit here"
    blocks = []
    while True:
        blocks.append(b"x" * (64 << 20))


def test_after() -> None:
    pass
'''
CRASHED = {"abort": "crashed: signal 6 (SIGABRT)", "segfault": "crashed: signal 11 (SIGSEGV)",
           "exit": "ended the process with exit code 0",
           "allocate_all": "crashed: signal 9 (SIGKILL), which the system sends where memory is exhausted"}
PASSED = ("before", "fork", "fork_and_leave", "fork_and_crash", "after")


@contextlib.contextmanager
def limited_memory():
    """A folder for processes that have LIMIT bytes together; None where it may not be made."""
    group = MEMORY / f"gabbro_testgen_{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(LIMIT))
    except OSError:
        yield None
        return
    yield group
    for _ in range(50):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)


@unittest.skipUnless(HAS_TOOLS, "no torch, transformers and pytest here: GABBRO_TEST_PYTHON names an interpreter")
class Isolation(TestCase):
    def python_in(self, group):
        """A program that starts Python in a group of limited memory."""
        program = self.folder / "python"
        enter = f"echo $$ > '{group}/cgroup.procs' || exit 9\n" if group else ""
        program.write_text(f"#!/bin/sh\n{enter}exec '{PYTHON}' \"$@\"\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return program

    def test_each_ends_as_itself_and_the_others_run(self):
        pack = self.folder / "pack"
        self.succeeds("testgen", "llama", "-o", pack, "--checks", "causal", "--dtypes", "f32")
        with limited_memory() as group:
            text = TESTS.replace("{folder}", str(self.folder)).replace("{limited}", "yes" if group else "")
            (pack / "test_ending.py").write_text(text)
            result = gabbro("testgen", "--run", pack, "--devices", "cpu", "--limit", "20", "--json",
                            "--python", self.python_in(group))
        self.assertEqual(result.code, 1, result)
        rows = {row["test"].removeprefix("test_"): row for row in json.loads(result.text)["results"]}
        self.assertEqual([rows[name]["status"] for name in PASSED], ["passed"] * len(PASSED), rows)
        self.assertEqual(rows["causal[cpu-f32-tiny]"]["status"], "passed")
        self.assertEqual(rows["loop"]["status"], "timeout")
        self.assertIn("did not end in 20 s", rows["loop"]["reason"])
        self.assertEqual(rows["sys_exit"]["status"], "failed")
        self.assertIn("SystemExit", rows["sys_exit"]["reason"])
        for name, words in CRASHED.items():
            if group or name != "allocate_all":
                self.assertEqual(rows[name]["status"], "crashed", rows[name])
                self.assertIn(words, rows[name]["reason"])
        self.assertEqual(len(rows), 1 + len(PASSED) + len(CRASHED) + 2)
        left = int((self.folder / "left").read_text())
        self.assertFalse(pathlib.Path(f"/proc/{left}/cmdline").exists() and b"python" in
                         pathlib.Path(f"/proc/{left}/cmdline").read_bytes(), "a child is left")


@unittest.skipUnless(HAS_TOOLS, "no torch, transformers and pytest here: GABBRO_TEST_PYTHON names an interpreter")
class Packs(TestCase):
    def pack(self, *types, checks, dtypes="f32"):
        self.succeeds("testgen", *types, "-o", self.folder / "pack", "--checks", checks, "--dtypes", dtypes)
        return self.folder / "pack"

    def results(self, pack):
        result = gabbro("testgen", "--run", pack, "--devices", "cpu", "--json", "--python", PYTHON)
        return result.code, json.loads(result.text)["results"]

    def test_several_run_in_one_pytest(self):
        pack = self.pack("llama", "bert", checks="recorded,finite")
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        for words in ([], ["--no-isolate"], ["llama", "bert", "--device", "cpu"]):
            done = subprocess.run([PYTHON, "-m", "pytest", "-q", *(words or ["."])], cwd=pack, env=environment,
                                  capture_output=True, text=True, check=False)
            if words == ["--no-isolate"]:  # an option of a conftest.py that pytest has not read yet
                self.assertEqual(done.returncode, 4, done.stdout)
                continue
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("6 passed", done.stdout)
            self.assertIn("llama: transformers", done.stdout)
            self.assertIn("bert: transformers", done.stdout)

    def test_packs_with_shared_code_of_their_own_run_in_one_pytest(self):
        for kind in ("llama", "bert"):
            self.succeeds("testgen", kind, "-o", self.folder / "alone" / kind, "--checks", "recorded", "--dtypes", "f32")
            self.assertTrue((self.folder / "alone" / kind / "gabbro_testgen" / "plugin.py").is_file())
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        done = subprocess.run([PYTHON, "-m", "pytest", "-q", "."], cwd=self.folder / "alone", env=environment,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("4 passed", done.stdout)

    def collected(self, pack, *words):
        """(exit code, ids of the tests, what was said) of pytest --collect-only, as if the machine had a card."""
        (pack / "gabbro_testgen" / "machine.py").write_text(
            'def detect():\n    card = {"index": 0, "link": "none", "gfx": ""}\n'
            '    return {"verdict": "cuda", "reason": "", "cards": [card]}\n')
        done = subprocess.run([PYTHON, "-m", "pytest", "-q", "--collect-only", *words], cwd=pack, capture_output=True,
                              text=True, check=False, env={**os.environ, "HF_HUB_OFFLINE": "1"})
        return done.returncode, re.findall(r"\[(.*)\]$", done.stdout, re.MULTILINE), done.stdout + done.stderr

    def test_sizes_of_cards_are_not_tested_on_the_cpu_next_to_one(self):
        pack = self.pack("vit", checks="end_to_end")
        cases = [f"{device}-f32-{size}-{regime}" for device, size in
                 (("cpu", "tiny"), ("cuda:0", "tiny"), ("cuda:0", "heads")) for regime in ("lively", "faint")]
        self.assertEqual(self.collected(pack, "--device", "all")[:2], (0, cases))
        self.assertEqual(self.collected(pack, "--device", "cpu")[:2], (0, cases[:2]))
        on_cpu = [case.replace("tiny", "heads") for case in cases[:2]]
        self.assertEqual(self.collected(pack, "--device", "cpu", "--size", "heads")[:2], (0, on_cpu))

    def test_a_size_that_the_pack_lacks_is_one_line(self):
        pack = self.pack("vit", checks="end_to_end")
        code, _, said = self.collected(pack, "--device", "cpu", "--size", "tiny,hedas")
        self.assertEqual(code, 4, said)
        self.assertIn("ERROR: vit: --size hedas: this pack has tiny, heads, full; gabbro testgen --size writes", said)
        self.assertNotIn("Traceback", said)

    def test_a_pack_without_the_tiny_size_has_no_recorded_values(self):
        self.succeeds("testgen", "vit", "-o", self.folder / "pack", "--checks", "recorded,layers,probe",
                      "--dtypes", "bf16", "--size", "heads")
        code, rows = self.results(self.folder / "pack")
        self.assertEqual(code, 0, rows)
        words = {row["test"]: (row["status"], row["reason"]) for row in rows}
        self.assertEqual(words["test_recorded[lively]"][0], "skipped")
        self.assertIn("size tiny, which this pack does not have", words["test_recorded[lively]"][1])
        self.assertEqual(words["test_layers[cpu-bf16-heads-lively]"][0], "passed")
        self.assertEqual(words["test_probe[cpu-bf16-attention]"][0], "passed")

    def test_ceilings_of_parts_are_for_models_without_a_row(self):
        config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "vocab_size": 1000,
                  "num_hidden_layers": 5, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 500}
        pack = self.pack(self.file("config.json", json.dumps(config)), checks="layers", dtypes="bf16")
        self.assertFalse((pack / "recorded.json").exists())
        self.assertTrue(json.loads((pack / "ceilings.json").read_text()))
        (pack / "ceilings.json").write_text(json.dumps({"f32": 1e-10, "bf16": 1e-10}))
        code, rows = self.results(pack)
        self.assertEqual(code, 1)
        [words] = [row["reason"] for row in rows if row["status"] == "failed"]
        self.assertIn("first wrong block: model.norm.output in bf16", words)
        self.assertIn("in any recorded model", words)

    def test_a_model_that_cannot_be_built_is_one_failure(self):
        pack = self.pack("llama", checks="finite,batch,causal,recorded")
        config = json.loads((pack / "tiny.json").read_text())
        (pack / "tiny.json").write_text(json.dumps({**config, "hidden_act": "no_such_function"}))
        code, rows = self.results(pack)
        self.assertEqual(code, 1)
        failed = [row for row in rows if row["status"] == "failed"]
        self.assertEqual(len(failed), 1, rows)
        self.assertIn("no_such_function", failed[0]["reason"])
        self.assertEqual({row["status"] for row in rows} - {"failed"}, {"skipped"}, rows)

    def test_recorded_values_name_the_block(self):
        pack = self.pack("llama", checks="recorded,layers")
        row = json.loads((pack / "recorded.json").read_text())
        row["values"]["lively"]["model.layers.1"][1] *= 1.001
        row["errors"]["model.layers.0.output"]["f32"] = 1e-9
        (pack / "recorded.json").write_text(json.dumps(row))
        code, rows = self.results(pack)
        self.assertEqual(code, 1)
        words = {row["test"]: row["reason"] for row in rows if row["status"] == "failed"}
        self.assertEqual(set(words), {"test_layers[cpu-f32-tiny-lively]", "test_recorded[lively]"})
        self.assertIn("first wrong block: model.layers.1, in f64 on the CPU", words["test_recorded[lively]"])
        self.assertIn("first wrong block: model.layers.0.output in f32", words["test_layers[cpu-f32-tiny-lively]"])

    def test_older_libraries_are_refused(self):
        pack = self.pack("llama", checks="finite")
        text = (pack / "case.py").read_text()
        (pack / "case.py").write_text(re.sub(r"TRANSFORMERS = .*", 'TRANSFORMERS = ("99.1", "99.2")', text))
        code, rows = self.results(pack)
        self.assertEqual(code, 1)
        self.assertEqual(len(rows), 1, rows)
        self.assertIn("is older than 99.1", rows[0]["reason"])


if __name__ == "__main__":
    support.main()

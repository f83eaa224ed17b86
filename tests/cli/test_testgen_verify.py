"""`testgen --verify`: what is wrong in a pack is found by its stage; tools that are missing are a line; it goes on."""
import importlib.util
import json
import os
import shutil
import stat
import sys
import unittest

import support
from support import SANITIZED, TestCase, gabbro

PYTHON = os.environ.get("GABBRO_TEST_PYTHON", sys.executable)  # one with torch, transformers, pytest and mypy
HAS_TOOLS = PYTHON != sys.executable or all(map(importlib.util.find_spec, ("torch", "transformers", "pytest", "mypy")))
STAGES = ("parse", "types", "collect", "run", "rows")


class Verify(TestCase):
    def setUp(self):
        super().setUp()
        self.bare = self.folder / "python"  # an interpreter without any package
        self.bare.write_text(f"#!/bin/sh\nexec '{sys.executable}' -I -S \"$@\"\n")
        self.bare.chmod(self.bare.stat().st_mode | stat.S_IXUSR)

    def pack(self, name, *options, kind="llama"):
        self.succeeds("testgen", kind, "-o", self.folder / "packs" / name, *options)
        return self.folder / "packs" / name

    def verify(self, *words, python=None):
        result = gabbro("testgen", "--verify", *words, "--devices", "cpu", "--json", "--python", python or self.bare)
        self.assertIn(result.code, (0, 1), result)
        document = json.loads(result.text)
        self.assertEqual(result.code, int(bool(document["problems"])), result)
        return document, result.err.decode()


class WithoutTools(Verify):
    def test_a_tool_that_is_missing_is_one_line(self):
        self.pack("llama")
        document, said = self.verify(self.folder / "packs")
        for name in ("mypy", "torch", "transformers", "pytest"):
            [line] = [line for line in said.splitlines() if f"has no {name}:" in line]
            self.assertIn("not checked: ", line)
        self.assertEqual(document["table"]["parse"], {"ok": 1, "wrong": 0, "skipped": 0, "left": 0})
        for stage in ("types", "collect", "run"):
            self.assertEqual(document["table"][stage], {"ok": 0, "wrong": 0, "skipped": 1, "left": 0})
        self.assertIn("llama: types: needs mypy, torch", document["skipped"])
        # Known faults have a day, which needs no tool; a type with exceptions needs torch.
        self.assertEqual(document["table"]["rows"]["ok"], 1)
        self.pack("roberta", "--task", "causal-lm", kind="roberta")
        document, _ = self.verify(self.folder / "packs" / "roberta")
        self.assertIn("roberta: rows: exceptions need torch, transformers, pytest", document["skipped"])

    def test_files_that_do_not_parse_or_hide_failures(self):
        hidden = "def f():\n    try:\n        g()\n    except:\n        pass\n"
        for name, file, text in (("syntax", "case.py", "X = (\n"), ("nul", "inputs.py", "\0"),
                                 ("long", "test_layers.py", "def f():\n" + "    x = 1\n" * 40),
                                 ("hidden", "gabbro_testgen/helpers.py", hidden)):
            path = self.pack(name) / file
            path.write_text(path.read_text() + text)
        document, _ = self.verify(self.folder / "packs")
        found = {line.split(": ")[0]: line for line in document["problems"]}
        self.assertEqual(sorted(found), ["hidden", "long", "nul", "syntax"])
        self.assertIn("syntax: parse: case.py: ", found["syntax"])
        self.assertIn("f is longer than 40 lines", found["long"])
        self.assertIn("has 'except:'", found["hidden"])
        self.assertIn("syntax: types: not reached", document["skipped"])

    def test_types_of_a_family_are_rendered_first(self):
        document, _ = self.verify("--family", "state-space")
        render = document["table"]["render"]
        self.assertGreater(render["ok"], 3)
        self.assertEqual((render["wrong"], render["ok"]), (0, document["packs"]))
        self.assertEqual(document["table"]["parse"]["ok"], document["packs"])
        reasons = [line for line in document["skipped"] if ": render: " in line]
        self.assertEqual(len(reasons), render["skipped"])

    def test_a_table_ends_the_text(self):
        result = gabbro("testgen", "--verify", "--from", self.file("list", "llama\nevolla_sat\n"), "--devices", "cpu",
                        "--python", self.bare)
        self.assertEqual(result.code, 0, result)
        rows = [line.split() for line in result.text.splitlines()[-7:-1]]
        self.assertEqual([row[0] for row in rows], ["render", *STAGES])
        self.assertEqual(result.text.splitlines()[-1], "1 packs verified")

    def test_a_second_call_goes_on(self):
        out = self.folder / "out"
        first, said = self.verify("-o", out, "--seconds", "1")
        total = first["packs"]
        self.assertGreater(total, 550)
        self.assertIn(f"/{total}] ", said)
        self.assertEqual(first["left"], total - first["table"]["parse"]["ok"])
        if not SANITIZED:  # where a file takes longer, too, no more is done in a second
            self.assertLess(first["left"], total)
        self.assertGreater(first["left"], 0)
        again, said = self.verify("-o", out, "--seconds", "1")
        self.assertIn(f"{total - first['left']} of {total} packs were checked before", said)
        self.assertLess(again["left"], first["left"])

    def test_packs_that_change_are_checked_again(self):
        self.pack("bert", kind="bert")
        path, out = self.pack("llama") / "case.py", ("-o", self.folder / "out")
        self.verify(self.folder / "packs", *out)
        text = path.read_text()
        path.write_text(text + "X = (\n")
        document, said = self.verify(self.folder / "packs", *out)
        self.assertIn("1 of 2 packs were checked before", said)
        self.assertEqual([line.split(": ")[0] for line in document["problems"]], ["llama"])
        # The line of a pack that was cut off counts as none.
        journal = self.folder / "out" / "verified.jsonl"
        journal.write_text(journal.read_text()[:-40])
        path.write_text(text)
        document, said = self.verify(self.folder / "packs", *out)
        self.assertEqual((document["problems"], document["packs"]), ([], 2))
        self.assertNotIn("checked before", self.verify(self.folder / "packs", *out, "--force")[1])

    def test_bad_usage(self):
        self.pack("llama")
        self.fails(2, "testgen", "--verify", "--all", self.folder / "packs", says="--all")
        self.fails(2, "testgen", "--verify", self.folder / "nothing", "--python", self.bare, says="nothing")
        self.fails(2, "testgen", "--verify", "--family", "nonsense", says="nonsense")


@unittest.skipUnless(HAS_TOOLS, "no torch, transformers, pytest and mypy here: GABBRO_TEST_PYTHON names an interpreter")
class PlantedFaults(Verify):
    def test_each_is_found_by_its_stage(self):
        options = ("--checks", "causal,layers", "--dtypes", "f32")
        head = self.pack("good", *options)
        for name, file, text in (
                ("types", "test_layers.py", "\n\nCOUNT: int = 'many'\n"),
                ("collect", "test_layers.py", "\n\nimport a_module_that_is_nowhere  # type: ignore # noqa\n"),
                ("fails", "test_layers.py", "\n\ndef test_wrong() -> None:\n    assert not support.DTYPES\n"),
                ("aborts", "test_layers.py", "\n\ndef test_abort() -> None:\n    import os\n\n    os.abort()\n"),
                ("hangs", "test_layers.py", "\n\ndef test_loop() -> None:\n    while True:\n        pass\n")):
            shutil.copytree(head, head.parent / name)
            path = head.parent / name / file
            path.write_text(path.read_text() + text)
        document, said = self.verify(head.parent, "-o", self.folder / "out", "--limit", "20", python=PYTHON)
        found = {line.split(": ")[0]: line.split(": ", 2)[1:] for line in document["problems"]}
        expected = {"types": "types", "collect": "collect", "fails": "run", "aborts": "run", "hangs": "run"}
        self.assertEqual({name: stage for name, (stage, _) in found.items()}, expected, said)
        self.assertIn("test_layers.py:", found["types"][1])
        self.assertIn("a_module_that_is_nowhere", found["collect"][1])
        self.assertIn("test_wrong", found["fails"][1])
        self.assertIn("test_abort: test_abort crashed: signal 6", found["aborts"][1])
        self.assertIn("test_loop: test_loop did not end in 20 s", found["hangs"][1])
        table = document["table"]
        self.assertEqual((table["types"]["ok"], table["collect"]["ok"], table["run"]["ok"]), (5, 5, 2))
        self.assertEqual(table["rows"]["ok"], 5)

    def test_types_of_several_tasks_pass_all_stages(self):
        # fnet: the CPU has no transform of bf16. detr: convolutions have no SDPA. chameleon: logits hidden by the
        # smallest number. bridgetower: states with the batch as second axis. marian: positions that are not saved.
        # kimi_k25: experts in a part of the model. reformer: a row
        # for each of its classes.
        types = ["llama", "vit", "t5", "fnet", "detr", "chameleon", "bridgetower", "marian", "kimi_k25", "reformer"]
        names = self.file("list", "\n".join(types))
        document, said = self.verify("--from", names, "--dtypes", "f32", "--jobs", "2", python=PYTHON)
        self.assertEqual(document["problems"], [], said)
        for stage in ("render", *STAGES):
            self.assertEqual(document["table"][stage], {"ok": len(types), "wrong": 0, "skipped": 0, "left": 0}, stage)


if __name__ == "__main__":
    support.main()

"""`tune` on the simulator: what is measured, where it is kept, and that it is used; bad input and bad files. The
simulator's times mean nothing."""
import json

import support
from support import TINY_F16, TINY_Q4_0, TestCase

SHAPE = "layers=1,embedding=64,heads=2,kv-heads=1,head-dimension=32,feed-forward=96,vocabulary=64,context=64,tied=1"


class Tune(TestCase):
    def setUp(self):
        super().setUp()
        if not (support.BUILD / "lib" / "libgabbro_sim.so").exists():
            self.skipTest("the build has no simulator")
        self.kept = self.folder / "tuning.txt"
        self.environment = {"GABBRO_DEVICE": "sim:0", "GABBRO_TUNING_FILE": str(self.kept)}

    def tune(self, *arguments, model=TINY_F16, **variables):
        out = self.succeeds("tune", model, "--tokens", "16", "--json", *arguments,
                            environment={**self.environment, **variables}).out
        return json.loads(out)

    def test_the_document(self):
        d = self.tune(GABBRO_SIM_PRODUCTS="1")
        self.assertEqual((d["model"], d["device"], d["file"]), ("Tiny", "sim:0", str(self.kept)))
        self.assertEqual(d["known"], len(d["shapes"]))
        linear = [shape for shape in d["shapes"] if shape["shape"].startswith("linear up to 16 tokens x ")]
        self.assertGreaterEqual(len(linear), 3, d)  # q, k and v; attention's output; the two of the feed-forward part
        for shape in linear:
            candidates = {candidate["name"]: candidate for candidate in shape["candidates"]}
            self.assertEqual(set(candidates), {"batch", "few", "tiled 32", "tiled 128", "simulated library"})
            self.assertTrue(all(candidate["fit"] and candidate["seconds"] > 0 for candidate in candidates.values()), shape)
            fastest = min(candidate["seconds"] for candidate in candidates.values())
            self.assertLess(candidates[shape["chosen"]]["seconds"], 1.021 * fastest)
        # The file has what the document says.
        lines = self.kept.read_text().splitlines()
        self.assertEqual(lines[0], "gabbro tuning 1")
        self.assertEqual(sorted(line.split("\t")[1:3] for line in lines[1:]),
                         sorted([shape["shape"], shape["chosen"]] for shape in d["shapes"]))

    def test_repetitions(self):
        d = self.tune("--repeat", "3")
        self.assertLessEqual(set(d["unsteady"]), {shape["shape"] for shape in d["shapes"]})
        self.assertTrue(all(len(chosen) == 3 and len(set(chosen)) > 1 for chosen in d["unsteady"].values()), d["unsteady"])
        self.assertNotIn("unsteady", self.tune())
        result = self.succeeds("tune", TINY_F16, "--tokens", "16", "--repeat", "2", environment=self.environment)
        self.assertRegex(result.text, r"(?m)^\d+ shapes were not chosen alike in 2 repetitions$")
        self.fails(2, "tune", TINY_F16, "--repeat", "0", environment=self.environment)

    def test_the_table(self):
        result = self.succeeds("tune", TINY_F16, "--tokens", "9,16", environment=self.environment)
        self.assertRegex(result.text, r"(?m)^Tiny f16 on sim:0 \(simulated GPU, waves of 32 lanes\): \d+ shapes measured$")
        self.assertRegex(result.text, r"(?m)^  \* (batch|few|tiled 32|tiled 128) +\d+\.\d us$")
        self.assertRegex(result.text, r"\d+ shapes of this device are known in .*tuning\.txt")
        self.assertEqual(result.err, b"")

    def test_without_a_model(self):
        d = json.loads(self.succeeds("tune", "--shape", SHAPE, "--type", "q8_0", "--tokens", "12", "--json",
                                     environment=self.environment).out)
        self.assertIn("linear up to 16 tokens x 64, q8_0 64 + 32 + 32, norm", [s["shape"] for s in d["shapes"]])

    def test_the_lengths_of_the_device(self):
        d = json.loads(self.succeeds("tune", "--shape", SHAPE, "--type", "f16", "--json", "--tuning-file",
                                     self.folder / "own.txt", environment=self.environment).out)
        self.assertEqual(d["file"], str(self.folder / "own.txt"))
        self.assertFalse(self.kept.exists())
        lengths = {int(s["shape"].split()[3]) for s in d["shapes"] if s["shape"].startswith("linear")}
        self.assertEqual(lengths, {4, 8, 16, 32, 64, 128, 256, 512})
        few = [s for s in d["shapes"] if s["shape"].startswith("linear up to 4 tokens")]
        self.assertEqual({frozenset(c["name"] for c in s["candidates"]) for s in few}, {frozenset({"few", "batch"})})

    def test_what_is_known_is_used_and_the_answer_stays(self):
        """Two commands; the second uses the candidates that the file names."""
        arguments = ("logits", TINY_Q4_0, "--tokens", ",".join(map(str, range(16))), "--out")
        self.succeeds(*arguments, self.folder / "before.npy", environment=self.environment)
        self.tune(model=TINY_Q4_0)
        for candidate in ("batch", "few", "tiled 128"):
            lines = [line.split("\t") for line in self.kept.read_text().splitlines()]
            for line in lines[1:]:
                if line[1].startswith("linear"):
                    line[2] = candidate
            self.kept.write_text("\n".join("\t".join(line) for line in lines) + "\n")
            result = self.succeeds(*arguments, self.folder / "after.npy", environment=self.environment)
            self.assertEqual(result.err, b"")
            same = (self.folder / "before.npy").read_bytes() == (self.folder / "after.npy").read_bytes()
            self.assertEqual(same, candidate == "batch", candidate)  # the rule for 16 tokens; others round otherwise

    def test_a_bad_file_is_one_line_and_no_more(self):
        for content, words in ((b"gabbro tuning 1\nnonsense\n", "is ignored: line 2 is damaged"),
                               (b"\x7fELF\0\0", "is ignored: it is not one that this version of Gabbro wrote")):
            self.kept.write_bytes(content)
            result = self.succeeds("run", TINY_F16, "hi", "-n", "0", "--raw", environment=self.environment)
            self.assertEqual(result.err.decode().count("\n"), 1, result)
            self.assertRegex(result.err.decode(), rf"^gabbro: note: the tuning file .*tuning\.txt {words}\n$")
        # `tune` does not write over what is not its own, and says so after the table.
        result = support.gabbro("tune", TINY_F16, "--tokens", "16", environment=self.environment)
        self.assertEqual(result.code, 1)
        self.assertIn(b"shapes measured", result.out)
        self.assertIn(b"gabbro: error: the tuning file ", result.err)
        self.assertEqual(self.kept.read_bytes(), b"\x7fELF\0\0")

    def test_a_place_that_cannot_be_written(self):
        result = support.gabbro("tune", TINY_F16, "--tokens", "16", "--tuning-file", "/proc/tuning.txt",
                                environment=self.environment)
        self.assertEqual(result.code, 1, result)
        self.assertIn(b"gabbro: error: the tuning file /proc/tuning.txt cannot be written: ", result.err)

    def test_nothing_is_kept_where_the_variable_is_empty(self):
        d = self.tune(GABBRO_TUNING_FILE="")
        self.assertIsNone(d["file"])
        self.assertFalse(self.kept.exists())

    def test_bad_usage(self):
        self.fails(2, "tune", environment=self.environment, says=["MODEL is missing", "--shape llama-8b"])
        self.fails(2, "tune", TINY_F16, "--device", "cpu", environment=self.environment,
                   says=["device cpu has one way to compute each shape", "hint: --device names a GPU"])
        self.fails(2, "tune", TINY_F16, "--tokens", "0", environment=self.environment, says="--tokens")
        self.fails(2, "tune", TINY_F16, "--tokens", "x", environment=self.environment, says="--tokens")
        self.fails(2, "tune", TINY_F16, "--shape", "llama-8b", environment=self.environment, says="--shape")
        self.fails(3, "tune", TINY_F16, "--device", "rocm", environment=self.environment, says="no usable ROCm device")

    def test_a_device_that_is_lost(self):
        result = support.gabbro("tune", TINY_F16, "--tokens", "16", environment={**self.environment, "GABBRO_SIM_FAIL": "lost:20"})
        self.assertEqual(result.code, 1, result)
        self.assertIn(b"the device was lost", result.err)


if __name__ == "__main__":
    support.main()

"""`bench image`: times of tiny pipelines, hours of pictures, and what it refuses."""
import json

import support
from support import ROOT, TestCase

PIPELINES = ROOT / "tests" / "data" / "pictures"
TINY = ("bench", "image", PIPELINES / "sd15", "--threads", "2")
QUICK = (*TINY, "--size", "24x16", "--steps", "3")


class BenchImage(TestCase):
    def bench(self, *arguments):
        return json.loads(self.succeeds(*QUICK, "--json", *arguments).text)

    def test_the_document(self):
        d = self.bench("-r", "2", "--batch", "2", "--sampler", "euler")
        self.assertEqual((d["model"], d["class"], d["shape"], d["type"]), ("sd15", "StableDiffusionPipeline", None, None))
        self.assertEqual((d["width"], d["height"], d["steps"], d["evaluations"]), (24, 16, 3, 3))
        self.assertEqual((d["device"], d["precision"], d["batch"]), ("cpu", "f32", 2))
        for part, count in (("text", 4), ("step", 8), ("decode", 4), ("picture", 4)):
            seconds = d[f"{part}_seconds"]
            self.assertEqual(seconds["count"], count, part)
            self.assertTrue(0 < seconds["min"] <= seconds["median"] <= seconds["max"], part)
        self.assertGreater(d["first_picture_seconds"], d["decode_seconds"]["min"])
        self.assertGreater(d["load_seconds"], 0)
        self.assertIn("memory_peak", d)

    def test_one_pass_and_one_step(self):
        one = ("--size", "16", "--steps", "1", "--guidance", "1", "--sampler", "ddim")
        d = json.loads(self.succeeds(*TINY, *one, "-r", "1", "--json").text)
        self.assertEqual((d["evaluations"], d["step_seconds"]["count"]), (1, 1))

    def test_precision(self):
        for precision in ("f16", "bf16"):
            self.assertEqual(self.bench("-r", "1", "--precision", precision)["precision"], precision)

    def test_the_table(self):
        result = self.succeeds(*QUICK, "-r", "1")
        self.assertRegex(result.text, r"^sd15 in f32 on cpu \(.+\), 24 x 16 pixels, 3 steps\n\npart +median ms")
        for row in ("text states", "step", "decode", "picture"):
            self.assertRegex(result.text, rf"(?m)^{row}( +\d+\.\d+){{3}} +\d+$")
        self.assertRegex(result.text, r"loaded in \d+\.\d\d s, first picture in \d+\.\d\d s; 4 calls of the U-Net")

    def test_soak(self):
        d = self.bench("--soak", "0.000001")["soak"]
        self.assertEqual((d["rounds"], d["pictures"], d["differing"], d["flat"]), (3, 21, 0, True))
        self.assertGreater(d["host_bytes"]["after"], 0)
        result = self.succeeds(*QUICK, "--soak", "0.000001")
        self.assertRegex(result.text, r"21 pictures in 3 rounds and \d+ s; 0 differ from the first round\n")
        self.assertRegex(result.text, r"memory stays flat\n$")
        self.assertEqual(result.err.count(b" pictures in "), 3)

    def test_bad_usage(self):
        for arguments, words in ((["--size", "25"], "--width 25"), (["--size", "24x"], "--size"), (["--size", "x"], "--size"),
                                 (["--size", "-8"], "--size"), (["--size", "0"], "--size"), (["--size", "1e9"], "--size"),
                                 (["--steps", "0"], "--steps"), (["--batch", "0"], "--batch"), (["-r", "0"], "-r"),
                                 (["--sampler", "other"], "other"), (["--guidance", "-1"], "--guidance"),
                                 (["--precision", "f8"], "--precision"), (["--soak", "-1"], "--soak"),
                                 (["--soak", "1001"], "--soak"), (["--soak", "x"], "--soak"), (["--type", "f16"], "--shape"),
                                 (["--shape", "sd15"], "--shape"), (["--decode-bands", "x"], "--decode-bands")):
            self.fails(2, *TINY, *arguments, says=words)
        self.fails(2, "bench", "image", says="MODEL is missing")
        self.fails(2, "bench", "image", "--shape", "sd3", says="--shape")
        self.fails(2, "bench", "image", "--shape", "sd15", "--type", "q8_0", says="--type")
        self.fails(2, "bench", "image", self.folder / "none", says="none")
        self.fails(3, *QUICK, "--device", "rocm", says="no usable ROCm device")


if __name__ == "__main__":
    support.main()

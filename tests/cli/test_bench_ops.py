"""`bench ops`: the document, the table, the page, and what it refuses. The sizes are tiny; their times mean nothing."""
import json
import re

import support
from support import TestCase

GROUPS = ["matmul", "conv", "elementwise", "reduction", "norm", "softmax", "attention", "indexing", "small"]
QUICK = ["bench", "ops", "--size", "tiny", "--iterations", "2", "--warmup"]


def document_of(page):
    """The document in a report: the text of its only element of this kind."""
    found = re.findall(r'<script type="application/json" id="document">(.*?)</script>', page, re.DOTALL)
    assert len(found) == 1, page[:500]
    return json.loads(found[0])


class BenchOps(TestCase):
    def bench(self, *arguments, warmup="0"):
        return json.loads(self.succeeds(*QUICK, warmup, "--json", *arguments).out)

    def test_the_document(self):
        d = self.bench("--threads", "1", warmup="1")
        self.assertRegex(d["version"], r"^\d+\.\d+\.\d+$")
        self.assertRegex(d["date"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual((d["device"], d["threads"], d["size"], d["warmup"], d["peer"]), ("cpu", 1, "tiny", 1, None))
        self.assertEqual(list(dict.fromkeys(row["group"] for row in d["results"])), GROUPS)
        self.assertEqual({row["dtype"] for row in d["results"]}, {"f32", "f16", "bf16"})
        rows = {(row["name"], row["dtype"]): row for row in d["results"]}
        self.assertEqual(len(rows), len(d["results"]), "the names are unique")
        for row in d["results"]:
            s = row["seconds"]
            self.assertTrue(0 < s["min"] <= s["median"] <= s["max"], row)
            self.assertEqual(row["samples"], 2)
            self.assertTrue(1 <= row["runs_per_sample"] <= 1000, row)
            self.assertEqual(len(row["kernels"]), row["launches"], row)
            self.assertGreater(row["launches"], 0, row)
            self.assertAlmostEqual(row["bytes_per_second"] * s["median"] / row["bytes"], 1)

    def test_the_work_is_that_of_the_shapes(self):
        product = self.bench("--matmul", "--dtype", "f32")["results"][0]
        self.assertEqual((product["name"], product["shapes"]), ("matmul 17x19 19x23", [[17, 19], [19, 23]]))
        self.assertEqual((product["flops"], product["bytes"]), (2 * 17 * 19 * 23, 4 * (17 * 19 + 19 * 23 + 17 * 23)))
        chain, = self.bench("--elementwise", "--filter", "mul_add", "--dtype", "f32")["results"]
        self.assertEqual((chain["launches"], chain["bytes"]), (1, 4 * 4 * 1009))
        conv = self.bench("--conv", "--filter", "conv2d 1x3x15x15", "--dtype", "bf16")["results"][0]
        self.assertEqual(conv["name"], "conv2d 1x3x15x15 5x3x7x7 stride=2 padding=3")

    def test_what_memory_gives_is_measured_where_it_matters(self):
        self.assertIsNone(self.bench("--small")["read_bandwidth"])
        quick = ["bench", "ops", "--small", "--size", "small", "--iterations", "1", "--warmup", "0"]
        self.assertGreater(json.loads(self.succeeds(*quick, "--json").out)["read_bandwidth"], 1e7)
        self.assertRegex(self.succeeds(*quick).text, r"\nmemory read by \d+ threads: \d+\.\d GB/s\n$")

    def test_groups_dtypes_and_names_choose(self):
        groups = lambda *arguments: {row["group"] for row in self.bench(*arguments)["results"]}
        self.assertEqual(groups("--softmax", "--norm"), {"softmax", "norm"})
        self.assertEqual(groups("--softmax", "--all", "--dtype", "f32"), set(GROUPS))
        rows = self.bench("--norm", "--dtype", "f16", "--dtype", "f32", "--filter", "_norm")["results"]
        self.assertEqual({row["dtype"] for row in rows if row["op"] == "layer_norm"}, {"f32", "f16"})
        rows = self.bench("--indexing", "--dtype", "f16", "--dtype", "f32", "--filter", "topk")["results"]
        self.assertEqual({row["dtype"] for row in rows}, {"f32"})  # the only one it has

    def test_the_table(self):
        result = self.succeeds(*QUICK, "0", "--softmax", "--dtype", "f32")
        self.assertRegex(result.text, r"^gabbro \d+\.\d+\.\d+ on cpu \(.+\), \d+ threads: 4 cases of size tiny\n")
        self.assertRegex(result.text, r"(?m)^softmax +dtype +median us +min us +max us +GB/s +GFLOP/s launches  kernels$")
        self.assertRegex(result.text, r"(?m)^softmax 17x61 +f32( +\d+\.\d\d){3}( +\d+(\.\d+)?){2} +1  softmax f32$")
        self.assertEqual(result.err, b"")

    def test_the_page_holds_the_document(self):
        path = self.folder / "report.html"
        printed = self.bench("--small", "--html", path)
        page = path.read_text()
        self.assertEqual(document_of(page), printed)
        self.assertTrue(page.startswith("<!DOCTYPE html>"))
        self.assertNotRegex(page, r"(?i)\b(src|href)\s*=|@import|url\(", "it needs nothing else")
        self.assertEqual([entry.name for entry in self.folder.iterdir()], ["report.html"])
        # The table as well, and an older page is replaced.
        self.assertIn("cases of size tiny", self.succeeds(*QUICK, "0", "--norm", "--html", path).text)
        self.assertEqual({row["group"] for row in document_of(path.read_text())["results"]}, {"norm"})

    def test_devices(self):
        d = self.bench("--device", "null", "--dtype", "f32")
        self.assertEqual((d["device"], d["threads"]), ("null", None))
        self.assertEqual({row["bytes"] for row in d["results"]}, {None})  # it does not say
        if (support.BUILD / "lib" / "libgabbro_sim.so").exists():
            d = json.loads(self.succeeds("bench", "ops", "--small", "--iterations", "1", "--warmup", "0", "--dtype", "f32",
                                         "--device", "sim:0", "--json").out)
            self.assertEqual((d["device"], d["threads"], d["size"]), ("sim:0", None, "tiny"))

    def test_bad_usage(self):
        for arguments, words in ((["--dtype", "f64"], "--dtype"), (["--size", "huge"], "--size"),
                                 (["--threads", "-1"], "--threads"), (["--filter", "nonsense"], "no case"),
                                 (["--softmax", "--filter", "matmul"], "no case"), (["extra"], "extra")):
            self.fails(2, *QUICK, "0", *arguments, says=words)
        for option in ("--iterations", "--warmup"):
            for value in ("-1", "x", "", "100001"):
                self.fails(2, "bench", "ops", option, value, says=option)
        self.fails(3, *QUICK, "0", "--device", "rocm", says="no usable ROCm device")

    def test_a_page_that_cannot_be_written_is_refused_before_anything_is_measured(self):
        full = ["bench", "ops", "--size", "large", "--html"]  # which would take minutes
        for path in (self.folder, self.folder / "none" / "x.html", "/dev/null", "", "/proc/x.html"):
            self.fails(2, *full, path, says="--html: ")
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    support.main()

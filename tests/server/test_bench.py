"""`gabbro bench serve` on scripted models, whose delays are known: its figures are computed here again."""
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from html.parser import HTMLParser

import server_support
from server_support import BUILD, ROOT, Server, TestCase

KEY = "a-key-of-tests-1"
TOKEN_MS, PREFILL_MS = 5, 40


def percentile(values, percent):
    values = sorted(values)
    at = (len(values) - 1) * percent / 100
    below = math.floor(at)
    return values[below] + (at - below) * (values[min(below + 1, len(values) - 1)] - values[below])


class Bench(TestCase):
    config = {"keys": KEY, "queue": 1000, "connections_per_address": 200, "models": {
        "script": {"model": {"parallel": 8, "context": 100_000}, "answers": [
            {"tokens": ["a "], "repeat": 100_000, "token_ms": TOKEN_MS, "prefill_ms": PREFILL_MS}]},
        "broken": {"answers": [{"tokens": ["a"], "fail_after": 0, "error": "the script fails"}]}}}

    def run_program(self, *arguments, key=KEY, url=None, code=0):
        done = subprocess.run([BUILD / "bin" / "gabbro", "bench", "serve", url or f"http://127.0.0.1:{self.server.port}", *map(str, arguments)],
                              capture_output=True, text=True, timeout=120, env={"PATH": "", "OPENAI_API_KEY": key, "HOME": "/nonexistent"})
        self.assertEqual(done.returncode, code, done)
        return done

    def measure(self, *arguments):
        return json.loads(self.run_program("--model", "script", "--json", "--detail", *arguments).stdout)

    def check_figures(self, point, goals):
        """All figures of a point from the rows of its requests."""
        rows = [row for row in point["detail"] if "error" not in row]
        ttft = [1e3 * row["pieces"][0] for row in rows]
        gaps = [1e3 * (b - a) for row in rows for a, b in zip(row["pieces"], row["pieces"][1:])]
        tpot = {id(row): 1e3 * (row["pieces"][-1] - row["pieces"][0]) / (row["answer_tokens"] - 1) for row in rows if row["answer_tokens"] > 1}
        for name, values in (("ttft_ms", ttft), ("itl_ms", gaps), ("tpot_ms", list(tpot.values())), ("latency_ms", [1e3 * row["seconds"] for row in rows])):
            self.assertAlmostEqual(point[name]["mean"], sum(values) / len(values), places=6)
            for percent in (50, 95, 99):
                self.assertAlmostEqual(point[name][f"p{percent}"], percentile(values, percent), places=6)
        inside = sum(row["answer_tokens"] / len(row["pieces"]) for row in rows for piece in row["pieces"] if row["sent"] + piece < point["seconds"])
        self.assertAlmostEqual(point["output_tokens_per_second"], inside / point["seconds"], places=6)
        tokens = sum(row["answer_tokens"] for row in rows)
        self.assertEqual((point["answer_tokens"], point["answered"]), (tokens, len(rows)))
        good = sum(1 for row in rows if 1e3 * row["pieces"][0] <= goals["ttft_ms"] and tpot.get(id(row), 0) <= goals["tpot_ms"])
        self.assertAlmostEqual(point["goodput"], inside / tokens * good / point["seconds"], places=6)

    def test_closed_loop(self):
        document = self.measure("--streams", "1,4", "--seconds", 2, "--answer", 20, "--prompt", 10, "--top-p", 0.9, "--top-k", 40)
        self.assertEqual((document["model"], [point["streams"] for point in document["points"]]), ("script", [1, 4]))
        for point in document["points"]:
            self.assertEqual((point["loop"], point["errors"], point["tokens_counted_by"]), ("closed", {}, "usage"))
            self.check_figures(point, document["goals"])
            # The scripted delays are lower bounds; a busy machine adds to them.
            self.assertGreaterEqual(point["ttft_ms"]["p50"], PREFILL_MS)
            self.assertGreaterEqual(point["tpot_ms"]["p50"], 0.9 * TOKEN_MS)
            self.assertTrue(all(row["answer_tokens"] == 20 for row in point["detail"]))
            # No more than `streams` run at once.
            times = sorted([(row["sent"], 1) for row in point["detail"]] + [(row["sent"] + row["seconds"], -1) for row in point["detail"]])
            running = most = 0
            for _, change in times:
                running += change
                most = max(most, running)
            self.assertEqual(most, point["streams"])
        one, four = (point["output_tokens_per_second"] for point in document["points"])
        self.assertGreater(four, 1.5 * one)

    def test_open_loop(self):
        document = self.measure("--rate", "20", "--seconds", 3, "--answer", 5, "--prompt", 5)
        [point] = document["points"]
        self.assertEqual((point["loop"], point["rate"]), ("open", 20))
        self.check_figures(point, document["goals"])
        count = point["requests"]
        self.assertLess(abs(count - 60), 4 * math.sqrt(60), "a Poisson process")
        sent = sorted(row["sent"] for row in point["detail"])
        gaps = [b - a for a, b in zip(sent, sent[1:])]
        mean = sum(gaps) / len(gaps)
        spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
        self.assertLess(abs(spread / mean - 1), 0.5, "gaps of an exponential distribution")

    def test_the_same_seed_sends_the_same_requests(self):
        def lengths(seed):
            document = self.measure("--streams", 1, "--requests", 6, "--seconds", 60, "--seed", seed, "--load", "code")
            return [(row["prompt_tokens"], row["answer_tokens"]) for row in document["points"][0]["detail"]]
        first = lengths(3)
        self.assertEqual(len(first), 6)
        self.assertEqual(first, lengths(3))
        self.assertNotEqual(first, lengths(4))
        self.assertEqual(len(set(first)), 6, "lengths differ")

    def test_goals(self):
        document = self.measure("--streams", 1, "--requests", 4, "--seconds", 60, "--answer", 4, "--prompt", 4, "--ttft-goal", 1)
        self.assertEqual(document["points"][0]["goodput"], 0)

    def test_errors_are_counted(self):
        done = self.run_program("--model", "broken", "--streams", 2, "--requests", 3, "--warmup", 0, code=1)
        self.assertIn("none of 3 requests was answered: the script fails", done.stderr)

    def test_a_server_that_answers_nothing_is_not_measured(self):
        done = self.run_program("--model", "broken", "--streams", 2, "--seconds", 600, code=1)
        self.assertIn("none of 2 requests was answered: the script fails", done.stderr)

    def test_wrong_use(self):
        for arguments, says in ((("--streams", "0"), "0 is out of range"), (("--rate", "x"), "'x' is not a number"), (("--rate", "-1"), "'-1' is not a number"),
                                (("--load", "none"), "none"), ((), "the server has 2 models; --model names one of them: script, broken"),
                                (("--model", "script", "--html", "/nonexistent/x.html"), "/nonexistent/x.html")):
            done = self.run_program(*arguments, code=2)
            self.assertIn(says, done.stderr)
            self.assertEqual(len([line for line in done.stderr.splitlines() if "error" in line]), 1)
        for url in ("127.0.0.1:80", "ftp://a", "http://", "http://a/v1?x"):
            self.assertIn("is not an address such as", self.run_program(url=url, code=2).stderr)
        self.assertIn("status 401: the API key is wrong", self.run_program(key="wrong-key-of-tests-1", code=1).stderr)
        self.assertIn("onnect", self.run_program(url="http://127.0.0.1:9", code=1).stderr)

    def test_an_interrupt_ends_it(self):
        process = subprocess.Popen([BUILD / "bin" / "gabbro", "bench", "serve", f"http://127.0.0.1:{self.server.port}", "--model", "script",
                                    "--streams", "2", "--answer", "100000"], env={"OPENAI_API_KEY": KEY}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1)
        process.send_signal(2)
        start = time.monotonic()
        process.communicate(timeout=20)
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual(process.returncode, 130)

    def test_comparison_of_two_servers(self):
        def script(milliseconds):
            return {"script": {"model": {"parallel": 8}, "answers": [{"tokens": ["a "], "repeat": 1000, "token_ms": milliseconds}]}}
        with Server(models=script(5)) as fast, Server(models=script(20)) as slow:
            done = subprocess.run([sys.executable, ROOT / "bench" / "compare_servers.py", "--gabbro", BUILD / "bin" / "gabbro", "--urls",
                                   *[f"http://127.0.0.1:{server.port}" for server in (fast, slow)], "--streams", "1,2", "--answer", "20", "--prompt", "5",
                                   "--seconds", "1", "--repeats", "1"], capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)
        self.assertEqual([row["streams"] for row in rows], [1, 2])
        for row in rows:
            self.assertAlmostEqual(row["ratio"], row["gabbro"]["tokens"] / row["peer"]["tokens"])
            self.assertGreater(row["ratio"], 1.5)

    def test_table_and_page(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "report.html"
            done = self.run_program("--model", "script", "--streams", "1,2", "--rate", "5,10", "--seconds", 1, "--answer", 5, "--prompt", 5, "--html", file)
            page = file.read_text()
        self.assertIn("<dd>chat: 5 words in, 5 tokens out</dd>", page)
        rows = done.stdout.splitlines()
        self.assertEqual([row.split()[0] for row in rows], ["load", "1", "2", "5/s", "10/s"])
        self.assertNotRegex(page, r"<script|https?://(?!127\.0\.0\.1)|src=")
        plots = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
        self.assertEqual(len(plots), 7)
        for plot in plots:
            xml.etree.ElementTree.fromstring(plot)
            self.assertNotIn("nan", plot)
        parser = Balanced()
        parser.feed(page)
        self.assertEqual(parser.open, [])


class Balanced(HTMLParser):
    """Each element that is opened is closed."""
    VOID = {"meta", "link", "br"}

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass  # <path/>

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes nothing")


if __name__ == "__main__":
    server_support.main()

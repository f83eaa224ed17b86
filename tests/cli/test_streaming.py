"""Models larger than the memory they may take: the same tokens as without a limit, and clear errors."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import random_model
from support import PROGRAM, SANITIZED, TestCase, gabbro, main

PROMPT = "Streaming reads what it needs, and no more. Streaming reads"
COMMON = ["--raw", "--temperature", "0", "-n", "12", "--json", "--ctx", "128", "--log-level", "info"]


class Streaming(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gabbro-streaming-"))
        os.environ["XDG_CACHE_HOME"] = str(cls.folder)  # of measured links
        cls.models = {}
        for kind in ("q4_0", "f16"):
            cls.models[kind] = str(cls.folder / f"{kind}.gguf")
            random_model.write(cls.models[kind], random_model.Shape(10, 512, 8, 4, 2048, 512, 64), kind)
        library = cls.folder / "faults.so"
        source = pathlib.Path(__file__).parent / "fault_reads.c"
        done = subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], capture_output=True)
        cls.faults = str(library) if done.returncode == 0 else None

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def least(self, model):
        """The smallest --memory in MiB, which the error names."""
        result = gabbro("run", model, PROMPT, *COMMON, "--memory", "1MiB")
        self.assertEqual(result.code, 3, result)
        return int(re.search(rb"(\d+) MiB are the least", result.err).group(1))

    def run_model(self, model, *options, **environment):
        return gabbro("run", model, PROMPT, *COMMON, *options, environment=environment)

    def test_tokens_are_those_without_a_limit(self):
        for kind, model in self.models.items():
            for reader in ("io_uring", "threads"):
                with self.subTest(kind=kind, reader=reader):
                    whole = json.loads(self.run_model(model).out)
                    self.assertNotIn("streaming", whole)
                    result = self.run_model(model, "--memory", f"{self.least(model) + 4}MiB", GABBRO_IO=reader)
                    if reader == "io_uring" and b"io_uring is refused" in result.err:
                        continue
                    self.assertEqual(result.code, 0, result)
                    part = json.loads(result.out)
                    self.assertEqual(part["token_ids"], whole["token_ids"])
                    streaming = part["streaming"]
                    self.assertGreater(streaming["bytes_per_pass"], 0)
                    self.assertLessEqual(streaming["planned_bytes"], streaming["memory"])
                    self.assertIn(reader, streaming["link"])
                    self.assertGreater(streaming["share_of_limit"], 0)
                    self.assertIn(b"streaming: ", result.err)

    def test_what_fits_is_not_streamed(self):
        result = self.run_model(self.models["q4_0"], "--memory", "8GiB")
        self.assertNotIn("streaming", json.loads(result.out))

    def test_experts_are_read_when_they_are_needed(self):
        model = str(self.folder / "experts.gguf")
        shape = random_model.Shape(6, 256, 4, 2, 512, 512, 64, experts=16, experts_used=2)
        random_model.write(model, shape, "q8_0")
        whole = json.loads(self.run_model(model).out)
        expert = 3 * 256 * 512 // 32 * 34  # bytes
        for more in (1, 8):
            result = self.run_model(model, "--memory", f"{self.least(model) + more}MiB", "--no-lookup")
            self.assertEqual(result.code, 0, result)
            part = json.loads(result.out)
            self.assertEqual(part["token_ids"], whole["token_ids"])
            s = part["streaming"]
            read = s["expert_misses"] + s["experts_early"]
            self.assertEqual(s["expert_bytes_read"], read * expert)
            self.assertLess(s["expert_bytes_read"], s["passes"] * shape.layers * shape.experts * expert)
        self.assertGreater(s["expert_hits"], 0)  # with memory for many of them

    def test_sizes(self):
        for size in ("4", "x", "4 apples", "-1GiB", "nan", "1e3G", ""):
            result = self.run_model(self.models["q4_0"], f"--memory={size}")
            self.assertIn(result.code, (2, 3), result)
        result = self.run_model(self.models["q4_0"], "--host-memory", "1GiB")
        self.assertEqual(result.code, 2, result)

    def test_lookup_changes_nothing(self):
        model = self.models["q4_0"]
        plain = json.loads(self.run_model(model).out)
        looked = json.loads(self.run_model(model, "--lookup").out)
        self.assertEqual(plain["token_ids"], looked["token_ids"])
        self.assertGreater(looked["drafted_tokens"], 0)
        memory = f"{self.least(model) + 4}MiB"
        once = json.loads(self.run_model(model, "--memory", memory, "--no-lookup").out)
        often = json.loads(self.run_model(model, "--memory", memory).out)
        self.assertEqual(once["token_ids"], plain["token_ids"])
        self.assertEqual(often["token_ids"], plain["token_ids"])
        self.assertEqual(once["drafted_tokens"], 0)
        self.assertLess(often["streaming"]["passes"], once["streaming"]["passes"])
        drafted = json.loads(self.run_model(model, "--draft", model).out)
        self.assertEqual(plain["token_ids"], drafted["token_ids"])
        self.assertGreater(drafted["accepted_tokens"], 0)

    def test_faults_of_the_disk(self):
        if self.faults is None or SANITIZED:
            self.skipTest("nothing to preload")
        model = self.models["f16"]
        memory = f"{self.least(model) + 4}MiB"
        self.run_model(model, "--memory", memory)  # the link is measured: its reads are not counted
        faulty = lambda fault: self.run_model(model, "--memory", memory, GABBRO_IO="threads", LD_PRELOAD=self.faults,
                                              GABBRO_FAULT_READS=fault)
        whole = json.loads(self.run_model(model).out)
        self.assertEqual(json.loads(faulty("short:5").out)["token_ids"], whole["token_ids"])
        for fault, message in {"eio:30": b"cannot read .* bytes at byte .*: Input/output error",
                               "end:30": b"it was truncated"}.items():
            result = faulty(fault)
            self.assertEqual(result.code, 1, result)
            self.assertEqual(result.out, b"", result)
            self.assertRegex(result.err, message)
            self.assertIn(model.encode(), result.err)

    def test_interrupt_in_the_middle_of_a_read(self):
        if self.faults is None or SANITIZED:
            self.skipTest("nothing to preload")
        model = self.models["f16"]
        memory = f"{self.least(model) + 4}MiB"
        self.run_model(model, "--memory", memory)
        environment = {**os.environ, "GABBRO_IO": "threads", "LD_PRELOAD": self.faults, "GABBRO_FAULT_READS": "hang:30"}
        delays = []
        for _ in range(3):
            process = subprocess.Popen([PROGRAM, "run", model, PROMPT, *COMMON, "--memory", memory], env=environment,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(1.5)
            start = time.monotonic()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)
            delay = time.monotonic() - start
            self.assertEqual(process.returncode, 130)
            start = time.monotonic()
            gabbro("--version")  # the machine's share: a program starts and ends
            delays.append(delay - (time.monotonic() - start))
            if delays[-1] < 0.1:
                return
        self.fail(f"Ctrl-C took {delays} s longer than a program that does nothing")

    def test_the_link_is_measured_once(self):
        model = self.models["q4_0"]
        memory = f"{self.least(model) + 4}MiB"
        self.run_model(model, "--memory", memory)
        links = pathlib.Path(os.environ["XDG_CACHE_HOME"], "gabbro", "links")
        lines = links.read_text().splitlines()
        disk, speed, measured = next(line for line in lines if line.startswith("disk:")).split()
        self.assertGreater(float(speed), 0)
        links.write_text(f"{disk} 123456789 {measured}\n")
        document = json.loads(self.run_model(model, "--memory", memory).out)
        self.assertEqual(document["streaming"]["link_bandwidth"], 123456789)
        links.write_text(f"{disk} 123456789 1\n")  # in 1970
        document = json.loads(self.run_model(model, "--memory", memory).out)
        self.assertNotEqual(document["streaming"]["link_bandwidth"], 123456789)

    def test_a_file_that_changes(self):
        model = str(self.folder / "changing.gguf")
        shutil.copy(self.models["f16"], model)
        refused = gabbro("run", model, PROMPT, "--raw", "--ctx", "1024", "--memory", "1MiB")
        least = int(re.search(rb"(\d+) MiB are the least", refused.err).group(1))
        options = ["--raw", "--temperature", "0", "--ctx", "1024", "--draft-tokens", "1", "--memory"]
        process = subprocess.Popen([PROGRAM, "run", model, PROMPT, *options, f"{least + 4}MiB"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.5)
        os.utime(model, (1, 1))
        _, err = process.communicate(timeout=60)
        if process.returncode != 0:  # else it had finished before
            self.assertIn(b"written to since it was loaded", err)


if __name__ == "__main__":
    main()

"""The engine in a worker process, on the simulator with injected faults: what was lost says so, the rest is answered by
another process, Ctrl-C works while a device hangs, and no process stays behind."""
import json
import os
import signal
import subprocess
import time
import unittest

import support
from support import PROGRAM, TINY_F16, TestCase, gabbro

GREEDY = ["--temperature", "0", "--raw", "-n", "5"]
PROMPTS = ["one", "two", "three", "four", "five"]
CHILD = b"--worker-process"


def children_of(pid):
    """The worker processes of a program."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as stat, open(f"/proc/{entry}/cmdline", "rb") as line:
                if int(stat.read().rsplit(")", 1)[1].split()[1]) == pid and CHILD in line.read().split(b"\0"):
                    found.append(int(entry))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def is_there(pid):
    """Whether the process runs: a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Worker(TestCase):
    def environment(self, fault=None, once=True, **more):
        added = {"GABBRO_DEVICE": "sim:0", "GABBRO_WORKER": "on", **more}
        if fault is not None:
            added["GABBRO_SIM_FAIL"] = fault
        if once:
            added["GABBRO_SIM_FAIL_ONCE"] = str(self.folder / f"failed_{time.monotonic_ns()}")
        return added

    def prompts(self, prompts=PROMPTS):
        return self.file("prompts.txt", "".join(prompt + "\n" for prompt in prompts))

    def rows(self, result):
        return [json.loads(line) for line in result.out.decode().splitlines()]

    def start(self, *arguments, **environment):
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={**os.environ, **self.environment(**environment)})
        self.addCleanup(process.kill)
        return process

    def wait_for(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, "it takes too long")
            time.sleep(0.01)

    def test_answers_are_those_without_a_worker(self):
        for options in (GREEDY, ["-n", "9", "--seed", "7", "--temperature", "1.2"], ["-n", "9", "--stop", "a", "--seed", "3"]):
            documents = []
            for worker in ("off", "on"):
                result = self.succeeds("run", TINY_F16, *options, "--json", "Hello", environment={"GABBRO_WORKER": worker})
                documents.append({key: value for key, value in json.loads(result.out).items()
                                  if "seconds" not in key and "per_second" not in key and key != "seed"})
            self.assertEqual(*documents)
        by_worker = {worker: self.rows(self.succeeds("run", TINY_F16, *GREEDY, "--prompts", self.prompts(),
                                                     environment={"GABBRO_WORKER": worker})) for worker in ("off", "on")}
        self.assertEqual(by_worker["on"], by_worker["off"])

    def test_prompts_go_on_after_a_fault(self):
        whole = self.rows(self.succeeds("run", TINY_F16, *GREEDY, "--prompts", self.prompts(), environment=self.environment()))
        for fault, says in (("lost:100", "the device was lost"), ("abort:100", "signal 6 (Aborted)")):
            for parallel in (1, 2):
                with self.subTest(fault=fault, parallel=parallel):
                    results = []

                    def attempt(fault=fault, parallel=parallel, results=results):
                        start = time.monotonic()
                        results.append(gabbro("run", TINY_F16, *GREEDY, "--prompts", self.prompts(), "--parallel", str(parallel),
                                              environment=self.environment(fault)))
                        return time.monotonic() - start
                    support.within(5, attempt)
                    result = results[-1]
                    self.assertEqual(result.code, 1, result)
                    rows = self.rows(result)
                    lost = [row for row in rows if "error" in row]
                    self.assertTrue(1 <= len(lost) <= parallel, result)
                    for row in lost:
                        self.assertIn("the answer was lost: ", row["error"])
                        self.assertIn(says, row["error"])
                        self.assertIn("the last launches were, the newest first: ", row["error"])
                        self.assertIn(f"prompts.txt:{row['line']}: {row['error']}", result.err.decode())
                    self.assertEqual([row for row in rows if "error" not in row],
                                     [row for row in whole if row["line"] not in {one["line"] for one in lost}])
                    self.assertIn("gabbro: note: the engine is started again", result.err.decode())

    def test_rows_before_the_fault_are_kept(self):
        # As many launches as two answers and a half take.
        for launches in range(200, 700, 100):
            result = gabbro("run", TINY_F16, *GREEDY, "--prompts", self.prompts(), "--parallel", "1",
                            environment=self.environment(f"abort:{launches}"))
            rows = self.rows(result)
            self.assertEqual([row["index"] for row in rows], list(range(len(PROMPTS))))
            self.assertLessEqual(len([row for row in rows if "error" in row]), 1)
            if "error" in rows[2]:
                return
        self.fail("no fault came in the third answer")

    def test_one_answer_that_is_lost(self):
        for fault, says in (("lost:30", "the device was lost"), ("abort:30", "signal 6 (Aborted)")):
            result = gabbro("run", TINY_F16, *GREEDY, "Hello", environment=self.environment(fault))
            self.assertEqual(result.code, 1, result)
            lines = result.err.decode().splitlines()
            self.assertEqual(len(lines), 1, result)
            self.assertTrue(lines[0].startswith("gabbro: error: the answer was lost: "), result)
            self.assertIn(says, lines[0])
            self.assertIn("the last launches were, the newest first: ", lines[0])

    def test_a_fault_while_loading(self):
        for worker in ("off", "on"):
            self.fails(3, "run", TINY_F16, *GREEDY, "Hello", environment=self.environment("malloc:9", GABBRO_WORKER=worker),
                       says="out of memory")
            self.fails(2, "run", self.file("no.gguf", "GGUF"), "Hello", environment=self.environment(GABBRO_WORKER=worker),
                       says="no.gguf")

    def test_gives_up(self):
        result = gabbro("run", TINY_F16, *GREEDY, "--prompts", self.prompts(PROMPTS + ["six", "seven"]), "--parallel", "1",
                        environment=self.environment("abort:60", once=False))
        self.assertEqual(result.code, 1, result)
        errors = [row["error"] for row in self.rows(result)]
        self.assertEqual(len(errors), 7)
        self.assertEqual(sum("the answer was lost" in error for error in errors), 4, errors)
        self.assertEqual(sum("lost 4 times without an answer, and is not started again" in error for error in errors), 3)

    def test_killed_by_others(self):
        process = self.start("run", TINY_F16, "--temperature", "0", "--raw", "-n", "400", "--ctx", "512", "Hello", once=False)
        self.wait_for(lambda: children_of(process.pid))
        first = children_of(process.pid)[0]
        self.assertTrue(process.stdout.read(1))  # it answers
        os.kill(first, signal.SIGKILL)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, err)
        self.assertIn(b"the answer was lost: the engine's process ended with signal 9 (Killed)", err)

    def test_interrupted_while_the_device_hangs(self):
        for worker in ("on", "off"):
            with self.subTest(worker=worker):
                process = self.start("run", TINY_F16, *GREEDY, "Hello", fault="hang:30", once=False, GABBRO_WORKER=worker,
                                     GABBRO_SIM_PATIENCE="0.2")
                line = b""
                while b"no progress for" not in line:
                    line = process.stderr.readline()
                    self.assertTrue(line)
                self.assertIn(b"sim: no progress for 0.2", line)
                self.assertIn(b"enqueued last, the newest first: ", line)
                children = children_of(process.pid)
                self.assertEqual(len(children), 1 if worker == "on" else 0)
                start = time.monotonic()
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=30)
                self.assertEqual(process.returncode, 130)
                self.assertLess(time.monotonic() - start, 1)
                self.wait_for(lambda: not any(map(is_there, children)), 10)

    def test_interrupted_batch_keeps_what_is_done(self):
        process = self.start("run", TINY_F16, *GREEDY, "--prompts", self.prompts(), "--parallel", "1", fault="hang:150",
                             once=False, GABBRO_SIM_PATIENCE="0.2")
        while b"no progress for" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        rows = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(process.returncode, 130)
        self.assertEqual(len(rows), len(PROMPTS))
        self.assertEqual((rows[0]["stop_reason"], rows[-1]["stop_reason"]), ("length", "cancelled"))

    def test_no_orphan_when_the_program_is_killed(self):
        for fault in (None, "hang:30"):
            process = self.start("run", TINY_F16, "--raw", "-n", "400", "--ctx", "512", "Hello", fault=fault, once=False)
            self.wait_for(lambda: children_of(process.pid))
            children = children_of(process.pid)
            time.sleep(0.3)
            process.kill()
            process.wait()
            self.wait_for(lambda: not any(map(is_there, children)), 5)

    def test_the_worker_is_chosen_by_the_device(self):
        self.fails(2, "run", TINY_F16, "Hello", environment={"GABBRO_WORKER": "perhaps"},
                   says="GABBRO_WORKER is 'perhaps', expected on, off or auto")
        for device, expected in (("cpu", 0), ("sim:0", 0)):
            process = self.start("run", TINY_F16, "--raw", "-n", "400", "--ctx", "512", "Hello", once=False,
                                 GABBRO_WORKER="auto", GABBRO_DEVICE=device)
            self.assertTrue(process.stdout.read(1))
            self.assertEqual(len(children_of(process.pid)), expected, device)
            process.kill()
        # A device that is not there: the worker says so.
        self.fails(3, "run", TINY_F16, "Hello", environment={"GABBRO_WORKER": "auto", "GABBRO_DEVICE": "rocm"},
                   says="no usable ROCm device")


class EmulatedHip(TestCase):
    """The same with the ROCm plugin, on a runtime that aborts (6.4) or returns an error for ever (7.2) after a fault."""
    RUNTIME = support.BUILD / "lib" / "emulated_hip"

    def environment(self, release, **more):
        return {"LD_LIBRARY_PATH": str(self.RUNTIME), "EMULATED_GPUS": "gfx1100", "EMULATED_GPU_STRICT": release,
                "GABBRO_DEVICE": "rocm:0", "GABBRO_GRAPHS": "0", **more}  # whose test has thousands of launches

    def rows(self, environment, code):
        path = self.file("prompts.txt", "".join(prompt + "\n" for prompt in PROMPTS))
        result = gabbro("run", TINY_F16, *GREEDY, "--prompts", path, "--parallel", "1", environment=environment)
        self.assertEqual(result.code, code, result)
        return [json.loads(line) for line in result.out.decode().splitlines()], result

    @unittest.skipUnless((RUNTIME / "libamdhip64.so.7").exists(), "needs a build with GABBRO_EMULATED_HIP")
    def test_prompts_go_on_after_a_fault(self):
        statistics = self.folder / "statistics"
        whole, _ = self.rows(self.environment("7.2", EMULATED_GPU_STATISTICS=str(statistics), GABBRO_WORKER="off"), 0)
        launches = max(json.loads(line)["launches"] for line in statistics.read_text().splitlines())
        for release, says in (("6.4", "signal 6 (Aborted)"), ("7.2", "the device was lost")):
            with self.subTest(release=release):
                fault = f"launch:{launches * 3 // 5}"  # in every process
                rows, result = self.rows(self.environment(release, EMULATED_GPU_FAIL=fault), 1)
                lost = [row["index"] for row in rows if "error" in row]
                self.assertTrue(lost and 0 < lost[0] < len(PROMPTS) - 1, result)
                self.assertNotIn(lost[0] + 1, lost, result)
                for row in rows:
                    if row["index"] in lost:
                        self.assertIn("the answer was lost: ", row["error"])
                        self.assertIn(says, row["error"])
                        self.assertIn("the last launches were, the newest first: ", row["error"])
                    else:
                        self.assertEqual(row, whole[row["index"]])


if __name__ == "__main__":
    support.main()

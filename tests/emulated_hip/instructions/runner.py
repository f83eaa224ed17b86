"""Runs programs of the build on the emulated runtime with machine code below it."""
import dataclasses
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import cases
from code_objects import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import emulator_corrections

SECONDS = 1500  # of a case
_FAULT = re.compile(r"^emulated (?:GPU|HIP): (.*)", re.MULTILINE)
_WRONG = re.compile(r"^(element \d+: .*|at .*: expected .*|.*, actual .*|C\+\+ exception with description .*)$", re.MULTILINE)
_ROUND = re.compile(r"Repeating all tests \(iteration (\d+)\)")


@dataclasses.dataclass(frozen=True)
class Launches:
    count: int
    write_backs: int  # of L2 caches
    system_loads: int


@dataclasses.dataclass
class Result:
    """`problem` is empty if the case passed; `round` is that of the first failure."""

    problem: str = ""
    round: int = 0
    launches: dict = dataclasses.field(default_factory=dict)


def find_python():
    """Variables of the first Python that has numpy and a shared library; None without one."""
    facts = ("import numpy, sys, sysconfig; of = sysconfig.get_config_var; "
             "print(of('Py_ENABLE_SHARED'), of('LIBDIR'), of('INSTSONAME'), sys.base_prefix)")
    for program in dict.fromkeys((sys.executable, "/usr/bin/python3")):
        try:
            done = subprocess.run([program, "-c", facts], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            continue
        words = done.stdout.split()
        if done.returncode == 0 and words[0] == "1":
            file = pathlib.Path(words[1]) / words[2]
            return {"EMULATED_GPU_PYTHON": str(file) if file.is_file() else words[2], "PYTHONHOME": words[3]}
    return None


class Emulation:
    def __init__(self, build, emulator, tinygrad, clang, python):
        """`emulator` and `tinygrad` are checkouts; corrected copies are made in the build folder."""
        self.build, self.folder, self.clang, self.python = build, build / "instructions", clang, python
        self.folder.mkdir(parents=True, exist_ok=True)
        emulator_corrections.corrected(tinygrad, self.folder / "tinygrad")
        emulator_corrections.corrected(emulator, self.folder / "emulator", emulator_corrections.EMULATOR_CORRECTIONS, {})

    def environment(self, target, code, seed, launches, **variables):
        library = str(self.build / "lib" / "emulated_hip")
        return {**os.environ, "LD_LIBRARY_PATH": library, "EMULATED_GPUS": target, "EMULATED_GPU_SEED": str(seed),
                "EMULATED_GPU_INSTRUCTIONS": str(self.folder / "emulator"), "EMULATED_GPU_CODE": str(code),
                "EMULATED_GPU_LAUNCHES": str(launches), "TINYGRAD_DIR": str(self.folder / "tinygrad"), "CC": self.clang,
                "GABBRO_BUILD_DIR": str(self.build), "GABBRO_DEVICE": "rocm:0", "GABBRO_FUSE": "0", "GABBRO_GRAPHS": "0",
                "GABBRO_TUNING_FILE": "", "PYTHONDONTWRITEBYTECODE": "1", **self.python, **variables}

    def host_environment(self, target):
        """The runtime with host kernels."""
        machine_code = ("EMULATED_GPU_INSTRUCTIONS", "EMULATED_GPU_CODE", "EMULATED_GPU_LAUNCHES", "PYTHONHOME")
        variables = self.environment(target, "", 1, "")
        return {name: value for name, value in variables.items() if name not in machine_code}

    def _run(self, words, target, code, seed, **variables):
        """(status, output, "kernel grid" -> Launches)"""
        with tempfile.TemporaryDirectory() as folder:
            launches = pathlib.Path(folder) / "launches"
            try:
                done = subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, errors="replace", timeout=SECONDS,
                                      env=self.environment(target, code, seed, launches, **variables))
                status, output = done.returncode, done.stdout
            except subprocess.TimeoutExpired as expired:
                status, output = 124, (expired.stdout or b"").decode(errors="replace") + f"\nmore than {SECONDS} s"
            counts = {}
            if launches.is_file():
                for line in launches.read_text().splitlines():
                    kernel, grid, *numbers = line.split()
                    counts[f"{kernel} {grid}"] = Launches(*map(int, numbers))
        return status, output, counts

    def run_case(self, case, target, code, seed, rounds):
        """`rounds` rounds of the case's tests; no two launches have the same order."""
        words = [self.build / "tests" / case.program, f"--gtest_filter={':'.join(case.tests)}",
                 f"--gtest_repeat={rounds}", "--gtest_brief=1", "--gtest_break_on_failure=0",
                 "--gtest_throw_on_failure=0"]
        status, output, launches = self._run(words, target, code, seed)
        if status == 0:
            if "[==========] 0 tests" in output:
                return Result(f"no test {case.tests}", 0, launches)
            problem = self._cost(case, launches)
            return Result(problem, 1 if problem else 0, launches)
        first = re.search(r"FAILED|^emulated (?:GPU|HIP):", output, re.MULTILINE)
        ahead = output[:first.start()] if first else output
        repetitions = _ROUND.findall(ahead)
        return Result(self._problem(output, status), int(repetitions[-1]) if repetitions else 1, launches)

    @staticmethod
    def _cost(case, launches):
        """A block whose partial results others add writes the L2 cache back once, and polls no further than it."""
        for launch, of in launches.items():
            if "splits" not in case.name or not re.search(case.kernels, launch):
                continue
            blocks = math.prod(map(int, launch.split()[1].split("x"))) * of.count
            if of.write_backs > blocks:
                return f"{launch}: {blocks} blocks write an L2 cache back {of.write_backs} times"
            if of.system_loads and not case.peeks:
                return f"{launch}: {of.system_loads} loads of system scope"
        return ""

    @staticmethod
    def _problem(output, status):
        fault = _FAULT.search(output) or _WRONG.search(output)
        if fault:
            return fault[1][:200]
        lines = [line for line in output.splitlines() if line.strip()]
        return f"status {status}: {lines[-1][:160] if lines else 'no output'}"

    def run_model(self, target, code, seed):
        """Tokens of a tiny model, generated as on the CPU."""
        words = [self.build / "bin" / "gabbro", "run", ROOT / cases.MODEL, "hello", "--raw", "-n", cases.MODEL_TOKENS,
                 "--temperature", "0", "--json", "--device"]
        _, expected, _ = self._run([*words, "cpu"], target, code, seed)
        status, output, launches = self._run([*words, "rocm:0"], target, code, seed)
        tokens = [_tokens(text) for text in (expected, output)]
        if status != 0 or tokens[0] != tokens[1]:
            problem = self._problem(output, status) if status != 0 else f"tokens {tokens[1]}, on the CPU {tokens[0]}"
            return Result(problem, seed, launches)
        return Result("", 0, launches)


def _tokens(output):
    begin, end = output.find("{"), output.rfind("}")
    try:
        return json.loads(output[begin:end + 1])["token_ids"]
    except (ValueError, KeyError):
        return None

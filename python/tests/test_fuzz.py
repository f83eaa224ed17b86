"""A few rounds of the random calls; `./test python-fuzz` makes more of them, under the address sanitizer."""

import subprocess
import sys
from pathlib import Path

FUZZ = Path(__file__).with_name("fuzz_calls.py")


def test_random_calls_end_as_calls_may():
    command = [sys.executable, str(FUZZ), "--seconds", "5", "--calls", "300"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_round_is_repeated_by_its_seed():
    command = [sys.executable, str(FUZZ), "--calls", "60", "--verbose", "--round", "4"]
    first, second = (subprocess.run(command, capture_output=True, text=True, timeout=120) for _ in range(2))
    assert first.stdout == second.stdout
    assert first.stdout.count("Error") > 5, "many calls are wrong, and say so"

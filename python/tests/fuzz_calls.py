"""Calls everything public with arguments of any kind: ordinary exceptions are fine, crashes and hangs are not.

    python python/tests/fuzz_calls.py [--seconds 600] [--seed 0] [--calls 1000]
    python python/tests/fuzz_calls.py --round SEED     repeats one round

`./test python-fuzz` runs it with an extension that has the address sanitizer. Each round is a separate process, so
that one that dies is known by its seed, and its last call by what it noted before it. Tensors are on the CPU in even
rounds and on the simulator in odd ones, where its plugin is built. Exits 1 where something was found.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import os
import pickle
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

from fuzzing.calls import Calls
from fuzzing.values import Values

MEMORY = 6 << 30  # bytes of a round's address space: what asks for more gets an exception
SLOW = 10  # seconds until a call is interrupted, as by Ctrl-C
HANG = 60  # and until it counts as one that does not come back
ORDINARY = (
    TypeError, ValueError, LookupError, AttributeError, RuntimeError, OverflowError, ZeroDivisionError, MemoryError,
    BufferError, StopIteration, OSError, pickle.PickleError,
)  # fmt: skip
# Names that users do not know: an untranslated exception of C++, or an assertion.
OUR_WORDS = re.compile(r"std::|basic_string|vector::|map::at|unordered_map|[Ii]nternal error|[Aa]ssert")


class Watch(threading.Thread):
    """Interrupts calls that take long, and ends the process where that does not help."""

    def __init__(self):
        super().__init__(daemon=True)
        self.started, self.told = None, False

    def begin(self):
        self.told, self.started = False, time.monotonic()
        signal.alarm(HANG + SLOW)  # in case the call keeps Python's lock

    def run(self):
        while True:
            time.sleep(0.5)
            passed = 0 if self.started is None else time.monotonic() - self.started
            if passed > HANG:
                faulthandler.dump_traceback()
                os._exit(98)
            if passed > SLOW and not self.told:
                self.told = True
                os.kill(os.getpid(), signal.SIGINT)


def objection(error):
    """What is wrong with this exception, or None where a user can expect it."""
    words = str(error)
    if not isinstance(error, ORDINARY):
        return "no ordinary exception"
    if not words and not isinstance(error, (StopIteration, MemoryError)):
        return "no words"
    if OUR_WORDS.search(words) and not isinstance(error, AttributeError):
        return "words that no user knows"
    return None


def round_of_calls(seed, count, note, verbose):
    import gabbro as gb

    faulthandler.enable()
    faulthandler.register(signal.SIGALRM, chain=True)
    warnings.simplefilter("ignore")
    if "asan" not in os.environ.get("LD_PRELOAD", ""):  # whose shadow needs more
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    devices = ["cpu", "sim:0"] if has_simulator(gb) else ["cpu"]
    if seed % 2 == 1:
        devices.reverse()
    gb.set_device(devices[0])
    gb.seed(seed % (1 << 31))
    values = Values(gb, random.Random(seed), devices)
    calls, raised, found, watch = Calls(gb, values), collections.Counter(), 0, Watch()
    watch.start()
    for number in range(count):
        text = "preparing"
        try:
            watch.begin()
            for text in calls.next():
                note(f"call {number}: {text}")
                watch.begin()
        except KeyboardInterrupt:
            raised["slow"] += 1
            if verbose:
                print(f"slow: {text}")
        except Exception as error:
            raised[type(error).__name__] += 1
            if verbose:
                print(f"{text}\n    {type(error).__name__}: {error}")
            wrong = objection(error)
            if wrong:
                found += 1
                print(f"{wrong}: call {number}: {text}\n    {type(error).__name__}: {error}", file=sys.stderr)
        watch.started = None
    signal.alarm(0)
    print(f"{count} calls on {devices[0]}, {dict(sorted(raised.items()))}", flush=True)
    return 1 if found else 0


def has_simulator(gb):
    folder = Path(gb._core.__file__).parents[2] / "lib"  # of the build
    if not (folder / "libgabbro_sim.so").exists():
        return False
    os.environ["GABBRO_PLUGIN_PATH"] = str(folder)
    return True


def run_round(seed, options):
    """Whether the round ended well; prints how, and what it did last where it did not."""
    with tempfile.TemporaryDirectory() as folder:
        noted = Path(folder) / "call"
        command = [sys.executable, __file__, "--round", str(seed), "--calls", str(options.calls), "--note", str(noted)]
        environment = {**os.environ, "GABBRO_HOME": folder, "GABBRO_TUNING_FILE": f"{folder}/tuning"}
        environment.pop("GABBRO_DEVICE", None)
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment)
        if done.returncode == 0:
            print(f"seed {seed}: {done.stdout.strip()}", flush=True)
            return True
        last = noted.read_text(errors="replace") if noted.exists() else "nothing"
    print(f"seed {seed} ended with {done.returncode} in {last}\n{done.stderr[-6000:]}")
    print(f"again: {Path(__file__).name} --calls {options.calls} --round {seed}", flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0, help="of the first round")
    parser.add_argument("--calls", type=int, default=1000, help="of a round")
    parser.add_argument("--round", type=int, metavar="SEED", help="this round alone, in this process")
    parser.add_argument("--verbose", action="store_true", help="with --round: print the exceptions")
    parser.add_argument("--note", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.round is not None:
        file = os.open(options.note or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

        def note(text):
            data = text.encode(errors="replace")
            os.pwrite(file, data, 0)
            os.ftruncate(file, len(data))

        return round_of_calls(options.round, options.calls, note, options.verbose)
    start, seed, failed = time.monotonic(), options.seed, []
    while seed == options.seed or time.monotonic() - start < options.seconds:
        if not run_round(seed, options):
            failed.append(seed)
        seed += 1
    print(f"{seed - options.seed} rounds of {options.calls} calls; found something in: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

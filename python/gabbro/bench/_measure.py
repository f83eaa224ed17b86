"""Times of functions, in turns: what slows the machine for a while slows all of them."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

# A sample is as many runs as take a millisecond, with one wait for the device at its end: the host's work for a run
# then overlaps with the device's, as in a program, and the clock is read rarely enough.
SAMPLE_SECONDS = 1e-3
MOST_RUNS = 1000
CASE_SECONDS = 0.25
LEAST_SAMPLES, MOST_SAMPLES = 5, 200
TURNS = 5
LONG_SECONDS = 0.05  # for longer runs the beginning of a turn does not matter


@dataclasses.dataclass
class Subject:
    """Something to measure."""

    run: Callable[[], Any]
    synchronize: Callable[[], None]
    once: float = 0
    runs: int = 1
    samples: int = 0
    seconds: list[float] = dataclasses.field(default_factory=list)

    def sample(self, runs: int) -> float:
        """Seconds of a run, on the average of `runs` of them."""
        start = time.perf_counter()
        for _ in range(runs):
            self.run()
        self.synchronize()
        return (time.perf_counter() - start) / runs

    def prepare(self, iterations: int, warmup: int) -> None:
        """Runs it `warmup` times and once more, and says how it is sampled; iterations 0: as long as it needs."""
        if warmup > 0:
            self.sample(warmup)
        self.once = max(self.sample(1), 1e-9)
        self.runs = min(max(math.ceil(SAMPLE_SECONDS / self.once), 1), MOST_RUNS)
        fitting = int(CASE_SECONDS / (self.once * self.runs))
        self.samples = iterations or min(max(fitting, LEAST_SAMPLES), MOST_SAMPLES)

    def facts(self) -> dict[str, float]:
        return {
            "median": statistics.median(self.seconds),
            "min": min(self.seconds),
            "max": max(self.seconds),
        }


@contextlib.contextmanager
def _without_gc() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def measure(subjects: list[Subject]) -> None:
    """Takes the samples of prepared subjects, some of one and then some of the next, again and again.

    Threads of one wait for more work for a moment before they sleep, and would take the processor from the next: where
    there are several subjects, the first sample of a turn does not count, unless it is a long one.
    """
    with _without_gc():
        for turn in range(TURNS):
            for subject in subjects:
                count = subject.samples * (turn + 1) // TURNS - subject.samples * turn // TURNS
                if count > 0 and len(subjects) > 1 and subject.once < LONG_SECONDS:
                    subject.sample(subject.runs)
                subject.seconds += [subject.sample(subject.runs) for _ in range(count)]

"""Processes that fetch and collate batches for a DataLoader."""

from __future__ import annotations

import multiprocessing
import pickle
import queue
import random
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...functions.random import manual_seed
from .fetch import Fetcher


@dataclass
class WorkerInfo:
    """The process that asks: its number, how many there are, its seed and its copy of the data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """What is known of the worker process; None in the main process."""
    return _info


@dataclass
class Failure:
    """An error of a worker."""

    error: BaseException | None
    text: str
    worker: int


class End:
    """A worker's iterable data set has no more items."""


def _failure(error: BaseException, worker: int) -> Failure:
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # an error with other constructor arguments
        return Failure(None, text, worker)
    error.__traceback__ = None
    return Failure(error, text, worker)


def work(info: WorkerInfo, fetcher: Fetcher, init: Any, tasks: Any, results: Any) -> None:
    """Runs in the process: answers (number, indices) with (number, batch) until it gets None."""
    global _info
    _info = info
    random.seed(info.seed)
    np.random.seed(info.seed % 2**32)
    manual_seed(info.seed)
    failed: Failure | None = None
    try:
        if init is not None:
            init(info.id)
    except Exception as error:
        failed = _failure(error, info.id)
    while True:
        try:
            task = tasks.get()
        except (EOFError, OSError):
            return
        if task is None:
            return
        round_number, number, indices = task
        if number == 0 or indices is None:
            fetcher.restart_if_new(round_number)
        answer: Any = failed
        if failed is None:
            try:
                answer = fetcher.fetch(indices)
            except StopIteration:
                answer = End()
            except Exception as error:
                answer = _failure(error, info.id)
        try:
            results.put((round_number, number, info.id, answer))
        except (EOFError, OSError, ValueError):
            return


class Workers:
    """The processes of a DataLoader."""

    def __init__(self, count: int, fetcher: Fetcher, init: Any, seed: int, context: Any) -> None:
        named = isinstance(context, str) or context is None
        self._context: Any = multiprocessing.get_context(context) if named else context
        self.results = self._context.Queue()
        self.tasks = [self._context.Queue() for _ in range(count)]
        self.processes = []
        for number, tasks in enumerate(self.tasks):
            info = WorkerInfo(number, count, seed + number, fetcher.dataset)
            process = self._context.Process(target=work, args=(info, fetcher, init, tasks, self.results), daemon=True)
            process.start()
            self.processes.append(process)
        self.round = 0

    def batches(self, indices: Iterator[Any], ahead: int, timeout: float, is_iterable: bool) -> Iterator[Any]:
        """The batches for lists of indices, in their order; of iterable data sets in the order of the workers."""
        self.round += 1
        waiting: dict[int, Any] = {}
        living = list(range(len(self.processes)))
        sent = given = 0
        more = True
        while True:
            while more and living and sent - given < ahead * len(self.processes):
                wanted = None if is_iterable else next(indices, None)
                if wanted is None and not is_iterable:
                    more = False
                    break
                self.tasks[living[sent % len(living)]].put((self.round, sent, wanted))
                sent += 1
            if given == sent:
                return
            while given not in waiting:
                number, worker, answer = self._next(timeout)
                waiting[number] = (worker, answer)
            worker, answer = waiting.pop(given)
            given += 1
            if isinstance(answer, End):
                if worker in living:
                    living.remove(worker)
                continue
            if isinstance(answer, Failure):
                error = answer.error if answer.error is not None else RuntimeError(answer.text)
                raise error from RuntimeError(f"in worker {answer.worker} of a DataLoader:\n{answer.text}")
            yield answer

    def _next(self, timeout: float) -> tuple[int, int, Any]:
        waited = 0.0
        while True:
            try:
                round_number, number, worker, answer = self.results.get(timeout=min(timeout or 5.0, 5.0))
            except queue.Empty:
                waited += min(timeout or 5.0, 5.0)
                dead = [p for p in self.processes if not p.is_alive()]
                if dead:
                    raise RuntimeError(f"[DataLoader] a worker ended with exit code {dead[0].exitcode}") from None
                if timeout and waited >= timeout:
                    raise RuntimeError(f"[DataLoader] no batch came within {timeout} seconds") from None
                continue
            if round_number == self.round:
                return number, worker, answer

    def close(self) -> None:
        """Ends the processes."""
        for tasks in self.tasks:
            tasks.put(None)
        for process in self.processes:
            process.join(timeout=2)
            if process.is_alive():
                process.terminate()
                process.join()
        for one in [*self.tasks, self.results]:
            one.cancel_join_thread()
            one.close()

"""DataLoader: batches of a data set, made here or by worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from ...functions.random import Generator, randint
from .collate import default_collate, default_convert
from .datasets import IterableDataset, TensorDataset
from .fetch import Fetcher
from .samplers import BatchSampler, RandomSampler, SequentialSampler
from .workers import WorkerInfo as WorkerInfo
from .workers import Workers
from .workers import get_worker_info as get_worker_info


class DataLoader:
    """Batches of a data set.

    Parameters
    ----------
    dataset : Dataset
        With `__getitem__` and `__len__`, or an IterableDataset.
    batch_size : int, optional
        None: items alone, which are converted and not stacked.
    shuffle : bool, optional
        In a new random order each time, of `generator`.
    sampler, batch_sampler : iterable, optional
        Numbers, or lists of numbers, in the order in which they are wanted.
    num_workers : int
        Processes that fetch and collate; 0: this one does.
    collate_fn : callable, optional
        Makes a batch of a list of items; without it `default_collate`.
    pin_memory : bool
        Allowed: copies to a GPU go through pinned memory in any case.
    drop_last : bool
        Leaves out a last batch that is shorter.
    timeout : float
        Seconds to wait for a worker; 0: any time.
    worker_init_fn : callable, optional
        Called in each worker with its number.
    multiprocessing_context : str or context, optional
    generator : Generator, optional
    prefetch_factor : int, optional
        Batches that each worker makes ahead: 2.
    persistent_workers : bool
        The workers live as long as the loader.
    pin_memory_device : str
        Allowed, as `pin_memory`.
    in_order : bool
        False is not supported.

    Raises
    ------
    ValueError
        For arguments that exclude each other, as in PyTorch.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self._workers: Workers | None = None
        if not isinstance(num_workers, int) or isinstance(num_workers, bool) or num_workers < 0:
            raise ValueError(f"[DataLoader] num_workers is an integer from 0 on, not {num_workers!r}")
        if timeout < 0:
            raise ValueError(f"[DataLoader] timeout is not negative: {timeout}")
        if num_workers == 0 and (
            prefetch_factor is not None or persistent_workers or multiprocessing_context is not None
        ):
            raise ValueError(
                "[DataLoader] prefetch_factor, persistent_workers and multiprocessing_context need num_workers > 0"
            )
        if prefetch_factor is not None and prefetch_factor < 1:
            raise ValueError(f"[DataLoader] prefetch_factor is 1 or larger, not {prefetch_factor}")
        if not in_order:
            raise ValueError("[DataLoader] in_order=False is not supported")
        is_iterable = isinstance(dataset, IterableDataset)
        if is_iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("[DataLoader] an IterableDataset has its own order: no shuffle, sampler or batch_sampler")
        if sampler is not None and shuffle:
            raise ValueError("[DataLoader] sampler and shuffle exclude each other")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("[DataLoader] batch_sampler excludes batch_size, shuffle, sampler and drop_last")
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("[DataLoader] drop_last needs a batch_size")
        self.dataset, self.num_workers, self.pin_memory, self.drop_last = dataset, num_workers, pin_memory, drop_last
        self.timeout, self.worker_init_fn, self.generator = timeout, worker_init_fn, generator
        self.multiprocessing_context, self.pin_memory_device = multiprocessing_context, pin_memory_device
        self.prefetch_factor = prefetch_factor if prefetch_factor is not None or not num_workers else 2
        self.persistent_workers = persistent_workers
        if sampler is None and not is_iterable:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        self.sampler: Any = sampler
        if batch_size is not None and batch_sampler is None and not is_iterable:
            batch_sampler = BatchSampler(cast(Any, sampler), batch_size, drop_last)
        elif is_iterable and batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise ValueError(f"[DataLoader] batch_size is an integer from 1 on, not {batch_size!r}")
        self.batch_size = batch_size
        self.batch_sampler: Any = batch_sampler
        by_batch = batch_sampler is not None or (is_iterable and batch_size is not None)
        self.collate_fn = collate_fn or (default_collate if by_batch else default_convert)
        self._by_batch = by_batch

    def _fetcher(self) -> Fetcher:
        return Fetcher(self.dataset, self.collate_fn, self.batch_size, self.drop_last, self._by_batch)

    def __iter__(self) -> Iterator[Any]:
        is_iterable = isinstance(self.dataset, IterableDataset)
        order: Iterator[Any] = iter(())
        if not is_iterable:
            order = iter(self.batch_sampler if self._by_batch else self.sampler)
        if self.num_workers == 0:
            return self._here(order, is_iterable)
        return self._by_workers(order, is_iterable)

    def _here(self, order: Iterator[Any], is_iterable: bool) -> Iterator[Any]:
        fetcher = self._fetcher()
        whole = type(self.dataset) is TensorDataset and self.collate_fn is default_collate and self._by_batch
        while True:
            indices = None
            if not is_iterable:
                indices = next(order, None)
                if indices is None:
                    return
            if whole:  # rows of a tensor by a list of numbers are one op
                yield list(self.dataset[indices])
                continue
            try:
                batch = fetcher.fetch(indices)
            except StopIteration:
                return
            yield batch

    def _by_workers(self, order: Iterator[Any], is_iterable: bool) -> Iterator[Any]:
        workers = self._workers
        if workers is None:
            seed = int(randint(0, 2**31 - 1, (), generator=self.generator, device="cpu"))
            workers = Workers(
                self.num_workers, self._fetcher(), self.worker_init_fn, seed, self.multiprocessing_context
            )
            if self.persistent_workers:
                self._workers = workers
        try:
            yield from workers.batches(order, self.prefetch_factor or 2, self.timeout, is_iterable)
        finally:
            if workers is not self._workers:
                workers.close()

    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            count = len(self.dataset)  # type: ignore[arg-type]
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self.batch_sampler if self._by_batch else self.sampler)

    def __del__(self) -> None:
        workers = getattr(self, "_workers", None)
        if workers is not None:
            self._workers = None
            workers.close()

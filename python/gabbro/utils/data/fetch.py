"""Batches of a data set: items for a list of numbers, or the next ones of an iterable data set."""

from __future__ import annotations

import itertools
from typing import Any

from .datasets import IterableDataset


class Fetcher:
    """Fetches and collates. `batch_size` None: single items."""

    def __init__(self, dataset: Any, collate: Any, batch_size: int | None, drop_last: bool, by_batch: bool) -> None:
        self.dataset, self.collate = dataset, collate
        self.batch_size, self.drop_last, self.by_batch = batch_size, drop_last, by_batch
        self._round = 0
        self._items: Any = None

    def restart_if_new(self, number: int) -> None:
        """An iterable data set begins again in each round."""
        if number != self._round:
            self._round, self._items = number, None

    def fetch(self, indices: Any) -> Any:
        """The batch; raises StopIteration where an iterable data set has no more."""
        if isinstance(self.dataset, IterableDataset):
            return self._next_of_iterable()
        if not self.by_batch:
            return self.collate(self.dataset[indices])
        if hasattr(self.dataset, "__getitems__"):
            return self.collate(self.dataset.__getitems__(indices))
        return self.collate([self.dataset[index] for index in indices])

    def _next_of_iterable(self) -> Any:
        if self._items is None:
            self._items = iter(self.dataset)
        if self.batch_size is None:
            return self.collate(next(self._items))
        items = list(itertools.islice(self._items, self.batch_size))
        if not items or (self.drop_last and len(items) < self.batch_size):
            raise StopIteration
        return self.collate(items)

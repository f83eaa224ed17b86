"""Data sets: what gives an item for a number, or one item after another."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ..._core import Tensor
from ...functions.random import Generator, randperm

T = TypeVar("T", covariant=True)
S = TypeVar("S")


class Dataset(Generic[T]):
    """Items by their numbers: a class that derives from it has `__getitem__`, and for most samplers `__len__`."""

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError(f"[Dataset] a {type(self).__name__} has no __getitem__")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Items in sequence: a class that derives from it has `__iter__`."""

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"[IterableDataset] a {type(self).__name__} has no __iter__")

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors with the same length: item `i` is the tuple of their elements `i`."""

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors or any(len(x) != len(tensors[0]) for x in tensors):
            raise ValueError(f"[TensorDataset] tensors of one length, not of shapes {[x.shape for x in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(x[index] for x in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class StackDataset(Dataset[Any]):
    """Data sets of one length: item `i` is the tuple, or dict, of their items `i`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("[StackDataset] data sets as arguments, or under names")
        self.datasets: Any = kwargs or args
        lengths = {len(one) for one in (kwargs.values() if kwargs else args)}
        if len(lengths) != 1:
            raise ValueError(f"[StackDataset] data sets of different lengths: {sorted(lengths)}")
        self._length = lengths.pop()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: one[index] for name, one in self.datasets.items()}
        return tuple(one[index] for one in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[Any]):
    """Consecutive data sets, by number."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("[ConcatDataset] there are no data sets")
        if any(isinstance(one, IterableDataset) for one in self.datasets):
            raise ValueError("[ConcatDataset] an IterableDataset has no numbers: use ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(one) for one in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(f"[ConcatDataset] {index} is out of range for {len(self)} items")
        number = bisect.bisect_right(self.cumulative_sizes, at)
        return self.datasets[number][at - (self.cumulative_sizes[number - 1] if number else 0)]


class ChainDataset(IterableDataset[Any]):
    """Consecutive iterable data sets."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self) -> int:
        return sum(len(one) for one in self.datasets)


class Subset(Dataset[Any]):
    """Some items of a data set, by their numbers there."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[int | float], generator: Generator | None = None) -> list[Subset]:
    """Parts of a data set with these lengths, or shares that add up to 1, in a random order."""
    counts = list(lengths)
    if math.isclose(sum(counts), 1) and sum(counts) <= 1:
        if any(not 0 <= share <= 1 for share in counts):
            raise ValueError(f"[random_split] shares are from 0 to 1: {counts}")
        wholes = [math.floor(len(dataset) * share) for share in counts]
        for number in range(len(dataset) - sum(wholes)):
            wholes[number % len(wholes)] += 1
        counts = list(wholes)
    if sum(counts) != len(dataset):
        raise ValueError(f"[random_split] the lengths {counts} are not {len(dataset)} together")
    order = randperm(len(dataset), generator=generator).tolist()
    ends = list(itertools.accumulate(int(count) for count in counts))
    return [Subset(dataset, order[end - int(count) : end]) for end, count in zip(ends, counts, strict=True)]

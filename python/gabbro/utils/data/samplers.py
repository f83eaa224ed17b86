"""Samplers: the numbers of items, in the order in which they are wanted."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from ... import _core
from ...functions.random import Generator, multinomial, randint, randperm

T = TypeVar("T", covariant=True)


class Sampler(Generic[T]):
    """Numbers of items: a class that derives from it has `__iter__`, and `__len__` where it is known."""

    def __init__(self, data_source: Any = None) -> None:
        pass

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"[Sampler] a {type(self).__name__} has no __iter__")


class SequentialSampler(Sampler[int]):
    """0, 1, 2 and so on."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """All numbers in a random order; or, with `replacement`, numbers that may come more than once."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"[RandomSampler] replacement is a bool, not {replacement!r}")
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples < 1):
            raise ValueError(f"[RandomSampler] num_samples is an integer from 1 on, not {num_samples!r}")
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        """How many numbers there are."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count, wanted = len(self.data_source), self.num_samples
        if self.replacement:
            yield from randint(0, count, (wanted,), generator=self.generator, device="cpu").tolist()
            return
        while wanted > 0:
            order = randperm(count, generator=self.generator, device="cpu").tolist()[:wanted]
            yield from order
            wanted -= len(order)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given numbers in a random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for place in randperm(len(self.indices), generator=self.generator, device="cpu").tolist():
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Numbers with probabilities that are proportional to weights."""

    def __init__(
        self, weights: Any, num_samples: int, replacement: bool = True, generator: Generator | None = None
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples < 1:
            raise ValueError(f"[WeightedRandomSampler] num_samples is an integer from 1 on, not {num_samples!r}")
        self.weights = _core.asarray(weights, dtype=_core.float32)
        if self.weights.ndim != 1:
            raise ValueError(f"[WeightedRandomSampler] weights are a vector, not of shape {self.weights.shape}")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        numbers = multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from numbers.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` numbers of a sampler; the last may be shorter, or missing with `drop_last`."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
            raise ValueError(f"[BatchSampler] batch_size is an integer from 1 on, not {batch_size!r}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"[BatchSampler] drop_last is a bool, not {drop_last!r}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        numbers = iter(self.sampler)
        while batch := list(itertools.islice(numbers, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

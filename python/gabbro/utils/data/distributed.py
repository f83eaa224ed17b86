"""A share of a data set for each of several processes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

from ... import distributed
from ...functions.random import Generator, randperm
from .samplers import Sampler


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th number of a data set, from `rank` on, in an order that `set_epoch` changes.

    Without `num_replicas` and `rank` these are the processes that ``mpirun`` has started.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if (num_replicas is None or rank is None) and not distributed.is_available():
            raise ValueError("[DistributedSampler] num_replicas and rank are needed: mpirun has started no processes")
        num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
        rank = distributed.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"[DistributedSampler] rank {rank} of {num_replicas}")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order = list(range(count))
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            order = randperm(count, generator=generator, device="cpu").tolist()
        if self.drop_last:
            order = order[: self.total_size]
        while order and len(order) < self.total_size:
            order += order[: self.total_size - len(order)]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

"""Data sets, samplers and the loader: batches made here and by worker processes."""

import os
import random

import numpy as np
import pytest

import gabbro as gb
from gabbro.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
    random_split,
)


class Numbers(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        info = get_worker_info()
        return gb.tensor([index, -1 if info is None else info.id]), np.float32(random.random()), index


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return iter(range(7) if info is None else range(info.id, 7, info.num_workers))


class Failing(Numbers):
    def __getitem__(self, index):
        if index == 4:
            raise KeyError("four")
        return index


class Ending(Numbers):
    def __getitem__(self, index):
        os._exit(3)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_batches_are_in_order(workers):
    loader = DataLoader(Numbers(10), batch_size=3, num_workers=workers)
    batches = list(loader)
    assert [batch[2].tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]] and len(loader) == 4
    assert batches[0][0].shape == (3, 2) and batches[0][1].dtype == gb.float32 and batches[0][2].dtype == gb.int64
    by = [set(batch[0][:, 1].tolist()) for batch in batches]
    assert by == [{-1 if workers == 0 else number % workers} for number in range(4)]


def test_workers_live_on_and_end():
    loader = DataLoader(Numbers(10), 3, shuffle=True, num_workers=2, persistent_workers=True, prefetch_factor=1)
    for _ in range(2):
        assert sorted(number for batch in loader for number in batch[2].tolist()) == list(range(10))
    first = iter(loader)
    next(first)
    first.close()  # a round that is left early
    assert sorted(number for batch in loader for number in batch[2].tolist()) == list(range(10))
    processes = loader._workers.processes
    loader.__del__()
    assert not any(process.is_alive() for process in processes)


def test_iterable_data_sets():
    assert [batch.tolist() for batch in DataLoader(Stream(), 2)] == [[0, 1], [2, 3], [4, 5], [6]]
    assert [batch.tolist() for batch in DataLoader(Stream(), 2, drop_last=True)] == [[0, 1], [2, 3], [4, 5]]
    by_two = [batch.tolist() for batch in DataLoader(Stream(), 2, num_workers=2)]
    assert by_two == [[0, 2], [1, 3], [4, 6], [5]]
    assert list(DataLoader(Stream(), None))[:3] == [0, 1, 2]
    assert list(ChainDataset([Stream(), Stream()])) == [*range(7), *range(7)]


def test_errors_of_workers_are_raised_here():
    with pytest.raises(KeyError, match="four") as caught:
        list(DataLoader(Failing(8), 2, num_workers=2))
    assert "worker" in str(caught.value.__cause__)
    with pytest.raises(RuntimeError, match="exit code 3"):
        list(DataLoader(Ending(4), 2, num_workers=1))


def test_workers_have_their_own_seeds():
    def drawn(seed):
        generator = gb.Generator().manual_seed(seed)
        loader = DataLoader(Numbers(4), 1, num_workers=2, generator=generator)
        return [batch[1].item() for batch in loader]

    assert drawn(1) == drawn(1) != drawn(2)
    assert len(set(drawn(1))) == 4
    seen = []
    loader = DataLoader(Numbers(2), 1, num_workers=1, worker_init_fn=lambda number: seen.append(number))
    assert len(list(loader)) == 2 and seen == []  # it is called in the worker


def test_arguments_that_exclude_each_other():
    data = Numbers(4)
    for options in (
        {"batch_size": 0}, {"shuffle": True, "sampler": [0]}, {"batch_sampler": [[0]], "batch_size": 2},
        {"batch_sampler": [[0]], "drop_last": True}, {"num_workers": -1}, {"prefetch_factor": 2}, {"timeout": -1},
        {"persistent_workers": True}, {"batch_size": None, "drop_last": True}, {"in_order": False},
        {"num_workers": 1, "prefetch_factor": 0},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"\["):
            DataLoader(data, **options)
    for options in ({"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}):
        with pytest.raises(ValueError, match="IterableDataset"):
            DataLoader(Stream(), **options)


def test_sets_of_sets():
    x = gb.arange(6).reshape(3, 2)
    assert [part.tolist() for part in StackDataset(x, x[:, 0])[1]] == [[2, 3], 2]
    assert StackDataset(a=x, b=x)[0]["b"].tolist() == [0, 1]
    assert ConcatDataset([Numbers(2), Numbers(3)])[-1][2] == 2 and len(Numbers(2) + Numbers(3)) == 5
    assert Subset(Numbers(5), [4, 1])[0][2] == 4
    with pytest.raises(IndexError):
        ConcatDataset([Numbers(2)])[2]
    for make in (lambda: ConcatDataset([]), lambda: TensorDataset(x, x[0]), lambda: StackDataset(x, gb.ones(2)),
                 lambda: StackDataset(), lambda: ConcatDataset([Stream()]), lambda: random_split(x, [1, 1]),
                 lambda: random_split(x, [1.5, -0.5])):  # fmt: skip
        with pytest.raises(ValueError, match=r"\["):
            make()


def test_samplers():
    generator = gb.Generator().manual_seed(5)
    first = list(RandomSampler(range(20), generator=generator))
    assert sorted(first) == list(range(20)) and first != list(range(20))
    assert first == list(RandomSampler(range(20), generator=generator.manual_seed(5)))
    assert len(list(RandomSampler(range(3), replacement=True, num_samples=10))) == 10
    assert sorted(list(RandomSampler(range(3), num_samples=7))[:6]) == [0, 0, 1, 1, 2, 2]
    assert sorted(SubsetRandomSampler([3, 5])) == [3, 5]
    assert set(WeightedRandomSampler([0.0, 1.0], 9)) == {1}
    assert list(BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    split = random_split(range(10), [0.7, 0.3], gb.Generator().manual_seed(1))
    assert sorted(number for part in split for number in part) == list(range(10)) and len(split[0]) == 7


def test_the_generator_does_not_touch_the_process_numbers():
    gb.manual_seed(3)
    wanted = gb.rand(4).tolist()
    gb.manual_seed(3)
    generator = gb.Generator().manual_seed(9)
    one = gb.randn(3, generator=generator).tolist()
    assert gb.rand(4).tolist() == wanted
    state = generator.get_state()
    two = gb.randn(3, generator=generator).tolist()
    assert one != two
    generator.set_state(state)
    assert gb.randn(3, generator=generator).tolist() == two
    assert generator.initial_seed() == 9 and gb.initial_seed() == 3

"""Futures do what PyTorch's do: the same calls in both libraries, and waiting in other threads."""

import threading
import time

import pytest

import gabbro as gb


def libraries():
    yield gb
    try:
        import torch
    except ImportError:
        return
    yield torch


@pytest.fixture(params=libraries(), ids=lambda library: library.__name__)
def futures(request):
    return request.param.futures


def test_a_value_reaches_those_who_wait(futures):
    future, found = futures.Future(), []
    waiting = [threading.Thread(target=lambda: found.append(future.wait())) for _ in range(3)]
    for thread in waiting:
        thread.start()
    time.sleep(0.02)
    assert not future.done() and found == []
    future.set_result(5)
    for thread in waiting:
        thread.join()
    assert found == [5, 5, 5] and future.done() and future.value() == future.wait() == 5


def test_a_value_is_set_once_and_read_when_it_is_there(futures):
    future = futures.Future()
    with pytest.raises(RuntimeError):
        future.value()
    future.set_result(None)
    assert future.wait() is None
    with pytest.raises(RuntimeError):
        future.set_result(1)


def test_errors_are_raised_where_the_value_is_read(futures):
    future = futures.Future()
    following = future.then(lambda done: done.value() + 1)
    future.set_exception(ValueError("wrong"))
    with pytest.raises(ValueError, match="wrong"):
        future.wait()
    with pytest.raises((ValueError, RuntimeError), match="wrong"):
        following.wait()


def test_callbacks_run_in_their_order(futures):
    future, calls = futures.Future(), []
    future.add_done_callback(lambda done: calls.append(("first", done.value())))
    doubled = future.then(lambda done: calls.append("then") or 2 * done.value())
    assert calls == []
    future.set_result(4)
    assert doubled.wait() == 8 and calls == [("first", 4), "then"]
    future.add_done_callback(lambda done: calls.append("late"))
    assert calls[-1] == "late"


def test_all_values_are_collected(futures):
    several = [futures.Future() for _ in range(3)]
    collected = futures.collect_all(several)
    for number, future in reversed(list(enumerate(several))):
        assert not collected.done()
        future.set_result(number)
    assert [future.value() for future in collected.wait()] == [0, 1, 2]
    assert futures.wait_all(several) == [0, 1, 2]
    assert futures.wait_all([]) == [] and futures.collect_all([]).wait() == []


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="devices"):
        gb.futures.Future(devices=["cpu"])
    with pytest.raises(TypeError, match="not an exception"):
        gb.futures.Future().set_exception("wrong")

"""Values that another thread will set, under the names of torch.futures.

>>> future = gb.futures.Future()
>>> doubled = future.then(lambda done: 2 * done.value())
>>> future.set_result(4)
>>> doubled.wait()
8
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
S = TypeVar("S")

__all__ = ["Future", "collect_all", "wait_all"]


class Future(Generic[T]):
    """A value that one thread sets and others wait for.

    Raises
    ------
    ValueError
        For `devices` other than None or an empty list: tensors need no synchronization between devices.
    """

    def __init__(self, *, devices: list[Any] | None = None) -> None:
        if devices:
            raise ValueError(f"[Future] devices={devices!r} is not supported")
        self._changed = threading.Condition()
        self._is_done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Whether there is a value or an error."""
        return self._is_done

    def wait(self) -> T:
        """The value, when it has been set; raises the error that was set in its place."""
        with self._changed:
            self._changed.wait_for(self.done)
        return self.value()

    def value(self) -> T:
        """The value of a future that is done; RuntimeError before, and the error that was set in its place."""
        if not self._is_done:
            raise RuntimeError("[Future] there is no value yet: wait() waits for it")
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def set_result(self, result: T) -> None:
        """Sets the value and calls the callbacks. RuntimeError if the future is done."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Sets an error, which `wait` and `value` raise. RuntimeError if the future is done."""
        if not isinstance(result, BaseException):
            raise TypeError(f"[Future] {result!r} is not an exception")
        self._finish(None, result)

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Calls ``callback(future)`` when the future is done, or now if it is. Callbacks run in their order."""
        with self._changed:
            if not self._is_done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of ``callback(future)``, which is called when this one is done. It has the callback's error."""
        following: Future[S] = Future()

        def call(done: Future[T]) -> None:
            try:
                value = callback(done)
            except Exception as error:
                following.set_exception(error)
            else:
                following.set_result(value)

        self.add_done_callback(call)
        return following

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._is_done:
                raise RuntimeError("[Future] the value was set before")
            self._value, self._error, self._is_done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            callback(self)


def collect_all(futures: Iterable[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the list of futures, done when all of them are.

    >>> first, second = gb.futures.Future(), gb.futures.Future()
    >>> both = gb.futures.collect_all([first, second])
    >>> first.set_result(1)
    >>> both.done()
    False
    >>> second.set_result(2)
    >>> [future.value() for future in both.wait()]
    [1, 2]
    """
    given = list(futures)
    collected: Future[list[Future[Any]]] = Future()
    if not given:
        collected.set_result([])
        return collected
    lock = threading.Lock()
    waiting = len(given)

    def arrived(future: Future[Any]) -> None:
        nonlocal waiting
        with lock:
            waiting -= 1
            is_last = waiting == 0
        if is_last:
            collected.set_result(given)

    for future in given:
        future.add_done_callback(arrived)
    return collected


def wait_all(futures: Iterable[Future[Any]]) -> list[Any]:
    """The values of all futures, when they are done; raises the error of the first one that has one.

    >>> future = gb.futures.Future()
    >>> future.set_result(3)
    >>> gb.futures.wait_all([future])
    [3]
    """
    return [future.wait() for future in collect_all(futures).wait()]

"""A server over HTTP, in a process: ``gabbro serve`` for programs and tests.

>>> with gb.server.Server("smollm2-135m-instruct-q4_1") as server:  # doctest: +SKIP
...     client = openai.OpenAI(base_url=server.base_url, api_key="none")
...     print(client.models.list().data[0].id)
smollm2-135m-instruct-q4_1
"""

from __future__ import annotations

import collections
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
import weakref
from collections.abc import Sequence
from types import TracebackType

from . import _core

__all__ = ["Server"]

_MOST_LINES = 1000
_LISTENING = re.compile(r"^listening on (http\S+)$")

Option = str | int | float | bool | os.PathLike[str] | Sequence[str]


def _program(given: str | os.PathLike[str] | None) -> str:
    """The program ``gabbro``: the one that is named, else that of the build that this package is in, else of PATH."""
    named = given or os.environ.get("GABBRO_PROGRAM")
    if named:
        found = shutil.which(os.fspath(named))
        if found is None:
            raise FileNotFoundError(f"[server] {os.fspath(named)} is not a program that can be run")
        return found
    built = pathlib.Path(_core.__file__).parents[2] / "bin" / "gabbro"
    if built.is_file():
        return str(built)
    found = shutil.which("gabbro")
    if found is None:
        raise FileNotFoundError("[server] the program 'gabbro' is not in PATH; the variable GABBRO_PROGRAM names it")
    return found


def _arguments(options: dict[str, Option]) -> list[str]:
    """keep_alive=60 as ["--keep-alive", "60"]; True is a flag; a list repeats the option; False leaves it out."""
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words += [option] if value else []
        elif isinstance(value, (str, int, float, os.PathLike)):
            words += [option, os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
        else:
            for one in value:
                words += [option, one]
    return words


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


class Server:
    """A server in a separate process, until `stop` or the end of the ``with`` block.

    Parameters
    ----------
    *models : str or path
        Names or files of models, which are loaded before the server is ready. Others are loaded on demand.
    port : int
        0 takes any free one.
    program : str or path, optional
        The program ``gabbro``. Default: GABBRO_PROGRAM, the one of the same build, or the one in PATH.
    wait : float
        Seconds that loading may take.
    **options
        Options of ``gabbro serve``, with ``_`` for ``-``: ``parallel=8``, ``ctx=8192``, ``deterministic=True``,
        ``alias=["a=b"]``.

    Raises
    ------
    FileNotFoundError
        If there is no such program.
    RuntimeError
        If the server ends, or is not ready within `wait` seconds; the message ends with the last lines of its log.

    Attributes
    ----------
    url : str
        "http://127.0.0.1:PORT"
    base_url : str
        The same with ``/v1``, as clients of OpenAI's dialect take it.
    port : int
    process : subprocess.Popen
    """

    def __init__(
        self,
        *models: str | os.PathLike[str],
        port: int = 0,
        program: str | os.PathLike[str] | None = None,
        wait: float = 600.0,
        **options: Option,
    ) -> None:
        if not 0 <= port <= 65535:
            raise ValueError(f"[server] port {port} is out of range, expected 0 to 65535")
        words = [_program(program), "serve", *(os.fspath(model) for model in models), "--port", str(port)]
        words += _arguments(options)
        self._lines: collections.deque[str] = collections.deque(maxlen=_MOST_LINES)
        self._changed = threading.Condition()
        self._over = False
        self.url = ""
        nothing = subprocess.DEVNULL
        self.process = subprocess.Popen(
            words, stdin=nothing, stdout=nothing, stderr=subprocess.PIPE, text=True, errors="replace"
        )
        # A program that forgets the server, or ends by an exception, leaves no process.
        self._finalizer = weakref.finalize(self, _end, self.process)
        self._reader = threading.Thread(target=self._read, args=(self.process,), name="gabbro.server log", daemon=True)
        self._reader.start()
        try:
            self._wait_until_listening(wait)
        except BaseException:
            self._finalizer()
            raise

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                line = line.rstrip("\n")
                found = _LISTENING.match(line)
                with self._changed:
                    self._lines.append(line)
                    if found and not self.url:
                        self.url = found[1]
                    self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _wait_until_listening(self, wait: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self.url) or self._over, wait)
        if self.url:
            return
        reason = f"the server is not ready within {wait:g} seconds"
        if self._over:
            reason = f"the server ended with code {self.process.wait()}"
        raise RuntimeError(self._with_log(reason))

    def _with_log(self, reason: str) -> str:
        return "\n".join([f"[server] {reason}", *self.logs()[-5:]])

    @property
    def base_url(self) -> str:
        return self.url + "/v1"

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def is_ready(self) -> bool:
        """Whether it runs, loads no model, and is not about to end."""
        if self.process.poll() is not None:
            return False
        try:
            # Proxies of the environment are for other hosts.
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(self.url + "/ready", timeout=10) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def wait_until_ready(self, wait: float = 60.0) -> None:
        """Returns when `is_ready`; raises RuntimeError after `wait` seconds, or where the server has ended."""
        end = time.monotonic() + wait
        while not self.is_ready():
            if self.process.poll() is not None:
                raise RuntimeError(self._with_log(f"the server ended with code {self.process.returncode}"))
            if time.monotonic() > end:
                raise RuntimeError(f"[server] the server is not ready within {wait:g} seconds")
            time.sleep(0.02)

    def logs(self) -> list[str]:
        """The last 1000 lines that it wrote; ``log_level="info"`` makes it write one for each request."""
        with self._changed:
            return list(self._lines)

    def stop(self, drain: float = 30.0) -> int:
        """Ends the server and returns its exit code. Requests that run have `drain` seconds to end.

        A server that has ended already only returns its code.
        """
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(drain)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGTERM)  # the second signal ends it at once
                try:
                    self.process.wait(10)
                except subprocess.TimeoutExpired:
                    self.process.kill()
        code = self.process.wait()
        self._reader.join()
        self._finalizer.detach()
        return code

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "running" if self.process.poll() is None else f"ended with {self.process.returncode}"
        return f"Server({self.url!r}, {state})"


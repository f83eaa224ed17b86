"""The program on a pseudo-terminal."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import unittest

from support import PROGRAM


class Terminal:
    def __init__(self, *arguments, environment=None, columns=0, stdin=None):
        """columns=0: the terminal does not tell its width. `stdin`: a descriptor in place of the terminal."""
        try:
            main, side = pty.openpty()
        except OSError as error:
            raise unittest.SkipTest(f"no pseudo-terminal: {error}") from error
        self.main = main
        self.seen = b""
        self.resize(columns)
        control = lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 0)
        self.process = subprocess.Popen([PROGRAM, *arguments], stdin=side if stdin is None else stdin, stdout=side, stderr=side,
                                        start_new_session=True, env={**os.environ, "TERM": "dumb", **(environment or {})},
                                        preexec_fn=control)
        os.close(side)

    def resize(self, columns):
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", 24 if columns else 0, columns, 0, 0))

    def wait_for(self, pattern, seconds=60):
        """Reads until the pattern has come after what was waited for before; returns what came until then."""
        deadline = time.monotonic() + seconds
        while not (match := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.main], [], [], max(0, deadline - time.monotonic()))
            try:
                chunk = os.read(self.main, 4096) if ready else b""
            except OSError:
                chunk = b""
            if not chunk:
                raise AssertionError(f"{pattern} did not come; got {self.seen!r}")
            self.seen += chunk
        before, self.seen = self.seen[:match.end()], self.seen[match.end():]
        return before

    def type(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        while data:  # the terminal's driver takes some thousand bytes at a time, and echoes them
            _, writable, _ = select.select([], [self.main], [], 0.01)
            if writable:
                data = data[os.write(self.main, data[:512]):]
            self.read_what_is_there()

    def read_what_is_there(self):
        try:
            while select.select([self.main], [], [], 0)[0]:
                self.seen += os.read(self.main, 4096)
        except OSError:  # the program has ended
            pass

    def interrupt(self):
        os.write(self.main, b"\x03")

    def is_raw(self):
        """Whether a key now goes to the program, not to the terminal driver's own line editing (where Ctrl-D would be lost)."""
        return not termios.tcgetattr(self.main)[3] & termios.ICANON

    def leave(self, seconds=20):
        """The exit code; reads on, so that nothing blocks."""
        deadline = time.monotonic() + seconds
        ended = False
        while not ended:
            ended = self.process.poll() is not None  # one more read after the end
            if time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError(f"still running; got {self.seen!r}")
            ready, _, _ = select.select([self.main], [], [], 0.05)
            try:
                while ready:
                    chunk = os.read(self.main, 4096)
                    self.seen += chunk
                    ready = chunk and select.select([self.main], [], [], 0)[0]
            except OSError:
                pass
        return self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.main)

"""The interactive chat, through a pseudo-terminal."""
import fcntl
import json
import os
import pty
import re
import select
import subprocess
import termios
import time
import unittest

import support
from support import PROGRAM, TINY_F16, TestCase


class Terminal:
    def __init__(self, *arguments, environment=None):
        try:
            main, side = pty.openpty()
        except OSError as error:
            raise unittest.SkipTest(f"no pseudo-terminal: {error}") from error
        self.main = main
        self.seen = b""
        self.process = subprocess.Popen([PROGRAM, *arguments], stdin=side, stdout=side, stderr=side, start_new_session=True,
                                        env={**os.environ, "TERM": "dumb", **(environment or {})},
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(side)

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
        os.write(self.main, text.encode())

    def interrupt(self):
        os.write(self.main, b"\x03")

    def is_raw(self):
        """Whether a key now goes to the program, not to the terminal driver's own line editing (where Ctrl-D would be lost)."""
        return not termios.tcgetattr(self.main)[3] & termios.ICANON

    def leave(self, seconds=20):
        """The exit code; reads on, so that nothing blocks."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError(f"still running; got {self.seen!r}")
            ready, _, _ = select.select([self.main], [], [], 0.05)
            try:
                if ready:
                    self.seen += os.read(self.main, 4096)
            except OSError:
                pass
        return self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.main)


class Chat(TestCase):
    def start(self, *arguments):
        terminal = Terminal("run", TINY_F16, "-n", "6", "--temperature", "0", *arguments,
                            environment={"GABBRO_HOME": str(self.folder)})
        self.addCleanup(terminal.close)
        terminal.wait_for(rb"/help lists the commands")
        terminal.wait_for(rb"> ")
        return terminal

    def test_talks_and_leaves(self):
        terminal = self.start()
        terminal.type("Hello\n")
        terminal.wait_for(rb"\n> ")
        terminal.type("/help\n")
        terminal.wait_for(rb"/save FILE")
        terminal.wait_for(rb"> ")
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_end_of_input_leaves(self):
        terminal = self.start()
        terminal.type("\x04")
        self.assertEqual(terminal.leave(), 0)

    def test_a_prompt_says_that_keys_are_heard(self):
        for _ in range(10):
            self.assertTrue(self.start().is_raw())

    def test_saves_and_forgets(self):
        path = self.folder / "chat.json"
        terminal = self.start("--system", "Be brief.")
        for line in ("Hello", "caf\u00e9?", f"/save {path}"):
            terminal.type(line + "\n")
            terminal.wait_for(rb"\n> " if not line.startswith("/") else rb"saved to .*\n")
        messages = json.loads(path.read_text())
        self.assertEqual([m["role"] for m in messages], ["system", "user", "assistant", "user", "assistant"])
        self.assertEqual([m["content"] for m in messages][::2], ["Be brief.", messages[2]["content"], messages[4]["content"]])
        self.assertEqual((messages[1]["content"], messages[3]["content"]), ("Hello", "café?"))
        terminal.type(f"/reset\n/save {path}\n")
        terminal.wait_for(rb"forgotten")
        terminal.wait_for(rb"saved to .*\n")
        self.assertEqual(json.loads(path.read_text()), messages[:1])
        terminal.type("/save /no/such/folder/x\n")
        terminal.wait_for(rb"gabbro: error: .*/no/such/folder")
        terminal.type("/frob\n")
        terminal.wait_for(rb"unknown command /frob")
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_several_lines(self):
        path = self.folder / "chat.json"
        terminal = self.start()
        terminal.type("one\\\n")
        terminal.wait_for(rb"\.\.\. ")
        terminal.type("two\n")
        terminal.wait_for(rb"\n> ")
        terminal.type('"""three\n')
        terminal.wait_for(rb"\.\.\. ")
        terminal.type("\n")
        terminal.wait_for(rb"\.\.\. ")
        terminal.type('four"""\n')
        terminal.wait_for(rb"\n> ")
        terminal.type(f"/save {path}\n")
        terminal.wait_for(rb"saved to .*\n")
        said = [m["content"] for m in json.loads(path.read_text()) if m["role"] == "user"]
        self.assertEqual(said, ["one\ntwo", "three\n\nfour"])
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_interrupts_at_the_prompt(self):
        terminal = self.start()
        terminal.type("half a li")
        terminal.interrupt()
        terminal.wait_for(rb"Ctrl-C again")
        terminal.wait_for(rb"> ")
        terminal.type("Hello\n")  # in between: starts counting anew
        terminal.wait_for(rb"\n> ")
        terminal.interrupt()
        terminal.wait_for(rb"Ctrl-C again")
        terminal.wait_for(rb"> ")
        terminal.interrupt()
        self.assertEqual(terminal.leave(), 130)

    def test_a_second_turn_reuses_the_first(self):
        terminal = self.start("--stats")
        terminal.type("Hello\n")
        terminal.wait_for(rb"\(0 cached\)")
        terminal.wait_for(rb"> ")
        terminal.type("Hello\n")
        said = terminal.wait_for(rb"\((\d+) cached\)")
        first_turn = len("<|im_start|>user\nHello") // 4
        self.assertGreater(int(re.search(rb"\((\d+) cached\)", said)[1]), first_turn)
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_survives_a_prompt_that_is_too_long(self):
        terminal = self.start("--ctx", "48")
        terminal.type("word " * 60 + "\n")
        terminal.wait_for(rb"gabbro: error: .*context")
        terminal.wait_for(rb"> ")
        terminal.type("Hi\n")
        terminal.wait_for(rb"\n> ")
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_goes_on_when_the_context_is_full(self):
        path = self.folder / "chat.json"
        terminal = self.start("--ctx", "160", "--system", "Be brief.")
        full = []
        for i in range(6):
            terminal.type(f"Question {i}: what is the name of the brown dog?\n")
            said = terminal.wait_for(rb"cut off after 6 tokens.*\n> ")
            self.assertNotIn(b"error", said)
            full.append(b"oldest messages are left out" in said)
        self.assertEqual((full[0], full[-2:]), (False, [True, True]))
        terminal.type(f"/save {path}\n")
        terminal.wait_for(rb"saved to .*\n")
        self.assertEqual(len(json.loads(path.read_text())), 13)  # all that was said
        terminal.type("word " * 60 + "\n")  # this alone is too long
        terminal.wait_for(rb"hint: shorten")
        terminal.type("/help\n")
        terminal.wait_for(rb"/reset .*oldest turns")
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_history_outlives_the_program(self):
        terminal = self.start()
        terminal.type("Hello there\n")
        terminal.wait_for(rb"\n> ")
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)
        history = self.folder / "history"
        self.assertIn("Hello", history.read_text())
        self.assertEqual(history.stat().st_mode & 0o077, 0)


if __name__ == "__main__":
    support.main()

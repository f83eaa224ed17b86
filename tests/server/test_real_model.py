"""`gabbro serve` with SmolLM2, if it is in the cache."""
import itertools
import os
import pathlib
import signal
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import support  # noqa: E402
from server_support import raw_request  # noqa: E402
from support import TestCase, eventually, within  # noqa: E402
from test_program import MEASURING, Program  # noqa: E402


def running(program):
    """Requests that are computed."""
    text = program.text("/metrics")
    return sum(int(line.split()[-1]) for line in text.splitlines() if line.startswith("gabbro_requests_running{"))


class Real(TestCase):
    @unittest.skipUnless(support.real_model(), "SmolLM2 is not in the model cache")
    def test_an_answer(self):
        program = Program(support.real_model())
        self.addCleanup(lambda: program.process.poll() is None and program.end(signal.SIGKILL))
        name = program.ask("GET", "/v1/models")[1]["data"][0]["id"]
        status, answer = program.ask("POST", "/v1/chat/completions", {"model": name, "temperature": 0, "max_tokens": 20, "messages": [
            {"role": "user", "content": "What is the capital of France?"}]})
        self.assertEqual(status, 200)
        self.assertIn("Paris", answer["choices"][0]["message"]["content"])

    @unittest.skipUnless(support.real_model(), "SmolLM2 is not in the model cache")
    def test_known_prompts_are_fast_after_a_kill(self):
        folder = self.folder / "pages"
        text, body = " ".join(f"stone {i}," for i in range(1000)), {"max_tokens": 1, "temperature": 0}

        def first_answer():
            program = Program(support.real_model(), "--cache-dir", folder)
            self.addCleanup(lambda: program.process.poll() is None and program.end(signal.SIGKILL))
            program.ask("POST", "/v1/completions", {"prompt": "warm", "max_tokens": 1})
            body["prompt"] = program.ask("POST", "/tokenize", {"content": text})[1]["tokens"][:2001]
            start = time.monotonic()
            status, answer = program.ask("POST", "/v1/completions", body)
            seconds = time.monotonic() - start
            self.assertEqual(status, 200, answer)
            return program, seconds, answer

        def sizes():
            return sorted(path.stat().st_size for path in folder.glob("*.page"))

        program, slow, expected = first_answer()
        pages = expected["usage"]["prompt_tokens"] // 64
        while len(sizes()) < pages:
            time.sleep(0.05)

        def attempt():
            nonlocal program
            program.end(signal.SIGKILL)
            program, fast, answer = first_answer()
            self.assertEqual(answer["choices"], expected["choices"])
            self.assertGreaterEqual(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 64 * (pages - 1))
            return fast
        within(slow / 5, attempt)
        # A cut file costs its page and those after it.
        program.end(signal.SIGKILL)
        largest = max(folder.glob("*.page"), key=lambda path: path.stat().st_size)
        os.truncate(largest, 1000)
        _, _, answer = first_answer()
        self.assertEqual(answer["choices"], expected["choices"])
        self.assertGreaterEqual(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 64 * (pages - 2))

    @unittest.skipUnless(support.real_model(), "SmolLM2 is not in the model cache")
    def test_a_client_that_leaves_ends_its_prompt(self):
        """In the middle of a chunk of the prompt, which takes longer than the limit."""
        program = Program(support.real_model())
        self.addCleanup(lambda: program.process.poll() is None and program.end(signal.SIGKILL))

        numbers = itertools.count()

        def attempt(stream):
            words = " ".join(map(str, [next(numbers), *range(900)]))  # no beginning that is cached
            body = {"model": pathlib.Path(support.real_model()).stem, "prompt": words, "stream": stream}
            with socket.create_connection(("127.0.0.1", program.port)) as connection:
                connection.sendall(raw_request("POST", "/v1/completions", body))
                eventually(lambda: running(program) > 0)
            start = time.monotonic()
            while running(program) > 0:
                time.sleep(0.005)
            return time.monotonic() - start

        for stream in (False, True):
            within(0.1 + MEASURING, lambda stream=stream: attempt(stream))

    @unittest.skipUnless(support.real_model(), "SmolLM2 is not in the model cache")
    def test_a_short_prompt_waits_for_one_chunk_of_a_long_one(self):
        program = Program(support.real_model(), "--parallel", "2")
        self.addCleanup(lambda: program.process.poll() is None and program.end(signal.SIGKILL))
        tokens = program.ask("POST", "/tokenize", {"content": " ".join(f"stone {i}," for i in range(1500))})[1]["tokens"][:3500]
        ends, numbers = {}, itertools.count()

        def ask(name, prompt):
            status, answer = program.ask("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 1})
            ends[name] = time.monotonic()
            self.assertEqual((status, answer["usage"]["completion_tokens"]), (200, 1))

        def attempt():
            start = time.monotonic()
            prompt = [tokens[-1 - next(numbers)], *tokens]  # no beginning that is cached
            long = threading.Thread(target=ask, args=("long", prompt))
            long.start()
            eventually(lambda: running(program) > 0)
            began = time.monotonic()
            ask("short", "Hello")
            long.join()
            waited, whole = ends["short"] - began, ends["long"] - start
            return waited / whole
        within(0.5, attempt)  # the long prompt has seven chunks of 512 tokens


if __name__ == "__main__":
    support.main()

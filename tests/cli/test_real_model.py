"""What takes a real model: an answer that makes sense, and an answer that takes long enough to be interrupted."""
import json
import os
import re
import signal
import subprocess
import time
import unittest

import support
from pseudo_terminal import Terminal
from support import PROGRAM, TestCase

MODEL = support.real_model()
LONG = ["Write a long story about a dragon.", "-n", "2000", "--temperature", "0.8", "--repeat-penalty", "1", "--seed", "3"]
# How soon Ctrl-C has to end the program. Sanitizers slow the running step down.
SOON = 0.1 if "release" in support.BUILD.name else 2.0


@unittest.skipUnless(MODEL, f"{support.REAL_MODEL_NAME} is not in the model cache; GABBRO_TEST_MODEL names another place")
class RealModel(TestCase):
    def test_knows_paris(self):
        # Raw, without the system message that the model's template adds.
        prompt = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
        d = json.loads(self.succeeds("run", MODEL, prompt, "--raw", "--parse-special", "--temperature", "0",
                                     "--repeat-penalty", "1", "-n", "60", "--json").out)
        self.assertEqual(d["text"], "The capital of France is Paris.")
        self.assertEqual(d["stop_reason"], "eos")

    def test_says_paris_as_a_user_asks(self):
        # As llama.cpp answers with the same weights in f32. With activations in 8 bits the first word is another.
        out = self.succeeds("run", MODEL, "What is the capital of France?").out
        self.assertEqual(out.strip(), b"The capital of France is Paris.")

    def test_lists_of_numbers(self):
        for count in (8, 12, 15, 20):
            out = self.succeeds("run", MODEL, "-n", "80", f"List the numbers from 1 to {count}, separated by commas.").text
            numbers = [int(n) for n in re.findall(r"\d+", out)]
            self.assertEqual(numbers[:count], list(range(1, count + 1)), out)

    def test_an_answer_that_the_context_ends(self):
        result = self.succeeds("run", MODEL, "--ctx", "60", "Write a long story about a lighthouse keeper.")
        self.assertRegex(result.err.decode(), r"^gabbro: note: the answer was cut off: the context of 60 tokens is full.*\n$")
        result = self.succeeds("run", MODEL, "--ctx", "20000", "-n", "0", "hi")
        self.assertRegex(result.err.decode(), r"^gabbro: warning: .* 20000 tokens is more than the 8192 .*trained.*\n$")

    def test_a_message_ends_no_turn(self):
        path = self.file("m.json", json.dumps([{"role": "user", "content": "A<|im_end|>B"}]))
        ids = json.loads(self.succeeds("tokenize", MODEL, "--messages", path, "--json").out)["token_ids"]
        self.assertEqual(ids.count(2), 2)  # of the system message that the template adds, and of the user's
        tokens = json.loads(self.succeeds("tokenize", MODEL, "A<|im_end|>B", "--no-special", "--json").out)["token_ids"]
        self.assertIn(str(tokens)[1:-1], str(ids))

    def test_perplexity_of_english(self):
        path = support.ROOT / "tests" / "data" / "english.txt"
        d = json.loads(self.succeeds("perplexity", MODEL, "--file", path, "--ctx", "256", "--json").out)
        self.assertTrue(5 < d["perplexity"] < 60, d)

    def test_interrupt_keeps_the_text(self):
        times = []
        for _ in range(3):
            process = subprocess.Popen([PROGRAM, "run", MODEL, *LONG], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            text = b""
            while text.count(b" ") < 20:  # it is talking
                text += os.read(process.stdout.fileno(), 4096)
            start = time.monotonic()
            process.send_signal(signal.SIGINT)
            rest, err = process.communicate(timeout=30)
            times.append(time.monotonic() - start)
            self.assertEqual(process.returncode, 130)
            self.assertTrue((text + rest).endswith(b"\n"))
            (text + rest).decode()
            self.assertEqual(err, b"")
        self.assertLess(min(times), SOON, times)  # the least: other work on the machine may delay one

    def test_interrupt_while_the_prompt_is_read(self):
        prompt = "The quick brown fox jumps over the lazy dog. " * 350
        process = subprocess.Popen([PROGRAM, "run", MODEL, "-n", "2000", "--raw", prompt], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        self.assertEqual((process.returncode, err), (130, b""))
        self.assertLess(time.monotonic() - start, SOON + 0.4)

    def test_interrupt_with_a_document(self):
        process = subprocess.Popen([PROGRAM, "run", MODEL, *LONG, "--json"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130)
        if out:  # nothing, where the model was still loading
            self.assertEqual(json.loads(out)["stop_reason"], "cancelled")

    def test_interrupt_in_a_chat_returns_to_the_prompt(self):
        terminal = Terminal("run", MODEL, *LONG[1:], environment={"GABBRO_HOME": str(self.folder)})
        self.addCleanup(terminal.close)
        terminal.wait_for(rb"> ")
        terminal.type(LONG[0] + "\n")
        terminal.wait_for(rb"(\S+ ){15}")
        start = time.monotonic()
        terminal.interrupt()
        terminal.wait_for(rb"\n> ", seconds=20)
        self.assertLess(time.monotonic() - start, SOON + 0.2)
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_a_second_turn_reuses_the_first(self):
        terminal = Terminal("run", MODEL, "-n", "20", "--temperature", "0", "--stats",
                            environment={"GABBRO_HOME": str(self.folder)})
        self.addCleanup(terminal.close)
        terminal.wait_for(rb"> ")
        terminal.type("Name three colors.\n")
        terminal.wait_for(rb"\(0 cached\)")
        terminal.wait_for(rb"> ")
        terminal.type("And one more?\n")
        cached = terminal.wait_for(rb"\((\d+) cached\)")
        self.assertNotIn(b"(0 cached)", cached)
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)


if __name__ == "__main__":
    support.main()

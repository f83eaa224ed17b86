"""What reaches a terminal and what reaches a pipe: escapes, line breaks, standard input."""
import json
import os
import re
import signal
import subprocess
import time
import unicodedata
import unittest

import scripted_model
import support
from gguf_edit import Gguf
from pseudo_terminal import Terminal
from support import PROGRAM, TINY_F16, TestCase, gabbro

HOSTILE = ["\x1b]52;c;SGVsbG8=\x07", "\x9b31m", "\u202eevil\u202c", "\x08\x7f\x00", "\u2066\u2069\u200e\u200f\u061c", "\r", "x"]
SHOWN = ("\\x1b]52;c;SGVsbG8=\\x07\\x9b31m\\u202eevil\\u202c\\x08\\x7f\\x00\\u2066\\u2069\\u200e\\u200f\\u061c\\rx")
RUN = ["--raw", "--temperature", "0", "--repeat-penalty", "1", "-n", "400", "a"]


def obeyed(text):
    """Characters that a terminal would obey, by Unicode's categories and its bidirectional marks."""
    marks = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return [c for c in text if c not in "\r\n\t" and (unicodedata.category(c) == "Cc" or unicodedata.bidirectional(c) in marks
                                                      or c in "\u061c\u200e\u200f")]


class OnATerminal(TestCase):
    def show(self, *arguments, columns=0, **options):
        """What the program prints on a terminal whose driver writes CR LF, without the line about the device."""
        terminal = Terminal(*map(str, arguments), columns=columns, **options)
        self.addCleanup(terminal.close)
        self.assertEqual(terminal.leave(), 0, terminal.seen)
        text = terminal.seen.decode().replace("\r\n", "\n")
        text = text.rsplit("\x1b[K", 1)[-1]  # erases the progress bar
        return re.sub(r"^cpu  .*\n", "", text)

    def run_model(self, texts, columns=0, *options):
        model = scripted_model.write(self.folder / "model.gguf", texts)
        return self.show("run", model, *RUN, *options, columns=columns)

    def test_a_model_cannot_send_escape_sequences(self):
        cut = [bytes([byte]) for byte in "\x1b]0;t\x07".encode()] + ["\u202e".encode()[:1], "\u202e".encode()[1:]]
        for texts, shown in ((HOSTILE, SHOWN), (cut, "\\x1b]0;t\\x07\\u202e")):
            self.assertEqual(self.run_model(texts), shown + "\n")
            wrapped = self.run_model(texts, 80)
            self.assertEqual((obeyed(wrapped), wrapped.strip()), ([], shown))

    def test_a_pipe_gets_the_bytes(self):
        model = scripted_model.write(self.folder / "model.gguf", HOSTILE)
        self.assertEqual(self.succeeds("run", model, *RUN).out.decode(), "".join(HOSTILE) + "\n")

    def test_every_command_that_shows_text_of_a_file(self):
        text = "".join(HOSTILE)
        model = Gguf(TINY_F16)
        model.fields[b"general.name"] = (8, text.encode())
        model.fields[b"general." + text.encode()] = (8, text.encode())
        model.fields[b"tokenizer.chat_template"] = (8, b"{{ messages[0].content }}")
        path = self.folder / "a\x1bb\u202ec.gguf"
        model.write(path)
        (self.folder / "models").mkdir()
        (self.folder / "models" / path.name).symlink_to(path)
        chat = self.file("chat.json", json.dumps([{"role": "user", "content": text + "\nline\ttab"}]))
        ids = json.loads(self.succeeds("tokenize", path, "--json", stdin=text.encode()).out)["token_ids"]
        for words in (["inspect", path], ["inspect", path, "--json"], ["template", path, "--messages", chat],
                      ["template", path, "--messages", chat, "--json"], ["tokenize", path, text.replace("\x00", "")],
                      ["tokenize", path, "--decode", ",".join(map(str, ids))], ["list"], ["list", "--json"],
                      ["fit", path], ["run", path, "-n", "1", "--json", "--log-level", "error", "hi"]):
            shown = self.show(*words, environment={"GABBRO_HOME": str(self.folder)})
            self.assertEqual(obeyed(shown), [], (words, shown))
            if "--json" in words:
                json.loads(shown)
        self.assertRegex(self.show("template", path, "--messages", chat), r"\\rx\nline\s+tab")
        piped = self.succeeds("template", path, "--messages", chat).out.decode()
        self.assertEqual(piped, text + "\nline\ttab")

    def test_errors_that_quote_a_file(self):
        for words in (["inspect", self.folder / "\x1b]0;x\x07\u202e"], ["run", TINY_F16, "hi", "--device", "\x1b\x9b\u202e"],
                      ["template", self.file("t", "{{ raise_exception('\x1b[2J\u202e') }}"), "--messages", self.file("m", "[]")]):
            result = gabbro(*words)
            self.assertGreater(result.code, 1)
            self.assertEqual(obeyed(result.err.decode()), [], result)

    def test_line_breaks_of_other_systems(self):
        self.assertEqual(self.run_model(["one\r\n", "two\r", "\nthree\r\rx"], 40), "one\ntwo\nthree\\r\\rx\n")

    def test_words_wrap(self):
        words = [f"word{i:02}" for i in range(30)]
        for columns in (20, 33, 80):
            shown = self.run_model([words[0]] + [" " + word for word in words[1:]], columns)
            lines = shown.splitlines()
            self.assertEqual(" ".join(lines).split(" "), words)
            self.assertTrue(all(len(line) <= columns for line in lines), lines)
            fits = columns // 7 + (columns % 7 == 6)  # words of six letters with a space between
            self.assertEqual(len(lines), -(-30 // fits))
        self.assertEqual(self.run_model(["one ", "two  three\n\n  four", " five\n"], 60), "one two  three\n\n  four five\n")

    def test_long_words_and_wide_characters(self):
        word = "x" * 50
        self.assertEqual(self.run_model(["ab ", word, " cd"], 20), f"ab\n{word} cd\n")  # 50 = 2 lines of 20 and 10
        chinese = "天地玄黄宇宙洪荒日月盈昃。"  # the full stop stays with the character before it
        lines = self.run_model([c for c in chinese], 24).splitlines()
        self.assertEqual(lines, [chinese[:11], chinese[11:]])
        accents = "".join("e\u0301" for _ in range(8))  # eight columns
        self.assertEqual(self.run_model([accents, " " + accents + " ", accents[:4] + "z"], 17).splitlines(),
                         [accents + " " + accents, accents[:4] + "z"])

    def test_pipes_and_no_wrap_keep_lines(self):
        words = [f"word{i:02} " for i in range(30)]
        self.assertEqual(self.run_model(words, 20, "--no-wrap"), "".join(words) + "\n")
        model = scripted_model.write(self.folder / "model.gguf", words)
        self.assertEqual(self.succeeds("run", model, *RUN, environment={"COLUMNS": "20"}).text, "".join(words) + "\n")

    def test_an_answer_of_a_chat(self):
        model = scripted_model.write(self.folder / "model.gguf", ["\x1b[2J", *(f" word{i:02}" for i in range(12))])
        terminal = Terminal("run", model, "--repeat-penalty", "1", columns=30, environment={"GABBRO_HOME": str(self.folder)})
        self.addCleanup(terminal.close)
        terminal.wait_for(rb"> ")
        terminal.type("hi\n")
        shown = terminal.wait_for(rb"word11\r\n")
        lines = shown.decode().split("\\x1b[2J", 1)[1].splitlines()
        self.assertEqual([len(line.split()) for line in lines], [3, 4, 4, 1])


class StandardInput(TestCase):
    def tokens(self, *arguments, **options):
        out = self.succeeds("run", TINY_F16, "--raw", "-n", "1", "--temperature", "0", "--json", *arguments, **options).out
        return json.loads(out)["prompt_tokens"]

    def test_a_loop_of_the_shell_gets_every_line(self):
        lines = self.file("lines", "one\ntwo\nthree\n")
        script = f'while read -r x; do echo "[$x]"; {PROGRAM} run {TINY_F16} -n 1 --json "$x" | grep prompt_tokens; done < {lines}'
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120)
        self.assertEqual(re.findall(r"\[(\w+)\]", done.stdout), ["one", "two", "three"], done)
        self.assertEqual(done.stderr.count("standard input"), 3)
        self.assertIn("standard input is left alone", done.stderr)
        counts = re.findall(r'"prompt_tokens": (\d+)', done.stdout)
        alone = [json.loads(self.succeeds("run", TINY_F16, "-n", "1", "--json", x).out)["prompt_tokens"] for x in ("one", "two", "three")]
        self.assertEqual(counts, [str(count) for count in alone])
        script = script.replace("--json", "--json --no-stdin")
        self.assertNotIn(b"standard input", subprocess.run(["bash", "-c", script], capture_output=True, timeout=120).stderr)

    def test_pipes_and_redirected_files_stand_below_the_prompt(self):
        whole = self.tokens("a\n\nb")
        self.assertEqual(self.tokens("a", stdin=b"b\n"), whole)
        with open(self.file("text", "b\n")) as file:
            self.assertEqual(self.tokens("a", stdin=file), whole)
        self.assertEqual(self.tokens("a", "--no-stdin", stdin=b"b\n"), self.tokens("a"))
        self.assertEqual(self.tokens("a", "--file", self.file("text", "b\n")), whole)
        self.assertEqual(self.tokens("a", "--file", "-", stdin=b"b\n"), whole)
        with open(self.file("rest", "x\nb\n"), "rb", buffering=0) as file:
            file.seek(2)
            self.assertEqual(self.tokens("a", "--file", "-", stdin=file), whole)
        self.assertEqual(self.tokens("-", stdin=b"a\n\nb\n"), whole)
        self.assertEqual(self.tokens(stdin=b"a\n\nb\n"), whole)
        self.fails(2, "run", TINY_F16, "--no-stdin", stdin=b"x", says="the prompt is empty")
        self.fails(2, "run", TINY_F16, "hi", "--no-stdin", "--file", "-", says="--no-stdin")

    def test_a_pipe_that_stays_silent_is_named(self):
        reader, writer = os.pipe()
        process = subprocess.Popen([PROGRAM, "run", TINY_F16, "hi", "-n", "1"], stdin=reader, stderr=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        self.assertRegex(process.stderr.readline(), rb"^gabbro: note: waiting for standard input \(--no-stdin")
        os.close(writer)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        os.close(reader)

    def test_dash_and_pipes_wherever_a_file_is_read(self):
        chat = json.dumps([{"role": "user", "content": "Hi"}]).encode()
        path = self.file("chat.json", chat)
        rendered = self.succeeds("template", TINY_F16, "--messages", path).out
        for name in ("-", "/dev/stdin", "/dev/fd/0"):
            self.assertEqual(self.succeeds("template", TINY_F16, "--messages", name, stdin=chat).out, rendered)
            with open(path) as file:
                self.assertEqual(self.succeeds("template", TINY_F16, "--messages", name, stdin=file).out, rendered)
        self.assertEqual(self.succeeds("template", "-", "--messages", path, stdin=b"{{ messages[0].role }}").text, "user")
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        feeder = subprocess.Popen(["cp", path, fifo])
        self.assertEqual(self.succeeds("template", TINY_F16, "--messages", fifo).out, rendered)
        feeder.wait()
        self.fails(2, "template", TINY_F16, "--messages", "-", "--tools", "-", stdin=chat, says="standard input was read already")
        text = "The quick brown fox. " * 40
        ids = self.succeeds("tokenize", TINY_F16, text, "--json").out
        for words in (["--file", "-"], ["-"], []):
            self.assertEqual(self.succeeds("tokenize", TINY_F16, *words, "--json", stdin=text.encode()).out, ids)
        plain = ["perplexity", TINY_F16, "--ctx", "64", "--json", "--file"]
        self.assertEqual(self.succeeds(*plain, "-", stdin=text.encode()).out, self.succeeds(*plain, self.file("text", text)).out)

    def test_a_model_cannot_be_a_pipe(self):
        os.mkfifo(self.folder / "fifo")
        for model in ("-", "/dev/stdin", self.folder / "fifo"):
            for command in ("run", "inspect", "tokenize"):
                self.fails(2, command, model, stdin=b"GGUF", says=["a model cannot be read from a pipe", "hint: models are mapped"])

    def test_closed_standard_input(self):
        for command, code, says in (("tokenize", 2, b"standard input: cannot read"), ("run", 2, b"standard input: cannot read")):
            done = subprocess.run(f"{PROGRAM} {command} {TINY_F16} <&-", shell=True, capture_output=True, timeout=60)
            self.assertEqual(done.returncode, code)
            self.assertIn(says, done.stderr)
        done = subprocess.run(f"{PROGRAM} run {TINY_F16} hi -n 1 --log-level error <&-", shell=True, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, b""))


class StandardOutput(TestCase):
    def test_dash_and_pipes_wherever_a_file_is_written(self):
        path = self.folder / "l.npy"
        words = ["logits", TINY_F16, "--tokens", "1,2", "--out"]
        self.succeeds(*words, path)
        for name in ("-", "/dev/stdout"):
            self.assertEqual(self.succeeds(*words, name).out, path.read_bytes())
        link = self.folder / "link.npy"
        link.symlink_to(path)
        path.write_bytes(b"old")
        self.succeeds(*words, link)
        self.assertTrue(link.is_symlink())
        self.assertTrue(path.read_bytes().startswith(b"\x93NUMPY"))
        self.succeeds(*words, "/dev/null")
        self.assertTrue(os.path.exists("/dev/null") and not os.path.isfile("/dev/null"))
        self.fails(2, *words, "-", "--json", says="--json")
        if os.path.exists("/dev/full"):
            self.fails(1, *words, "/dev/full", says="/dev/full: cannot write: No space left")
        ops = ["bench", "ops", "--size", "tiny", "--iterations", "1", "--warmup", "0", "--softmax", "--dtype", "f32"]
        self.assertTrue(self.succeeds(*ops, "--html", "-").text.startswith("<!DOCTYPE html>"))
        self.fails(2, *ops, "--html", "-", "--json", says="--json")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["l.npy", "link.npy"])

    def test_binary_data_does_not_go_to_a_terminal(self):
        terminal = Terminal("logits", TINY_F16, "--tokens", "1", "--out", "-")
        self.addCleanup(terminal.close)
        self.assertEqual(terminal.leave(), 2)
        self.assertIn(b"standard output is a terminal", terminal.seen)

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_disk_and_closed_streams(self):
        with open("/dev/full", "wb") as full:
            for words in (["run", TINY_F16, "hi", "-n", "3"], ["run", TINY_F16, "hi", "-n", "3", "--json"], ["--help"], ["man"],
                          ["help", "run"], ["completion", "bash"]):
                done = subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, timeout=60)
                self.assertEqual(done.returncode, 1, words)
                self.assertRegex(done.stderr, rb"^gabbro: error: cannot write to standard output: No space left.*\n$")
        for closed in ("2>&-", "2>/dev/full"):
            done = subprocess.run(f"{PROGRAM} run {TINY_F16} hi -n 2 --stats {closed}", shell=True, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, timeout=60)
            self.assertEqual(done.returncode, 0)
            self.assertTrue(done.stdout)


class Signals(TestCase):
    def test_an_interrupt_that_the_parent_ignores_stays_ignored(self):
        for ignored in (True, False):
            reader, writer = os.pipe()
            prepare = (lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignored else None
            process = subprocess.Popen([PROGRAM, "run", TINY_F16, "-n", "1"], stdin=reader, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, preexec_fn=prepare)
            process.stderr.readline()  # it waits for standard input
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
            os.write(writer, b"hi\n")
            os.close(writer)
            out, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0 if ignored else 130)
            os.close(reader)


if __name__ == "__main__":
    support.main()

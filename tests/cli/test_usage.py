"""What the program says of itself, and to a command line that it cannot follow."""
import json
import os
import re
import subprocess
import unittest

import support
from support import PROGRAM, TINY_F16, TestCase, gabbro

COMMANDS = ["run", "inspect", "tokenize", "template", "logits", "perplexity", "bench", "fit", "devices", "doctor",
            "list", "completion"]


class Help(TestCase):
    def test_help_names_every_command(self):
        text = self.succeeds("--help").text
        for command in COMMANDS:
            self.assertRegex(text, rf"(?m)^ +{command} ")

    def test_every_command_has_help_with_json_where_it_has_a_document(self):
        for command in COMMANDS:
            words = ["bench", "llm"] if command == "bench" else [command]
            text = self.succeeds(*words, "--help").text
            self.assertEqual("--json" in text, command != "completion", command)

    def test_version(self):
        self.assertRegex(self.succeeds("--version").text, r"^gabbro \d+\.\d+\.\d+\n$")

    def test_manual_page_and_its_installed_copy_list_every_command(self):
        page = self.succeeds("man").text
        self.assertTrue(page.startswith(".TH GABBRO 1"))
        for command in COMMANDS:
            self.assertIn(f".SS {command}", page)
        self.assertIn("\\-\\-temperature", page)
        self.assertEqual((support.BUILD / "share" / "man" / "man1" / "gabbro.1").read_text(), page)

    def test_completion_scripts_know_commands_and_options(self):
        for shell in ("bash", "zsh", "fish"):
            script = self.succeeds("completion", shell).text
            for word in ("perplexity", "temperature", "tokenize"):
                self.assertIn(word, script)
        self.fails(2, "completion", "tcsh", says="SHELL")

    def test_bash_completes(self):
        script = self.file("completion", gabbro("completion", "bash").out)

        def complete(*words):
            line = f'. {script}; COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _gabbro; echo "${{COMPREPLY[@]}}"'
            return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout.split()

        self.assertEqual(complete("gabbro", "perp"), ["perplexity"])
        self.assertEqual(complete("gabbro", "run", "m", "--tempe"), ["--temperature"])
        self.assertEqual(complete("gabbro", "bench", "l"), ["llm"])
        self.assertIn("--repetitions", complete("gabbro", "bench", "llm", "--r"))


class BadUsage(TestCase):
    def test_no_command(self):
        self.fails(2, says="a command is missing")

    def test_misspelt_command(self):
        self.fails(2, "rnu", says=["unknown command 'rnu'", "did you mean run?"])
        self.fails(2, "perplexitty", "m", says="did you mean perplexity?")
        self.fails(2, "xyzzy", says="unknown command 'xyzzy'")
        self.fails(2, "bench", "lm", says="did you mean llm?")

    def test_misspelt_option(self):
        self.fails(2, "run", TINY_F16, "hi", "--temprature", "1", says=["unknown option --temprature", "--temperature?"])
        self.fails(2, "run", TINY_F16, "hi", "--temprature=1", says=["unknown option --temprature", "--temperature?"])
        self.fails(2, "tokenize", TINY_F16, "hi", "--jsn", says="did you mean --json?")
        self.fails(2, "--frobnicate", says="unknown option --frobnicate")

    def test_surplus_argument(self):
        self.fails(2, "inspect", TINY_F16, "other", says="other")

    def test_missing_arguments(self):
        self.fails(2, "run", says="MODEL is missing")
        self.fails(2, "logits", TINY_F16, says="--tokens")
        self.fails(2, "perplexity", TINY_F16, says="--file")
        self.fails(2, "template", TINY_F16, says="--messages")
        self.fails(2, "run", TINY_F16, "hi", "--seed", says="--seed")

    def test_values_that_are_no_numbers(self):
        for option in ("--temperature", "--top-k", "--threads", "--ctx", "-n", "--seed", "--repeat-penalty"):
            for value in ("abc", "", "1x", "--"):
                self.fails(2, "run", TINY_F16, "hi", option, value)

    def test_values_out_of_range(self):
        for option, values in {
            "--temperature": ["-1", "nan", "inf", "1e30"], "--top-k": ["-1", "99999999999999"],
            "--top-p": ["-0.1", "1.1", "nan"], "--min-p": ["-1", "2"], "--repeat-penalty": ["0", "-1", "nan", "inf"],
            "--threads": ["-1", "100000"], "--ctx": ["-1", "99999999999999999999"], "-n": ["-2", "99999999999"],
            "--seed": ["-1", "1e5"], "--kv-type": ["q9"], "--log-level": ["loud"], "--mirostat": ["3", "-1"],
            "--logit-bias": ["x", "1", "1=", "1=nan", "=1", "-1=1"], "--stop": [""], "--penalty-window": ["-2"],
        }.items():
            for value in values:
                self.fails(2, "run", TINY_F16, "hi", f"{option}={value}" if option.startswith("--") else f"{option}{value}",
                           says=option.lstrip("-") if option != "-n" else "")

    def test_arguments_that_are_not_utf8(self):
        self.fails(2, b"\xff\xfe")
        self.fails(2, "inspect", b"/no/such/\xff\xfe.gguf")
        self.fails(2, "run", TINY_F16, "hi", b"--\xff\xfe")
        self.fails(2, "inspect", "a\nb\x1b[31m")  # one line, and no control characters

    def test_very_long_arguments(self):
        self.fails(2, "inspect", "x" * 100000)
        self.fails(2, "--" + "x" * 100000)


class Streams(TestCase):
    def test_standard_output_closed(self):
        done = subprocess.run(f"exec >&-; {PROGRAM} --version", shell=True, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.decode(), r"^gabbro: error: cannot write to standard output: .*\n$")

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_disk(self):
        for words in (["--version"], ["devices", "--json"], ["inspect", TINY_F16], ["tokenize", TINY_F16, "hi"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, timeout=60)
            self.assertEqual(done.returncode, 1, words)
            self.assertRegex(done.stderr.decode(), r"^gabbro: error: cannot write to standard output: No space left.*\n$")

    def test_reader_that_leaves(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([PROGRAM, "inspect", TINY_F16, "--tensors"], stdout=writer, stderr=subprocess.PIPE, timeout=60)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (1, b""))


class Devices(TestCase):
    def test_document(self):
        devices = json.loads(self.succeeds("devices", "--json").out)["devices"]
        fields = {"name", "id", "backend", "architecture", "memory_total", "memory_free", "compute_units", "wave_size",
                  "driver", "runtime", "usable", "reason"}
        for device in devices:
            self.assertLessEqual(fields, set(device))
        cpu = next(d for d in devices if d["id"] == "cpu")
        self.assertTrue(cpu["usable"])
        self.assertEqual(cpu["backend"], "cpu")
        self.assertGreater(cpu["memory_total"], cpu["memory_free"])
        self.assertGreater(cpu["compute_units"], 0)

    def test_table(self):
        self.assertTrue(re.search(r"(?m)^cpu ", self.succeeds("devices").text))


class List(TestCase):
    def test_what_the_cache_holds(self):
        (self.folder / "models").mkdir()
        (self.folder / "models" / "small.gguf").symlink_to(TINY_F16)
        home = {"GABBRO_HOME": str(self.folder)}
        models = json.loads(self.succeeds("list", "--json", environment=home).out)["models"]
        self.assertEqual([m["name"] for m in models], ["small"])
        self.assertIn("small", self.succeeds("list", environment=home).text)
        self.succeeds("inspect", "small", environment=home)  # by its name
        self.fails(2, "inspect", "smal", environment=home, says="smal")

    def test_an_empty_cache(self):
        home = {"GABBRO_HOME": str(self.folder)}
        self.assertEqual(json.loads(self.succeeds("list", "--json", environment=home).out)["models"], [])
        self.assertEqual(self.succeeds("list", environment=home).out, b"")


if __name__ == "__main__":
    support.main()

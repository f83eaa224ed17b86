"""What the program says of itself, and to a command line that it cannot follow."""
import json
import os
import re
import subprocess
import unittest

import support
from support import PROGRAM, TINY_F16, TestCase, gabbro

COMMANDS = ["run", "inspect", "tokenize", "template", "logits", "perplexity", "bench", "fit", "devices", "doctor",
            "list", "pull", "rm", "completion", "testgen"]


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

    def test_the_help_command(self):
        self.assertEqual(self.succeeds("help").out, self.succeeds("--help").out)
        for words in (["run"], ["bench"], ["bench", "llm"], ["help"]):
            self.assertEqual(self.succeeds("help", *words).out, self.succeeds(*words, "--help").out)

    def test_pages_show_defaults_ranges_and_examples(self):
        page = self.succeeds("run", "--help").text
        for line in (r"--top-k K .*\(default: 40\)", r"--threads N .*\(0 to 1024; default: 0\)", r"--max-tokens N .*\(-1 or more; default: -1\)",
                     r"--kv-type f32\|bf16\|f16\|q8_0\|q4_0\s+Format of the key-value cache \(default: f16\)", r"--device NAME .*\(default: auto\)"):
            self.assertRegex(page, line)
        commands = [c.split() for c in COMMANDS if c not in ("bench", "help")] + [["bench", "llm"], ["bench", "ops"], ["tune"]]
        man = self.succeeds("man").text.replace("\\-", "-")
        for words in commands:
            page = self.succeeds(*words, "--help").text
            self.assertRegex(page, r"(?s)\nExamples:\n  gabbro |\nExamples:\n  \w+ .*gabbro ", words)
            self.assertNotRegex(page, r"2147483647|1073741824|\d{7}")
            for example in page.split("Examples:\n")[1].splitlines():
                self.assertIn(example.strip(), man)
            for option, default in re.findall(r"(?m)^  (?:-\w, )?(--[\w-]+).*default: ([^;)]+)\)", page):
                self.assertRegex(man, rf"{option}.*\n.*default: {re.escape(default)}")

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

    def test_misspelled_command(self):
        self.fails(2, "rnu", says=["unknown command 'rnu'", "did you mean run?"])
        self.fails(2, "perplexitty", "m", says="did you mean perplexity?")
        self.fails(2, "xyzzy", says="unknown command 'xyzzy'")
        self.fails(2, "bench", "lm", says="did you mean llm?")

    def test_misspelled_option(self):
        self.fails(2, "run", TINY_F16, "hi", "--temprature", "1", says=["unknown option --temprature", "--temperature?"])
        self.fails(2, "run", TINY_F16, "hi", "--temprature=1", says=["unknown option --temprature", "--temperature?"])
        self.fails(2, "tokenize", TINY_F16, "hi", "--jsn", says="did you mean --json?")
        self.fails(2, "--frobnicate", says="unknown option --frobnicate")

    def test_near_options(self):
        for typed, meant in (("--tempe", "--temperature"), ("--max-token", "--max-tokens"), ("--sede", "--seed"),
                             ("--Threads", "--threads"), ("--no-stdn", "--no-stdin")):
            self.fails(2, "run", TINY_F16, "hi", typed, "1", says=[f"unknown option {typed}", f"did you mean {meant}?"])
        for typed in ("--zzz", "--tmep", "-hello", "-q"):
            self.assertNotIn(b"--help?", self.fails(2, "run", TINY_F16, "hi", typed, "1").err)
        self.fails(2, "run", TINY_F16, "hi", "--kv-type", "q8", says=["q8_0", "did you mean q8_0?"])
        self.fails(2, "completion", "zhs", says="did you mean zsh?")
        self.fails(2, "fit", "--shape", "llama-8b", "--type", "q4_km", says="did you mean q4_k_m?")
        self.fails(2, "help", "perplexitty", says="did you mean perplexity?")
        self.fails(2, "--json", "devices", says="options stand after the command")

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

    def test_numbers_are_decimal(self):
        for option, values in {"-n": ["0x10", "1e2", "1.0", " 5", "5 ", "5x", "+5", "010x"], "--seed": ["0xff", "1e3", "-0x1"],
                               "--temperature": ["0x1p-1", "inf", "nan", "1,5", "1e", "--"], "--top-p": ["0.5.1", "infinity"],
                               "--threads": ["2.0"], "--logit-bias": ["5=0x1p3", "0x5=1", "5=1x"]}.items():
            for value in values:
                self.fails(2, "run", TINY_F16, "hi", f"{option}={value}", says=option)

    def test_empty_values(self):
        for option in ("--device", "--kv-type", "--log-level", "--system", "--stop", "--logit-bias", "--file", "--seed", "-c", "-m"):
            self.fails(2, "run", TINY_F16, "hi", f"{option}=", says=option.lstrip("-"))
            self.fails(2, "run", TINY_F16, "hi", option, "", says=option.lstrip("-"))
        self.fails(2, "tokenize", TINY_F16, "--file", "", says="--file")
        self.fails(2, "bench", "ops", "--filter", "", says="--filter")

    def test_forgotten_values_and_repeated_options(self):
        self.fails(2, "run", TINY_F16, "hi", "--system", "--json", says=["--system: the value is missing before --json"])
        self.fails(2, "run", TINY_F16, "hi", "--seed", "1", "-s", "2", says=["'1' and '2'", "--seed is the same option"])
        self.fails(2, "run", TINY_F16, "hi", "--json=yes", says="--json takes no value")

    def test_errors_name_the_option_as_it_was_written(self):
        for name in ("--temp", "--n-predict", "--n_predict", "-c", "--ctx-size", "--threads", "-t"):
            self.fails(2, "run", TINY_F16, "hi", name, "x", says=f"{name}: 'x' is not a")

    def test_arguments_that_are_not_utf8(self):
        self.fails(2, b"\xff\xfe")
        self.fails(2, "inspect", b"/no/such/\xff\xfe.gguf")
        self.fails(2, "run", TINY_F16, "hi", b"--\xff\xfe")
        self.fails(2, "inspect", "a\nb\x1b[31m")  # one line, and no control characters

    def test_very_long_arguments(self):
        self.fails(2, "inspect", "x" * 100000)
        self.fails(2, "--" + "x" * 100000)


class Prompts(TestCase):
    def count(self, *arguments):
        out = self.succeeds("run", TINY_F16, "--raw", "-n", "1", "--json", *arguments).out
        return json.loads(out)["prompt_tokens"]

    def test_a_text_that_begins_with_a_dash(self):
        ids = lambda text: len(json.loads(self.succeeds("tokenize", TINY_F16, "--json", stdin=text.encode()).out)["token_ids"])
        for text in ("-hello there", "- a list", "-5", "--", "---", "-> look", "--what is this?", "-n\u00e9 en 1900"):
            self.assertEqual(self.count(*(["--"] if text == "--" else []), text), ids(text), text)
        for text in ("-hello", "--help", "-n is what?", "--temperature 0.5", "-h", "--seed=4"):
            self.assertEqual(self.count("--", text), ids(text), text)
        self.assertEqual(self.count("--prompt=-h"), ids("-h"))

    def test_an_option_and_its_value_in_one_argument_are_no_prompt(self):
        for text in ("--temperature 0.5", "-n 5", "--json now", "-h is there"):
            self.fails(2, "run", TINY_F16, text, says=["is one argument that begins with the option", "-- before"])
        self.fails(2, "run", TINY_F16, "-hello", says=["unknown option -hello", "-- before a text"])

    def test_spellings_of_other_programs(self):
        plain = self.succeeds("run", TINY_F16, "Hello", "--max-tokens", "9", "--temperature", "0.9", "--seed", "5", "--top-k", "7",
                              "--ctx", "64", "--threads", "1", "--penalty-window", "3", "--kv-type", "q8_0", "--system", "Be.").out
        result = self.succeeds("run", "-m", TINY_F16, "-p", "Hello", "--n_predict", "9", "--temp", "0.9", "-s", "5", "--top_k", "7",
                               "-c", "64", "-t", "1", "--repeat-last-n", "3", "-ctk", "q8_0", "-ctv", "q8_0", "-sys", "Be.", "-ngl", "99",
                               "-fa", "on", "--no-mmap", "-cnv")
        self.assertEqual(result.out, plain)
        notes = [note for note in result.err.decode().splitlines() if "was cut off" not in note]
        self.assertEqual([note.split(":")[2].strip() for note in notes], ["-ngl", "-fa", "--no-mmap", "-cnv"])
        self.assertEqual(self.count("a", "--logit-bias", "5+100"), self.count("a"))
        answer = lambda *bias: self.succeeds("run", TINY_F16, "a", "-n", "2", *bias).out
        self.assertEqual(answer("--logit-bias", "70+99"), answer("--logit-bias", "70=99"))
        self.assertEqual(self.succeeds("ls", "--json").out, self.succeeds("list", "--json").out)
        self.assertEqual(self.succeeds("show", TINY_F16).out, self.succeeds("inspect", TINY_F16).out)


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


class Environment(TestCase):
    def test_where_models_are(self):
        for variables, folder in (({"GABBRO_HOME": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a/models"),
                                  ({"GABBRO_HOME": "", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/gabbro/models"),
                                  ({"GABBRO_HOME": "", "XDG_CACHE_HOME": "b", "HOME": "/c"}, "/c/.cache/gabbro/models"),
                                  ({"GABBRO_HOME": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/gabbro/models")):
            self.assertEqual(json.loads(self.succeeds("list", "--json", environment=variables).out)["folder"], folder)

    def test_no_home(self):
        nowhere = {"GABBRO_HOME": "", "XDG_CACHE_HOME": "", "HOME": ""}
        self.assertIn(b"neither GABBRO_HOME, XDG_CACHE_HOME nor HOME is set", self.succeeds("list", environment=nowhere).err)
        self.fails(2, "run", "a-name", "hi", environment=nowhere, says=["no model 'a-name'", "GABBRO_HOME"])
        self.succeeds("run", TINY_F16, "hi", "-n", "1", environment=nowhere)

    def test_a_cache_that_cannot_be_read(self):
        self.file("models", "a file")
        home = {"GABBRO_HOME": str(self.folder)}
        for words in (["list"], ["list", "--json"], ["run", "a-name", "hi"]):
            self.fails(2, *words, environment=home, says=[f"{self.folder}/models", "cannot be read", "Not a directory"])
        self.succeeds("run", TINY_F16, "hi", "-n", "1", environment=home)

    def test_a_wrong_plugin_path(self):
        for folder, says in ((self.folder / "none", "No such file or directory"), (self.folder, "holds no backend plugin"),
                             (self.file("f", ""), "Not a directory")):
            variables = {"GABBRO_PLUGIN_PATH": str(folder)}
            self.fails(3, "run", TINY_F16, "hi", environment=variables, says=[f"GABBRO_PLUGIN_PATH: {folder}", says])
            for command in ("devices", "doctor"):
                err = self.succeeds(command, environment=variables).err.decode()
                self.assertRegex(err, rf"^gabbro: warning: GABBRO_PLUGIN_PATH: .*{says}.*\n$")


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

"""run --prompts: an answer for each line, with its own settings; a line that cannot be answered is a row with an error.
Byte order marks and line ends wherever a command reads text or JSON."""
import codecs
import json
import shutil

import support
from support import ROOT, TINY_F16, TestCase, gabbro

GREEDY = ["--temperature", "0", "-n", "9"]
MARK = codecs.BOM_UTF8
DATA = ROOT / "tests" / "data"


class Batch(TestCase):
    LINES = ["Hello", '{"prompt": "two\\nlines", "id": 1}', "", "The cat sat on", "x", "a longer prompt of a few words", "y"]
    PROMPTS = ["Hello", "two\nlines", "The cat sat on", "x", "a longer prompt of a few words", "y"]

    def rows(self, lines, *arguments, code=0, options=GREEDY, errors=0):
        """The rows of lines that are texts, bytes or objects."""
        def encoded(line):
            return line if isinstance(line, bytes) else (line if isinstance(line, str) else json.dumps(line)).encode()
        path = self.file("prompts.txt", b"\n".join(map(encoded, lines)) + b"\n")
        result = gabbro("run", TINY_F16, "--prompts", path, *options, *arguments)
        self.assertEqual(result.code, code, result)
        said = [line for line in result.err.decode().splitlines() if line.startswith("gabbro: error: ")]
        rows = [json.loads(line) for line in result.out.decode().splitlines()]
        failed = [f"gabbro: error: {path}:{row['line']}: {row['error']}" for row in rows if "error" in row]
        self.assertEqual([line[:90] for line in said], [line[:90] for line in failed])
        self.assertEqual(len(failed), errors, failed)
        return rows

    def alone(self, prompt, *arguments, options=GREEDY):
        return json.loads(self.succeeds("run", TINY_F16, *options, *arguments, "--no-stdin", "--json", "--", prompt).out)

    def test_answers_are_those_of_each_prompt_alone(self):
        path = self.file("prompts.txt", "\r\n".join(self.LINES) + "\n")
        alone = [self.alone(prompt) for prompt in self.PROMPTS]
        for parallel in ("1", "4", "64"):
            out = self.succeeds("run", TINY_F16, "--prompts", path, *GREEDY, "--parallel", parallel).out
            rows = [json.loads(line) for line in out.decode().splitlines()]
            self.assertEqual([row["index"] for row in rows], list(range(len(self.PROMPTS))))
            self.assertEqual([row["line"] for row in rows], [1, 2, 4, 5, 6, 7])
            self.assertEqual([row["prompt"] for row in rows], self.PROMPTS)
            self.assertEqual([row.get("id") for row in rows], [None, 1, None, None, None, None])
            for row, one in zip(rows, alone):
                for field in ("text", "token_ids", "prompt_tokens", "generated_tokens", "stop_reason"):
                    self.assertEqual(row[field], one[field], (parallel, row))

    def test_drafts_change_no_token(self):
        path = self.file("prompts.txt", "abc abc abc abc\nHello\nred blue red blue red\nx\n")
        plain = self.rows_of(path)
        for drafts in (["--lookup"], ["--draft", TINY_F16], ["--draft", TINY_F16, "--draft-tokens", "3"]):
            for parallel in ("1", "3"):
                drafted = self.rows_of(path, *drafts, "--parallel", parallel)
                self.assertEqual([row["token_ids"] for row in drafted], [row["token_ids"] for row in plain], drafts)
                self.assertGreater(sum(row["accepted_tokens"] for row in drafted), 0)

    def rows_of(self, path, *arguments):
        out = self.succeeds("run", TINY_F16, "--prompts", path, "--temperature", "0", "-n", "30", *arguments).out
        return [json.loads(line) for line in out.decode().splitlines()]

    def test_deterministic_rows_are_those_of_each_prompt_alone(self):
        lines = [("word %d " % (i % 3)) * (1 + 37 * i % 60) for i in range(9)]
        options = ["--temperature", "0.9", "--seed", "5", "-n", "12", "--deterministic", "--parallel", "4", "--ctx", "512"]
        for worker in ("off", "on"):
            environment = {"GABBRO_WORKER": worker}
            together = self.succeeds("run", TINY_F16, "--prompts", self.file("all.txt", "\n".join(lines) + "\n"), *options,
                                     environment=environment).out
            rows = [json.loads(line) for line in together.decode().splitlines()]
            for row, line in zip(rows, lines):
                alone = self.succeeds("run", TINY_F16, "--prompts", self.file("one.txt", line + "\n"), *options,
                                      environment=environment).out
                self.assertEqual(json.loads(alone)["token_ids"], row["token_ids"], (worker, row["index"]))

    def test_one_document(self):
        path = self.file("prompts.txt", "a\nb\n{\n")
        result = gabbro("run", TINY_F16, "--prompts", path, "-n", "5", "--json")
        self.assertEqual((result.code, result.err), (1, b""), result)
        d = json.loads(result.out)
        self.assertEqual([row.get("prompt") for row in d["results"]], ["a", "b", None])
        self.assertEqual((d["failed"], d["results"][2]), (1, {"index": 2, "line": 3, "error": "the line: no JSON at byte 2"}))
        self.assertEqual(d["generated_tokens"], sum(row.get("generated_tokens", 0) for row in d["results"]))
        self.assertGreater(d["tokens_per_second"], 0)

    def test_standard_input_and_system(self):
        rows = [json.loads(line) for line in self.succeeds(
            "run", TINY_F16, "--prompts", "-", "-n", "4", "--system", "Be brief.", stdin=b"Hi\n").out.decode().splitlines()]
        self.assertEqual(len(rows), 1)
        plain = json.loads(self.succeeds("run", TINY_F16, "Hi", "-n", "4", "--system", "Be brief.", "--json").out)
        self.assertEqual(rows[0]["token_ids"], plain["token_ids"])

    def test_bad_files(self):
        def refused(text, says, *arguments):
            self.fails(2, "run", TINY_F16, "--prompts", self.file("p.txt", text), *arguments, says=says)
        refused("", "there is no prompt in it")
        refused("\n\r\n", "there is no prompt in it")
        refused(MARK, "there is no prompt in it")
        refused("a\n".encode("utf-16"), "p.txt: is text in UTF-16")
        refused("a\n".encode("utf-32"), "p.txt: is text in UTF-32")
        refused("a\n".encode("utf-16-le") * 2, "p.txt: is text in UTF-16LE")
        for rows in ([{"prompt": "a"}], [{"prompt": "a"}, {"prompt": "b"}]):
            for indent in (None, 2):
                refused(json.dumps(rows, indent=indent), "is one JSON document, expected an object in each line")
        refused(json.dumps({"prompt": "a"}, indent=2), "is one JSON document")
        refused("a\n", "takes the place of PROMPT", "Hello")
        refused("a\n", "--parallel", "--parallel", "0")
        self.fails(2, "run", TINY_F16, "--prompts", self.folder / "none", says="none")

    def test_a_bad_line_is_a_row_with_an_error(self):
        bad = [
            ("word " * 600, "more than the context of 512"),
            ('{"prompt": "a"', "no JSON at byte"),
            ('{"prompt": "a"} x', "no JSON at byte"),
            ('{"prompt": "a", "prompt": "b"}', "key 'prompt' is there twice"),
            (b"\xff\xfea", "not valid UTF-8"),
            (b'{"prompt": "\xc3("}', "not valid UTF-8"),
            ({"prompt": 3}, '"prompt" is 3, expected a text'),
            ({"prompt": ["a"]}, '"prompt" is a list, expected a text'),
            ({"prompt": ""}, "the prompt is empty"),
            ({"prompt": None}, 'no "prompt" and no "messages"'),
            ({"text": "a"}, 'field "text" is not known'),
            ({"prompt": "a", "max_token": 3}, 'field "max_token" is not known: did you mean "max_tokens"?'),
            ({"prompt": "a", "n": 2}, 'field "n" is not known'),
            ({"prompt": "a", "max_tokens": "3"}, '"max_tokens" is "3", expected a whole number from -1 on'),
            ({"prompt": "a", "max_tokens": -2}, '"max_tokens" is -2'),
            ({"prompt": "a", "max_tokens": 2.5}, '"max_tokens" is 2.5'),
            ({"prompt": "a", "temperature": True}, '"temperature" is true, expected a number'),
            ({"prompt": "a", "temperature": 1000}, "temperature must be a number from 0 to 100"),
            ({"prompt": "a", "temperature": 1e300}, "temperature must be"),
            ({"prompt": "a", "top_k": -1}, "top-k must be 0 or more"),
            ({"prompt": "a", "top_k": 2 ** 31}, '"top_k" is 2147483648'),
            ({"prompt": "a", "top_p": 2}, "top-p must be a number from 0 to 1"),
            ({"prompt": "a", "seed": -1}, '"seed" is -1, expected a whole number from 0 to 2^64 - 1'),
            ({"prompt": "a", "seed": 2 ** 64}, '"seed" is 1.844674407370955'),
            ({"prompt": "a", "stop": 3}, '"stop" is 3, expected a text or a list of texts'),
            ({"prompt": "a", "stop": ["b", ""]}, '"stop" has an empty text'),
            ({"prompt": "a", "system": 1}, '"system" is 1, expected a text'),
            ({"prompt": "a", "logit_bias": {"x": 1}}, 'the key "x", expected a token id'),
            ({"prompt": "a", "logit_bias": {"99999": 1}}, "token 99999 is outside the vocabulary"),
            ({"prompt": "a", "id": {"a": 1}}, '"id" is an object'),
            ({"prompt": "a", "id": 2 ** 64}, '"id" is 1.8446744073709552e+19, expected a text or a number up to 2^64 - 1'),
            ({"prompt": "a", "id": -2 ** 63 - 1}, '"id" is -9.2233720368547'),
            ({"prompt": "a", "messages": [{"role": "user", "content": "b"}]}, 'give one of them'),
            ({"messages": []}, '"messages" is a list, expected a list of messages'),
            ({"messages": "a"}, "expected a list of messages"),
            ({"messages": ["a"]}, 'number 1 has no text "role"'),
            ({"messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}], "system": "c"},
             '"system" and a system message are both there'),
            ({"prompt": "a", "tools": {}}, '"tools" is an object, expected a list of tools'),
        ]
        lines = ["first", *(line for line, says in bad), "last"]
        rows = self.rows(lines, code=1, errors=len(bad))
        self.assertEqual([row["index"] for row in rows], list(range(len(lines))))
        for (line, says), row in zip(bad, rows[1:]):
            self.assertIn(says, row["error"], line)
            self.assertNotIn("text", row)
        self.assertEqual(rows[0]["token_ids"], self.alone("first")["token_ids"])
        self.assertEqual(rows[-1]["token_ids"], self.alone("last")["token_ids"])

    def test_the_error_of_a_template_is_its_rows(self):
        template = self.file("t.jinja", "{{ messages[0].content }}{% if 'bad' in messages[0].content %}"
                                        "{{ raise_exception('not that') }}{% endif %}")
        rows = self.rows(["good", "bad", "good too"], "--chat-template", template, code=1, errors=1)
        self.assertIn("not that", rows[1]["error"])

    def test_settings_of_a_line(self):
        common = ["-n", "12", "--temperature", "1.2", "--seed", "5", "--system", "Be brief."]
        cases = [
            ({}, []),
            ({"max_tokens": 3}, ["-n", "3"]),
            ({"max_tokens": 0}, ["-n", "0"]),
            ({"max_tokens": 4.0, "id": "four"}, ["-n", "4"]),
            ({"temperature": 0}, ["--temperature", "0"]),
            ({"seed": 2 ** 64 - 1}, ["--seed", str(2 ** 64 - 1)]),
            ({"seed": None}, []),
            ({"top_k": 1}, ["--top-k", "1"]),
            ({"top_p": 0.3}, ["--top-p", "0.3"]),
            ({"min_p": 0.5}, ["--min-p", "0.5"]),
            ({"typical_p": 0.3}, ["--typical-p", "0.3"]),
            ({"repeat_penalty": 5, "penalty_window": 3}, ["--repeat-penalty", "5", "--penalty-window", "3"]),
            ({"repetition_penalty": 5, "repeat_last_n": 3}, ["--repeat-penalty", "5", "--penalty-window", "3"]),
            ({"frequency_penalty": 9, "presence_penalty": 2}, ["--frequency-penalty", "9", "--presence-penalty", "2"]),
            ({"dry_multiplier": 9, "dry_base": 3, "dry_allowed_length": 1, "dry_sequence_breakers": ["a"]},
             ["--dry-multiplier", "9", "--dry-base", "3", "--dry-allowed-length", "1", "--dry-sequence-breaker", "none",
              "--dry-sequence-breaker", "a"]),
            ({"xtc_probability": 1, "xtc_threshold": 0.01}, ["--xtc-probability", "1", "--xtc-threshold", "0.01"]),
            ({"mirostat": 2, "mirostat_tau": 1, "mirostat_eta": 0.5},
             ["--mirostat", "2", "--mirostat-tau", "1", "--mirostat-eta", "0.5"]),
            ({"logit_bias": {"40": 100}}, ["--logit-bias", "40=100"]),
            ({"stop": "a"}, ["--stop", "a"]),
            ({"stop": ["e", " "]}, ["--stop", "e", "--stop", " "]),
            ({"system": "Be long."}, ["--system", "Be long."]),
        ]
        expected = []
        for _, options in cases:
            merged = dict(zip(common[::2], common[1::2]))
            for name in options[::2]:
                merged.pop(name, None)
            expected.append(self.alone("Hello there", options=[w for pair in merged.items() for w in pair] + options))
        # One at a time: the model's probabilities are nearly equal, so that rounding decides what is drawn.
        rows = self.rows([{"prompt": "Hello there", **fields} for fields, _ in cases], "--parallel", "1", options=common)
        for (fields, _), row, alone in zip(cases, rows, expected):
            for field in ("token_ids", "text", "prompt_tokens", "stop_reason"):
                self.assertEqual(row[field], alone[field], fields)
            self.assertEqual(row.get("id"), fields.get("id"))
        self.assertGreater(len({tuple(row["token_ids"]) for row in rows}), 12)

    def test_messages_and_tools(self):
        template = self.file("t.jinja", "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
                                        "{% if tools %}|{{ tools[0].name }}{{ tools[0].most }}{% endif %}")
        chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
        rows = self.rows([{"messages": chat}, {"messages": chat, "system": "s"},
                          {"prompt": "a", "tools": [{"name": "f", "most": 2 ** 64 - 1}]},
                          {"messages": [{"role": "system", "content": "own"}, *chat], "id": None}],
                         "--chat-template", template, "--system", "base")
        texts = ["<system>base<user>a<assistant>b<user>c", "<system>s<user>a<assistant>b<user>c",
                 "<system>base<user>a|f18446744073709551615", "<system>own<user>a<assistant>b<user>c"]
        for row, text in zip(rows, texts):
            self.assertEqual(row["token_ids"], self.alone(text, "--raw")["token_ids"], text)
        raw = self.rows([{"messages": chat}, {"prompt": "a", "tools": []}, {"messages": [{"role": "user", "content": [1]}]}],
                        "--raw", code=1, errors=2)
        self.assertEqual(raw[0]["token_ids"], self.alone("abc", "--raw")["token_ids"])
        self.assertIn("--raw does without", raw[1]["error"])
        self.assertIn('no text "content"', raw[2]["error"])

    def test_a_row_whose_token_cannot_be_chosen(self):
        none = {"prompt": "a", "logit_bias": {str(token): -1e39 for token in range(300)}}
        for temperature in ("0", "1"):
            rows = self.rows(["first", none, "last"], "--temperature", temperature, options=["-n", "4"], code=1, errors=1)
            self.assertIn("is not a number", rows[1]["error"])
            self.assertEqual([len(rows[i]["token_ids"]) for i in (0, 2)], [4, 4])

    def test_a_template_variable_and_a_line_that_begins_with_a_brace(self):
        rows = self.rows(['{"prompt": "{a}"}', " {a}", ' \t{"prompt": "b"}', "[1]"], "--raw")
        self.assertEqual([row["prompt"] for row in rows], ["{a}", " {a}", "b", "[1]"])


class TextFiles(TestCase):
    """UTF-8 with and without a byte order mark, LF and CR LF, are the same text; UTF-16 is named."""
    def same(self, *arguments, content, name):
        """The command's output with {file} in four forms of the content, which has no CR."""
        text = content.encode()
        outputs = []
        for data in (text, MARK + text, text.replace(b"\n", b"\r\n"), MARK + text.replace(b"\n", b"\r\n")):
            path = self.file(name, data)
            outputs.append(self.succeeds(*(path if a == "{file}" else a for a in arguments)).out)
        for other in outputs[1:]:
            self.assertEqual(outputs[0], other, arguments)
        for encoding in ("utf-16", "utf-16-be", "utf-16-le", "utf-32"):
            marked = "\ufeff" + content if encoding[-3:] in ("-be", "-le") else content
            path = self.file(name, marked.encode(encoding))
            self.fails(2, *(path if a == "{file}" else a for a in arguments),
                       says=[name, f"is text in UTF-{encoding[4:6]}"])
        return outputs[0]

    def test_texts(self):
        self.same("run", TINY_F16, "--raw", *GREEDY, "--file", "{file}", content="ab\nc\n", name="f.txt")
        self.same("run", TINY_F16, *GREEDY, "--prompts", "{file}", content='ab\n{"prompt": "c"}\n', name="p.txt")
        out = self.same("tokenize", TINY_F16, "--json", "--file", "{file}", content="ab\n\nc", name="t.txt")
        self.assertEqual(json.loads(out), json.loads(self.succeeds("tokenize", TINY_F16, "--json", "ab\n\nc").out))
        self.same("tokenize", TINY_F16, "--jsonl", "--file", "{file}", content='"a"\n{"text": "b\\r\\n"}\n', name="t.jsonl")
        text = "The dogs think so.\n" * 30
        self.same("perplexity", TINY_F16, "--ctx", "16", "--json", "--file", "{file}", content=text, name="w.txt")
        for data in (text, text.replace("\n", "\r\n")):
            out = self.folder / f"{len(data)}.gguf"
            self.succeeds("imatrix", TINY_F16, "--text", self.file("i.txt", data), "-o", out, "--ctx", "16", "--chunks", "2")
        self.assertEqual(*(path.read_bytes() for path in sorted(self.folder.glob("*.gguf"))))

    def test_standard_input(self):
        for data in (b"ab\nc", MARK + b"ab\r\nc"):
            out = self.succeeds("tokenize", TINY_F16, "--json", stdin=data).out
            self.assertEqual(out, self.succeeds("tokenize", TINY_F16, "--json", "ab\nc").out)
        self.fails(2, "tokenize", TINY_F16, stdin="ab".encode("utf-16"), says="standard input: is text in UTF-16")

    def test_json(self):
        template = self.file("t.jinja", "{{ messages[0].content }}{{ tools }}")
        tools = self.file("tools.json", "[]")
        messages = '[{"role": "user",\n"content": "a"}]'
        self.same("template", template, "--messages", "{file}", content=messages, name="m.json")
        chat = self.file("chat.json", messages)
        out = self.same("template", template, "--messages", chat, "--tools", "{file}",
                        content='[{"most": 18446744073709551615,\n"least": -9223372036854775808}]', name="t.json")
        self.assertEqual(out.strip(), b"a[{'most': 18446744073709551615, 'least': -9223372036854775808}]")
        self.assertTrue(tools.exists())
        self.same("template", "{file}", "--messages", chat, content="{{ messages[0].content }}\n{{ 1 }}", name="u.jinja")
        bare = self.file("m.json", messages.encode("utf-16-le"))
        self.fails(2, "template", template, "--messages", bare, says="m.json: is text in UTF-16LE")


class Folders(TestCase):
    """The JSON files of a folder of transformers'."""
    def copy_of(self, source, change):
        folder = self.folder / "model"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(DATA / source, folder)
        for path in folder.rglob("*.json"):
            path.write_bytes(change(path))
        return folder

    def check(self, source, run):
        plain = run(DATA / source)
        marked = self.copy_of(source, lambda path: MARK + path.read_bytes().replace(b"\n", b"\r\n"))
        self.assertEqual(run(marked), plain)
        for name in self.NAMES[source]:
            def one_in_utf16(path):
                data = path.read_bytes()
                return data.decode().encode("utf-16") if path.name == name else data
            self.assertIn(f"{name}: is text in UTF-16", run(self.copy_of(source, one_in_utf16)))

    NAMES = {"encoders/bert": ["config.json", "tokenizer.json"], "adapters/llama": ["adapter_config.json"],
             "families/llama": ["config.json"]}

    def test_model_and_tokenizer(self):
        def embed(folder):
            result = gabbro("embed", folder, "one text", "another")
            return result.text or result.err.decode()
        self.check("encoders/bert", embed)

    def logits(self, *arguments):
        out = self.folder / "x.npy"
        out.unlink(missing_ok=True)
        result = gabbro("logits", *arguments, "--tokens", "1,2,3", "--out", out)
        return out.read_bytes() if out.exists() else result.err.decode()

    def test_weights_and_adapter(self):
        self.check("families/llama", self.logits)
        self.check("adapters/llama", lambda folder: self.logits(DATA / "families" / "llama", "--lora", folder))


if __name__ == "__main__":
    support.main()

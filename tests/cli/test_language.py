"""What users expect of a language model on the command line: defaults, templates, control tokens, ends, model files."""
import json
import pathlib
import struct

import support
from gguf_edit import F32, Gguf, STRING, U32
from support import TINY_F16, TestCase

DATA = support.ROOT / "tests" / "data" / "llm"
STOP_CONTROL = str(DATA / "stop_control.gguf")  # continues "a" with b<|im_start|>cd
PARTS = "{% for m in messages %}<|im_start|>{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}{% endfor %}"
END = 256 + 40 + 2  # <|im_end|> of the tiny model
TEMPLATE = b"tokenizer.chat_template"
FORGED = "A<|im_end|>B"


class Model(TestCase):
    def edited(self, name="edited.gguf", template=None, **fields):
        model = Gguf(TINY_F16)
        if template is not None:
            model.fields[TEMPLATE] = (STRING, template.encode())
        for key, field in fields.items():
            model.fields[key.replace("__", ".").encode()] = field
        path = self.folder / name
        model.write(path)
        return path

    def document(self, model, *arguments, **options):
        result = self.succeeds("run", model, *arguments, "--json", **options)
        return json.loads(result.out), result.err.decode()

    def prompt_tokens(self, model, *arguments):
        return self.document(model, *arguments, "-n", "0")[0]["prompt_tokens"]

    def messages(self, *pairs):
        return self.file("m.json", json.dumps([{"role": role, "content": content} for role, content in pairs]))


class Defaults(Model):
    def test_no_penalty_and_no_chance(self):
        arguments = ["Hello", "-n", "40", "--json"]
        ids = [self.document(TINY_F16, *arguments, *more)[0]["token_ids"]
               for more in ([], [], ["--temperature", "0", "--repeat-penalty", "1"])]
        self.assertEqual(ids[0], ids[1])
        self.assertEqual(ids[0], ids[2])

    def test_the_model_file_says_how_and_options_win(self):
        path = self.edited(general__sampling__temp=(F32, 0.7), general__sampling__top_k=(5, 3),
                           general__sampling__penalty_repeat=(12, 1.25), general__sampling__min_p=(F32, 7.0))
        err = self.succeeds("run", path, "Hi", "-n", "1", "--top-k", "9", "--log-level", "info").err.decode()
        for word in ("temperature 0.7 (model)", "top-k 9 (option)", "repeat-penalty 1.25 (model)", "top-p 0.95 (default)",
                     "min-p 0.05 (default)", "general.sampling.min_p is 7, expected 0 to 1: not used"):
            self.assertIn(word, err)
        seeded = ["Hi", "-n", "30", "--seed", "4"]
        told = ["--temperature", "0.7", "--top-k", "3", "--repeat-penalty", "1.25"]
        self.assertEqual(self.document(path, *seeded)[0]["token_ids"],
                         self.document(TINY_F16, *seeded, *told)[0]["token_ids"])
        # An option counts though it names what is the default anyway.
        self.assertEqual(self.document(path, *seeded, "--temperature", "0", "--repeat-penalty", "1")[0]["token_ids"],
                         self.document(TINY_F16, *seeded)[0]["token_ids"])


class Templates(Model):
    def test_content_in_parts(self):
        path = self.edited(template=PARTS)
        self.assertEqual([self.prompt_tokens(path, text) for text in ("ab", "abcd", "bbbbbbbb")], [3, 5, 9])

    def test_lost_text_is_an_error(self):
        self.fails(2, "run", self.edited(template="hello"), "Hi", says=["leaves out the text of message 1", "--chat-template"])
        err = self.succeeds("run", self.edited(template="{{ messages[0].content[:2] }}"), "Hello", "-n", "0").err
        self.assertIn(b"leaves out a part of message 1", err)

    def test_a_system_message_without_a_place(self):
        for template in ("{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
                         "{{ m.content }}{% endfor %}",
                         "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}"):
            path = self.edited(template=template)
            document, err = self.document(path, "Hi", "--system", "Be brief.", "-n", "0")
            self.assertEqual(document["prompt_tokens"], self.prompt_tokens(path, "Be brief.\n\nHi"))
            self.assertRegex(err, r"^gabbro: note: the chat template takes no system message.*\n$")
        self.fails(2, "run", self.edited(template="{{ raise_exception('never') }}"), "Hi", "--system", "S",
                   says=["never", "system message"])

    def test_other_templates(self):
        bare = self.edited(template="hello")
        own = self.prompt_tokens(TINY_F16, "Hi")
        self.assertEqual(self.prompt_tokens(bare, "Hi", "--chat-template", "chatml"), own)
        source = Gguf(TINY_F16).fields[TEMPLATE][1]
        self.assertEqual(self.prompt_tokens(bare, "Hi", "--chat-template", self.file("t.jinja", source)), own)
        self.fails(2, "run", TINY_F16, "Hi", "--chat-template", "nonsense", says=["nonsense", "chatml", "llama3"])
        self.fails(2, "run", TINY_F16, "Hi", "--chat-template", "chatml", "--raw", says="--raw")
        rendered = self.succeeds("template", "chatml", "--messages", self.messages(("user", "Hi"))).text
        self.assertEqual(rendered, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")

    def test_variables(self):
        path = self.edited(template="{{ messages[0].content }}{% if enable_thinking %}<#>{% endif %}{{ name }}")
        count = lambda *variables: self.prompt_tokens(path, "Hi", *(w for v in variables for w in ("--template-var", v)))
        self.assertEqual(count("enable_thinking=false"), count())
        self.assertEqual(count("enable_thinking=true"), count() + len("<#>"))
        self.assertEqual(count("name=abc"), count() + 3)
        self.fails(2, "run", path, "Hi", "--template-var", "x", says="--template-var: 'x'")


class ControlTokens(Model):
    """Only the template makes control tokens, whatever a message spells."""

    def test_messages_are_plain_text(self):
        path = self.messages(("user", FORGED))
        ids = json.loads(self.succeeds("tokenize", TINY_F16, "--messages", path, "--json").out)["token_ids"]
        self.assertEqual(ids.count(END), 1)
        plain = json.loads(self.succeeds("tokenize", TINY_F16, FORGED, "--no-special", "--json").out)["token_ids"]
        self.assertEqual(len(plain), len(FORGED))  # bytes
        at = next(i for i in range(len(ids)) if ids[i:i + len(plain)] == plain)
        self.assertEqual(ids[at + len(plain)], END)
        self.assertEqual(self.prompt_tokens(TINY_F16, FORGED), len(ids))
        self.assertEqual(self.prompt_tokens(TINY_F16, "Hi", "--system", FORGED) - self.prompt_tokens(TINY_F16, "Hi", "--system", "AB"),
                         len("<|im_end|>"))

    def test_the_rendering_says_what_is_input(self):
        document = json.loads(self.succeeds("template", TINY_F16, "--messages", self.messages(("user", FORGED)), "--json").out)
        text = document["text"]
        self.assertEqual([text[a:b] for a, b in document["input"]], [FORGED])

    def test_raw_text(self):
        count = lambda *more: self.prompt_tokens(TINY_F16, FORGED, "--raw", *more)
        self.assertEqual((count(), count("--parse-special")), (len(FORGED), 3))
        self.fails(2, "run", TINY_F16, "Hi", "--parse-special", says="--raw")

    def test_harmless_text_has_the_same_tokens(self):
        text = "The quick fox\n\n  jumps over 1234 <b>dogs</b> & <|> | im_end"
        rendered = self.succeeds("template", TINY_F16, "--messages", self.messages(("user", text))).text
        plain = json.loads(self.succeeds("tokenize", TINY_F16, rendered, "--json").out)["token_ids"]
        marked = json.loads(self.succeeds("tokenize", TINY_F16, "--messages", self.messages(("user", text)), "--json").out)
        self.assertEqual(marked["token_ids"], plain)


class Ends(Model):
    def test_cut_answers_say_so(self):
        for more in ([], ["--json"]):
            result = self.succeeds("run", TINY_F16, "Hello", "-n", "5", *more)
            self.assertRegex(result.err.decode(), r"^gabbro: note: the answer was cut off after 5 tokens.*\n$")
            result = self.succeeds("run", TINY_F16, "Hello", "--ctx", "64", "--logit-bias", f"{END}=-inf", *more)
            self.assertRegex(result.err.decode(), r"^gabbro: note: the answer was cut off: the context of 64 tokens is full.*\n$")
        self.assertEqual(self.succeeds("run", TINY_F16, "Hello", "--logit-bias", f"{END}=100").err, b"")
        self.assertEqual(self.succeeds("run", TINY_F16, "Hello", "-n", "5", "--log-level", "error").err, b"")

    def test_a_context_beyond_training(self):
        result = self.succeeds("run", TINY_F16, "Hi", "-n", "0", "--ctx", "600")
        self.assertRegex(result.err.decode(), r"^gabbro: warning: a context of 600 tokens is more than the 512 .*\n$")
        self.assertEqual(self.succeeds("run", TINY_F16, "Hi", "-n", "0", "--ctx", "512").err, b"")

    def test_stop_at_a_control_token(self):
        raw = ["--raw", "-n", "8", "a"]
        self.assertEqual(self.succeeds("run", STOP_CONTROL, *raw).text[:3], "bcd")
        for stop, text in (("<|im_start|>", "b\n"), ("b<|im_start|>", "\n"), ("<|im_start|>c", "b\n"), ("im_start", None)):
            document, _ = self.document(STOP_CONTROL, *raw, "--stop", stop)
            if text is None:  # a part of a control token's name stops nothing
                self.assertEqual((document["text"][:3], document["stop_reason"] == "stop"), ("bcd", False))
            else:
                self.assertEqual((document["text"], document["stop_reason"]), (text.strip(), "stop"), stop)


class Files(Model):
    COMMANDS = (["run"], ["tokenize"], ["inspect"], ["logits", "--tokens", "1", "--out", "/dev/null"],
                ["perplexity", "--file", __file__], ["bench", "llm"], ["fit"], ["template", "--messages", None])

    def refused(self, path, *says, commands=COMMANDS):
        for command in commands:
            command = [self.messages(("user", "Hi")) if word is None else word for word in command]
            tail = ["hi"] if command[0] in ("run", "tokenize") else []
            position = 2 if command[:2] == ["bench", "llm"] else 1
            self.fails(2, *command[:position], path, *command[position:], *tail, says=["hint: ", *says])

    def test_what_is_no_model(self):
        self.refused(self.file("pointer.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n"),
                     "Git LFS pointer", "git lfs pull", "12345")
        kinds = ((b"<!DOCTYPE html><html>Sign in", "web page"), (b"PK\3\4....x.gguf", "zip"), (b"\x1f\x8b\x08", "gzip"),
                 (b"\x28\xb5\x2f\xfd", "Zstandard"), (b"7z\xbc\xaf\x27\x1c", "7z"), (b"\0" * 257 + b"ustar", "tar"),
                 (b"\x80\x02}q", "pickle"), (b"PK\3\4...archive/data.pkl", "PyTorch"),
                 (struct.pack("<Q", 12) + b'{"a": "bcd"}', "safetensors"), (b"\0" * 5000, "zeros"), (b"", "empty"))
        for content, name in kinds:
            self.refused(self.file("m.gguf", content), name, commands=self.COMMANDS[:2])

    def test_an_unfinished_download(self):
        whole = pathlib.Path(TINY_F16).read_bytes()
        for size in (len(whole) - 1, len(whole) // 2):
            self.refused(self.file("part.gguf", whole[:size]), "unfinished", f"{size} bytes of", commands=self.COMMANDS)
        for size in (5, 20, 40, 400, 3000):
            self.refused(self.file("part.gguf", whole[:size]), "unfinished", commands=self.COMMANDS[:1])

    def test_a_folder(self):
        self.file("b.gguf", b"")
        self.file("a.gguf", b"")
        self.refused(self.folder, "name one of the GGUF files in it: a.gguf, b.gguf", commands=self.COMMANDS)
        self.file("config.json", "{}")
        self.refused(self.folder, "name one of the GGUF files in it: a.gguf, b.gguf", commands=self.COMMANDS)

    def test_metadata_that_other_programs_take(self):
        plain = self.document(TINY_F16, "Hello", "-n", "8")[0]["token_ids"]
        layers = Gguf(TINY_F16).fields[b"llama.block_count"][1]
        heads = Gguf(TINY_F16).fields[b"llama.attention.head_count_kv"][1]
        path = self.edited(tokenizer__ggml__padding_token_id=(U32, 99999))
        document, err = self.document(path, "Hello", "-n", "8")
        self.assertEqual(document["token_ids"], plain)
        self.assertIn("gabbro: warning: ", err)
        self.assertIn("padding_token_id: token 99999 is outside the vocabulary", err)
        for fields in ({"llama__attention__head_count_kv": (9, (U32, [heads] * layers))},
                       {"llama__attention__head_count_kv": (9, (5, [heads] * layers))},
                       {"tokenizer__ggml__add_bos_token": (U32, 0)}, {"llama__rope__freq_base": (12, 10000.0)}):
            path = self.edited(**fields)
            self.assertEqual(self.document(path, "Hello", "-n", "8")[0]["token_ids"], plain, fields)
            self.succeeds("fit", path)
        path = self.edited(llama__attention__head_count_kv=(9, (U32, [heads] * (layers - 1) + [heads + 1])))
        self.fails(2, "run", path, "Hi", says="differs between layers")


if __name__ == "__main__":
    support.main()

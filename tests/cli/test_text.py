"""tokenize, template and inspect: no model runs."""
import base64
import json
import os
import pathlib
import unittest

import support
from gguf_edit import Gguf
from support import TINY_F16, TINY_Q4_0, TestCase, gabbro

MESSAGES = [{"role": "user", "content": "Hi"}]
RENDERED = "<|im_start|>user\nHi<|im_end|>\n"


class TokenizerFolders(TestCase):
    """Folders with tokenizer.json or a SentencePiece model, of the fixtures that text_test compares text by text."""
    FIXTURES = support.ROOT / "tests" / "data" / "text" / "folders"

    def write_folder(self, name):
        fixture = json.loads((self.FIXTURES / f"{name}.json").read_text())
        for file, content in fixture["files"].items():
            self.file(file, base64.b64decode(content) if file.endswith(".model") else content)
        return fixture

    def ids(self, *arguments, **options):
        return json.loads(self.succeeds("tokenize", *arguments, "--json", **options).out)["token_ids"]

    def test_folder_and_its_file_give_the_reference_ids(self):
        fixture = self.write_folder("llama3")
        texts = [bytes.fromhex(text) for text in json.loads((self.FIXTURES / "texts.json").read_text())]
        for index in (0, 60, 150):
            self.assertEqual(self.ids(self.folder, stdin=texts[index]), fixture["ids"][index])
            self.assertEqual(self.ids(self.folder / "tokenizer.json", stdin=texts[index]), fixture["ids"][index])

    def test_sentencepiece_model(self):
        fixture = self.write_folder("sp-llama2")
        text = bytes.fromhex(json.loads((self.FIXTURES / "texts.json").read_text())[60])
        self.assertEqual(self.ids(self.folder, "--no-bos", "--no-special", stdin=text), fixture["ids"][60])
        self.assertEqual(self.ids(self.folder / "tokenizer.model", "--no-bos", "--no-special", stdin=text), fixture["ids"][60])

    def test_a_document_a_line(self):
        self.write_folder("llama3")
        lines = self.file("texts.jsonl", '"fox"\n\n{"text": "two\\nlines", "id": 7}\n')
        out = self.succeeds("tokenize", self.folder, "--file", lines, "--jsonl").text.splitlines()
        self.assertEqual([json.loads(line)["token_ids"] for line in out],
                         [self.ids(self.folder, "fox"), self.ids(self.folder, "two\nlines")])
        broken = self.file("broken.jsonl", '{"text": 7}\n')
        self.fails(2, "tokenize", self.folder, "--file", broken, "--jsonl", says="line 1")

    def test_chat_template_of_the_folder(self):
        self.write_folder("llama3")
        messages = self.file("messages.json", json.dumps(MESSAGES))
        self.fails(2, "tokenize", self.folder, "--messages", messages, says="no chat template")
        template = "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{{ m.content }}<|eot_id|>{% endfor %}"
        config = json.loads((self.folder / "tokenizer_config.json").read_text())
        written = self.ids(self.folder, "<|start_header_id|>user<|end_header_id|>Hi<|eot_id|>")
        for value in (template, [{"name": "tool_use", "template": "x"}, {"name": "default", "template": template}]):
            self.file("tokenizer_config.json", json.dumps(config | {"chat_template": value}))
            self.assertEqual(self.ids(self.folder, "--messages", messages), written)
        self.file("chat_template.jinja", "{{ messages[0].content }}")
        self.assertEqual(self.ids(self.folder, "--messages", messages), self.ids(self.folder, "Hi"))

    def test_bad_files_say_where(self):
        self.write_folder("llama3")
        document = json.loads((self.folder / "tokenizer.json").read_text())
        self.file("tokenizer.json", json.dumps(document | {"normalizer": {"type": "ROT13"}}))
        self.fails(2, "tokenize", self.folder, "x", says="tokenizer.json.normalizer.type")
        self.file("tokenizer.json", "{")
        self.fails(2, "tokenize", self.folder, "x", says="no JSON at byte")


class Tokenize(TestCase):
    def ids(self, *arguments, **options):
        return json.loads(self.succeeds("tokenize", TINY_F16, *arguments, "--json", **options).out)

    def test_document_and_the_way_back(self):
        text = "The quick fox, 你好 🦊\t\n"
        document = self.ids(text)
        self.assertEqual("".join(t for t in document["tokens"] if "\ufffd" not in t)[:13], "The quick fox")
        back = self.succeeds("tokenize", TINY_F16, "--decode", ",".join(map(str, document["token_ids"])))
        self.assertEqual(back.text, text + "\n")

    def test_argument_file_and_standard_input_agree(self):
        text = "the other dog"
        by_argument = self.ids(text)
        self.assertEqual(by_argument, self.ids("--file", self.file("t", text)))
        self.assertEqual(by_argument, self.ids(stdin=text.encode()))

    def test_merges_apply(self):
        vocabulary = Gguf(TINY_F16).fields[b"tokenizer.ggml.tokens"][1][1]
        ids = self.ids(" the the")["token_ids"]
        self.assertEqual([vocabulary[i] for i in ids], ["Ġthe".encode()] * 2)

    def test_special_tokens(self):
        vocabulary = Gguf(TINY_F16).fields[b"tokenizer.ggml.tokens"][1][1]
        end = vocabulary.index(b"<|im_end|>")
        self.assertEqual(self.ids("<|im_end|>")["token_ids"], [end])
        self.assertNotIn(end, self.ids("<|im_end|>", "--no-special")["token_ids"])

    def test_begin_of_text(self):
        model = Gguf(TINY_F16)
        model.fields[b"tokenizer.ggml.add_bos_token"] = (7, True)
        model.write(self.folder / "bos.gguf")
        bos = model.fields[b"tokenizer.ggml.bos_token_id"][1]
        plain = self.ids("Hi")["token_ids"]
        for extra, expected in (([], [bos] + plain), (["--no-bos"], plain)):
            out = self.succeeds("tokenize", self.folder / "bos.gguf", "Hi", "--json", *extra).out
            self.assertEqual(json.loads(out)["token_ids"], expected)

    def test_invalid_utf8(self):
        document = self.ids(b"a\xff\xfeb")
        self.assertTrue(document["token_ids"])
        self.ids("--file", self.file("t", b"\xc3\x28\xa0\xa1\xe2\x82"))
        self.ids(stdin=bytes(range(256)))
        self.succeeds("tokenize", TINY_F16, b"a\xff\xfeb")

    def test_empty_text(self):
        self.assertEqual(self.ids("")["token_ids"], [])
        self.assertEqual(self.ids(stdin=b"")["token_ids"], [])

    def test_bad_token_lists(self):
        for tokens in ("", "x", "1,", ",1", "1 2", "-1", "99999999999999"):
            self.fails(2, "tokenize", TINY_F16, f"--decode={tokens}", says="--decode")
        self.fails(2, "tokenize", TINY_F16, "--decode", "100000", says="100000")

    def test_only_one_source(self):
        self.fails(2, "tokenize", TINY_F16, "text", "--file", "f")


class Template(TestCase):
    def setUp(self):
        super().setUp()
        self.messages = self.file("messages.json", json.dumps(MESSAGES))

    def test_of_a_model(self):
        rendered = self.succeeds("template", TINY_F16, "--messages", self.messages).text
        self.assertEqual(rendered, RENDERED + "<|im_start|>assistant\n")
        rendered = self.succeeds("template", TINY_F16, "--messages", self.messages, "--no-generation-prompt").text
        self.assertEqual(rendered, RENDERED)

    def test_of_a_file_with_tools_and_variables(self):
        source = self.file("t.jinja", "{{ tools | length }} {{ name }} {{ flag }} {{ messages[0].content }}")
        tools = self.file("tools.json", '[{"type": "function", "function": {"name": "f"}}]')
        result = self.succeeds("template", source, "--messages", self.messages, "--tools", tools, "--var", "name=a=b",
                               "--var", "flag=false")
        self.assertEqual(result.text, "1 a=b False Hi")

    def test_messages_within_a_request(self):
        request = self.file("request.json", json.dumps({"model": "x", "messages": MESSAGES}))
        self.assertEqual(self.succeeds("template", TINY_F16, "--messages", request, "--json").text,
                         self.succeeds("template", TINY_F16, "--messages", self.messages, "--json").text)

    def test_bad_input(self):
        source = self.file("t.jinja", "{{ messages[0].content }}")
        for name, content in {"empty": b"", "text": b"hello", "object": b"{}", "number": b"3", "utf8": b'["\xff"]',
                              "deep": b"[" * 200000, "closed": b"[" * 200000 + b"]" * 200000}.items():
            self.fails(2, "template", source, "--messages", self.file(name, content))
        self.fails(2, "template", source, "--messages", self.folder / "missing", says="missing")
        self.fails(2, "template", source, "--messages", self.folder, says=str(self.folder))
        self.fails(2, "template", source, "--messages", self.messages, "--var", "x", says="--var")
        self.fails(2, "template", self.file("bad.jinja", "{% for %}"), "--messages", self.messages, says="line 1")
        self.fails(2, "template", self.file("no.jinja", "{{ raise_exception('no way') }}"), "--messages", self.messages,
                   says="no way")
        self.fails(2, "template", self.folder / "missing.jinja", "--messages", self.messages, says="missing.jinja")

    def test_a_model_without_one(self):
        model = Gguf(TINY_F16)
        del model.fields[b"tokenizer.chat_template"]
        model.write(self.folder / "plain.gguf")
        self.fails(2, "template", self.folder / "plain.gguf", "--messages", self.messages, says="no chat template")


class Inspect(TestCase):
    def test_document(self):
        document = json.loads(self.succeeds("inspect", TINY_Q4_0, "--tensors", "--json").out)
        self.assertEqual(document["metadata"]["general.architecture"], "llama")
        self.assertEqual(document["metadata"]["llama.attention.head_count"], 2)
        self.assertEqual(document["metadata"]["tokenizer.ggml.tokens"]["count"], 300)
        self.assertEqual(document["tensor_count"], len(document["tensors"]))
        embedding = next(t for t in document["tensors"] if t["name"] == "token_embd.weight")
        self.assertEqual((embedding["shape"], embedding["format"]), ([300, 64], "Q4_0"))
        self.assertEqual(embedding["bytes"], 300 * 64 // 32 * 18)

    def test_table(self):
        text = self.succeeds("inspect", TINY_F16).text
        self.assertIn("llama.block_count", text)
        self.assertNotIn("blk.0.attn_q.weight", text)
        self.assertIn("blk.0.attn_q.weight", self.succeeds("inspect", TINY_F16, "--tensors").text)

    def test_vocabulary_only_and_unsupported_formats(self):
        model = Gguf(TINY_F16)
        model.tensors = []
        model.write(self.folder / "vocabulary.gguf")
        self.succeeds("inspect", self.folder / "vocabulary.gguf")
        self.succeeds("tokenize", self.folder / "vocabulary.gguf", "Hi")
        model = Gguf(TINY_F16)
        model.fields[b"general.architecture"] = (8, b"unheard-of")
        model.fields[b"general.name"] = (8, b"\xff\x00\x1b[31m\n")
        model.write(self.folder / "strange.gguf")
        self.assertNotIn(b"\x1b", self.succeeds("inspect", self.folder / "strange.gguf").out)
        json.loads(self.succeeds("inspect", self.folder / "strange.gguf", "--json").out)

    def test_files_that_are_not_models(self):
        self.fails(2, "inspect", self.folder / "missing.gguf", says="missing.gguf")
        self.fails(2, "inspect", self.folder, says=str(self.folder))
        self.fails(2, "inspect", self.file("empty.gguf", b""), says="empty.gguf")
        self.fails(2, "inspect", self.file("text.gguf", b"hello, world, this is not a model at all"), says="text.gguf")
        self.fails(2, "inspect", "", says="")
        self.fails(2, "inspect", "/dev/null")

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_no_permission(self):
        path = self.file("secret.gguf", b"GGUF")
        path.chmod(0)
        self.fails(2, "inspect", path, says="secret.gguf")

    def test_truncated_at_many_lengths(self):
        whole = pathlib.Path(TINY_Q4_0).read_bytes()
        for length in [1, 3, 4, 5, 8, 16, 23, 24, 25, 100, 1000, 5000, len(whole) // 2, len(whole) - 100]:
            self.fails(2, "inspect", self.file("cut.gguf", whole[:length]), says="cut.gguf")


if __name__ == "__main__":
    support.main()

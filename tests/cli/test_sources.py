"""What the source of a model says besides its weights: layers of Ollama's manifests, chat templates by name, tools, names of
tensors, scales and types of safetensors."""
import hashlib
import json
import math
import pathlib
import shutil
import struct

import support
from support import ROOT, TINY_F16, TestCase

FAMILIES = ROOT / "tests" / "data" / "families"
ADAPTER = ROOT / "tests" / "data" / "adapters" / "llama.gguf"
USER = [{"role": "user", "content": "Hi"}]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}}]
TOKENIZER = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
             "pre_tokenizer": None, "post_processor": None, "decoder": None,
             "model": {"type": "BPE", "unk_token": None, "vocab": {chr(97 + i): i for i in range(26)}, "merges": []}}


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    return {name: (info["dtype"], info["shape"], data[8 + size + info["data_offsets"][0]:8 + size + info["data_offsets"][1]])
            for name, info in header.items() if name != "__metadata__"}


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


class SourcesTest(TestCase):
    def setUp(self):
        super().setUp()
        self.store = self.folder / "ollama"
        self.environment = {"OLLAMA_MODELS": str(self.store)}

    def run_gabbro(self, *arguments):
        return self.succeeds(*arguments, environment=self.environment)

    def refuses(self, *arguments, says=()):
        return self.fails(2, *arguments, says=says, environment=self.environment)

    def blob(self, data):
        data = data if isinstance(data, bytes) else data.encode()
        digest = hashlib.sha256(data).hexdigest()
        path = self.store / "blobs" / f"sha256-{digest}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    def manifest(self, name, model, config=None, **layers):
        """`name`: HOST/NAMESPACE/MODEL/TAG. `layers` by their kinds; a value that is not a text is JSON."""
        listed = [("model", pathlib.Path(model).read_bytes())]
        for kind, value in layers.items():
            listed.append((kind, value if isinstance(value, (str, bytes)) else json.dumps(value)))
        path = self.store / "manifests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"schemaVersion": 2, "config": self.blob(json.dumps(config or {})), "layers": [
            {"mediaType": f"application/vnd.ollama.image.{kind}", **self.blob(value)} for kind, value in listed]}))

    def model_folder(self, **files):
        """A folder with a tokenizer and weights; `files` by their names with "__" for "." and "___" for "/"."""
        folder = self.folder / "folder"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in "config.json", "model.safetensors":
            shutil.copy(FAMILIES / "llama" / name, folder)
        files = {"tokenizer__json": TOKENIZER, **files}
        for name, content in files.items():
            path = folder / name.replace("___", "/").replace("__", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return folder

    def logits(self, *arguments):
        out = self.folder / "logits.npy"
        self.run_gabbro("logits", *arguments, "--tokens", "1,5,7,3", "--out", out)
        return out.read_bytes()


class OllamaLayers(SourcesTest):
    def test_an_adapter_is_applied_by_every_command(self):
        base = self.folder / "base.gguf"
        self.run_gabbro("convert", FAMILIES / "llama", "--type", "f32", "-o", base)
        self.manifest("registry.ollama.ai/library/tuned/latest", base, adapter=ADAPTER.read_bytes())
        expected = self.logits(base, "--lora", ADAPTER)
        self.assertNotEqual(expected, self.logits(base))
        self.assertEqual(self.logits("tuned"), expected)
        for name, source in (("a", ["tuned"]), ("b", [base, "--lora", ADAPTER])):
            self.run_gabbro("convert", *source, "--type", "f32", "-o", self.folder / f"{name}.gguf")
        self.assertEqual(self.logits(self.folder / "a.gguf"), self.logits(self.folder / "b.gguf"))
        shown = json.loads(self.run_gabbro("inspect", "tuned", "--json").text)["ollama"]
        self.assertEqual(pathlib.Path(shown["adapter"][0]).read_bytes(), ADAPTER.read_bytes())
        self.refuses("embed", "tuned", "x", says="tuned:latest: its adapter cannot be applied")
        pathlib.Path(shown["adapter"][0]).unlink()
        self.refuses("logits", "tuned", "--tokens", "1", "--out", self.folder / "x.npy",
                     says=["tuned:latest: the layer adapter", "is missing", "hint: ollama pull tuned:latest"])

    def answer(self, *arguments):
        result = self.run_gabbro("run", *arguments, "--json")
        document = json.loads(result.text)
        return {key: document[key] for key in ("text", "token_ids", "prompt_tokens", "stop_reason")}, result.err.decode()

    def test_template_system_messages_and_parameters(self):
        self.manifest("registry.ollama.ai/library/styled/latest", TINY_F16, template="{{ .System }}|{{ .Prompt }}>",
                      system="be brief", params={"num_ctx": 40, "num_predict": 6, "temperature": 0, "num_gpu": 1,
                                                 "stop": ["~~", "##"]},
                      messages=[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
                      license="MIT\nlicense")
        answer, said = self.answer("styled", "Hi")
        raw = "be brief|a>b|Hi>"
        self.assertEqual(answer, self.answer(TINY_F16, raw, "--raw", "-n", "6", "--ctx", "40")[0])
        self.assertEqual(len(answer["token_ids"]), 6)
        self.assertIn("styled:latest: parameters that are not followed: num_gpu", said)
        self.assertEqual(self.run_gabbro("template", "styled", "--messages", self.file("m.json", json.dumps(USER))).text, raw)
        tokens = json.loads(self.run_gabbro("tokenize", "styled", "--messages", self.folder / "m.json", "--json").text)
        plain = json.loads(self.run_gabbro("tokenize", TINY_F16, raw, "--json").text)
        self.assertEqual(tokens["token_ids"], plain["token_ids"])
        # The command line comes first.
        other = self.answer("styled", "Hi", "-n", "3", "--system", "S")[0]
        self.assertEqual(other, self.answer(TINY_F16, "S|a>b|Hi>", "--raw", "-n", "3", "--ctx", "40")[0])
        # Raw text has neither template nor messages, but its parameters.
        self.assertEqual(self.answer("styled", "Hi", "--raw")[0], self.answer(TINY_F16, "Hi", "--raw", "-n", "6")[0])
        batch = self.run_gabbro("run", "styled", "--prompts", self.file("p.txt", "Hi\n"))
        self.assertEqual(json.loads(batch.text)["token_ids"], answer["token_ids"])
        shown = self.run_gabbro("inspect", "styled").text
        for line in ("be brief", "{{ .System }}|{{ .Prompt }}>", r"MIT\nlicense", "ollama.parameter.num_ctx"):
            self.assertIn(line, shown)
        left_out = self.run_gabbro("convert", "styled", "--type", "q8_0", "-o", self.folder / "s.gguf").err.decode()
        self.assertIn("not part of the new file: TEMPLATE, SYSTEM, PARAMETER, MESSAGE, LICENSE", left_out)

    def test_stop_texts(self):
        text = self.answer(TINY_F16, "a b", "--raw", "-n", "8")[0]["text"]
        self.manifest("registry.ollama.ai/library/stops/latest", TINY_F16, params={"stop": [text[3:5]], "num_predict": 8})
        self.assertEqual(self.answer("stops", "a b", "--raw")[0]["text"], text[:text.find(text[3:5])])
        self.assertEqual(self.answer("stops", "a b", "--raw", "--stop", "\x01never")[0]["text"], text)

    def test_what_is_not_followed_is_said(self):
        self.manifest("registry.ollama.ai/library/odd/latest", TINY_F16, template="{{ html .Prompt }}", projector="x")
        said = self.answer("odd", "Hi", "-n", "1")[1]
        self.assertIn("odd:latest: its TEMPLATE is not followed, the chat template of the model's file is used: ", said)
        self.assertIn("function 'html' is not supported", said)
        self.assertIn("odd:latest: the layer 'projector' is not followed", said)
        self.manifest("registry.ollama.ai/library/drawn/latest", TINY_F16, config={"renderer": "qwen3-vl"}, template="x")
        self.assertIn("renderer 'qwen3-vl' is not followed", self.answer("drawn", "Hi", "-n", "1")[1])
        for params, says in (({"temperature": "hot"}, "PARAMETER temperature: "), ({"top_k": 1.5}, "PARAMETER top_k: "),
                             ({"num_ctx": [1]}, "PARAMETER num_ctx: is not a number"),
                             ({"stop": [1]}, "PARAMETER stop: is not a text")):
            self.manifest("registry.ollama.ai/library/wrong/latest", TINY_F16, params=params)
            self.refuses("run", "wrong", "Hi", says=["wrong:latest: " + says])
        self.manifest("registry.ollama.ai/library/wrong/latest", TINY_F16, params="[1]")
        self.refuses("run", "wrong", "Hi", says="the layer params is not an object")
        self.manifest("registry.ollama.ai/library/wrong/latest", TINY_F16, messages="{}")
        self.refuses("run", "wrong", "Hi", says="is not a list of messages")

    def test_broken_models_are_said(self):
        self.manifest("registry.ollama.ai/library/tiny/latest", TINY_F16, messages=[
            {"role": "user", "content": "q", "images": ["x"]}])
        self.assertIn("tiny:latest: a MESSAGE has a picture, which is left out", self.answer("tiny", "Hi", "-n", "1")[1])
        manifest = self.store / "manifests" / "registry.ollama.ai" / "library" / "tiny" / "latest"
        whole = json.loads(manifest.read_text())
        for changed, says in (({**whole, "layers": whole["layers"][1:]}, "no GGUF file is among its layers ('messages')"),
                              ({**whole, "layers": None}, "'layers' is not a list")):
            manifest.write_text(json.dumps(changed))
            self.refuses("run", "TINY", "Hi", says=["tiny:latest: Ollama's model is broken: ", says, "ollama pull tiny:latest"])
        manifest.write_text(json.dumps(whole))
        next(path for path in (self.store / "blobs").iterdir() if path.stat().st_size > 10000).unlink()
        self.refuses("run", "tiny", "Hi", says="is missing")

    def test_names(self):
        for name in "registry.ollama.ai/library/tiny/latest", "registry.ollama.ai/me/own/8b", "hf.co/own/m-GGUF/Q8_0", \
                "example.org:5000/team/tiny/v1", "registry.ollama.ai/library/Twice/latest", "registry.ollama.ai/library/twice/latest":
            self.manifest(name, TINY_F16)
        for name in "tiny", "TINY:Latest", "library/tiny", "registry.ollama.ai/library/tiny", "hf.co/own/m-gguf:q8_0", \
                "hf.co/own/m-GGUF", "huggingface.co/own/m-GGUF:Q8_0", "https://registry.ollama.ai/library/tiny:latest", "me/own:8b", \
                "registry.ollama.ai/me/own:8b", "example.org:5000/team/tiny:v1", "EXAMPLE.ORG:5000/team/tiny:v1", "twice":
            self.run_gabbro("inspect", name, "--json")
        self.refuses("inspect", "TWICE", says=["could be", "Twice:latest", "twice:latest"])
        for name in "tiny:v1", "other/tiny", "example.org/team/tiny:v1", "hf.co/own/m-GGUF:q4_0":
            self.refuses("inspect", name, says="no model")
        self.manifest("hf.co/own/m-GGUF/Q4_0", TINY_F16)
        self.refuses("inspect", "hf.co/own/m-GGUF", says=["could be", "m-GGUF:Q8_0"])


class ChatTemplates(SourcesTest):
    def rendered(self, folder, *arguments, messages=USER, tools=None):
        command = ["template", folder, "--messages", self.file("messages.json", json.dumps(messages)), *arguments]
        if tools is not None:
            command += ["--tools", self.file("tools.json", json.dumps(tools))]
        result = self.run_gabbro(*command)
        return result.text, result.err.decode()

    def test_templates_by_name(self):
        named = [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T{{ tools | length }}"},
                 {"name": "rag", "template": "R"}]
        folder = self.model_folder(tokenizer_config__json={"chat_template": named})
        self.assertEqual(self.rendered(folder)[0], "D")
        self.assertEqual(self.rendered(folder, tools=TOOLS), ("T1", "gabbro: warning: the chat template leaves out the text "
                                                                    "of message 1\n"))
        self.assertEqual(self.rendered(folder, tools=[])[0], "D")
        # A GGUF file has all of them.
        self.run_gabbro("convert", folder, "--type", "f16", "-o", self.folder / "named.gguf")
        self.assertEqual(self.rendered(self.folder / "named.gguf")[0], "D")
        self.assertEqual(self.rendered(self.folder / "named.gguf", tools=TOOLS)[0], "T1")
        fields = json.loads(self.run_gabbro("inspect", self.folder / "named.gguf", "--json").text)["metadata"]
        self.assertEqual(fields["tokenizer.chat_template.rag"], "R")
        self.assertEqual(fields["tokenizer.chat_templates"]["first"], ["rag", "tool_use"])
        folder = self.model_folder(tokenizer_config__json={"chat_template": named[1:]})
        self.refuses("template", folder, "--messages", self.folder / "messages.json",
                     says=["none of them is the default: 'tool_use', 'rag'"])
        self.assertEqual(self.rendered(folder, tools=TOOLS)[0], "T1")

    def test_files_of_templates(self):
        config, processor = {"chat_template": "C{{ messages[0].content }}"}, {"chat_template": "P{{ messages[0].content }}"}
        self.assertEqual(self.rendered(self.model_folder(chat_template__json=processor))[0], "PHi")
        self.assertEqual(self.rendered(self.model_folder(chat_template__json=processor, tokenizer_config__json=config))[0], "CHi")
        folder = self.model_folder(chat_template__jinja="J{{ messages[0].content }}", tokenizer_config__json=config,
                                   additional_chat_templates___tool_use__jinja="A{{ tools[0].function.name }}")
        self.assertEqual(self.rendered(folder)[0], "JHi")
        self.assertEqual(self.rendered(folder, tools=TOOLS)[0], "Af")

    def test_special_tokens_are_variables(self):
        named = {"bos_token": "b", "eos_token": {"content": "a", "lstrip": False}, "unk_token": "c"}
        template = "".join("{{ %s_token }}|" % name for name in ("bos", "eos", "unk", "pad"))
        folder = self.model_folder(tokenizer__json={**TOKENIZER, "decoder": {"type": "Fuse"}},
                                   tokenizer_config__json={**named, "chat_template": template},
                                   special_tokens_map__json={"unk_token": "x", "pad_token": "d"})
        self.assertEqual(self.rendered(folder)[0], "b|a|c|d|")
        self.run_gabbro("convert", folder, "--type", "f16", "-o", self.folder / "named.gguf")
        self.assertEqual(self.rendered(self.folder / "named.gguf")[0], "b|a|c|d|")

    def test_tools_without_a_place_are_said(self):
        text, said = self.rendered(self.model_folder(chat_template__jinja="{{ messages[0].content }}"), tools=TOOLS)
        self.assertEqual((text, said), ("Hi", "gabbro: warning: the chat template does not show tools: the model is not told "
                                              "of them\n"))
        text, said = self.rendered(self.model_folder(chat_template__jinja="{{ messages[0].content }}{{ tools }}"), tools=TOOLS)
        self.assertEqual(said, "")

    def test_rows_with_tools(self):
        named = [{"name": "default", "template": "d{{ messages[0].content }}"},
                 {"name": "tool_use", "template": "tools{{ messages[0].content }}{% if tools %}x{% endif %}"}]
        rows = [{"prompt": "hi"}, {"prompt": "hi", "tools": TOOLS}]
        prompts = self.file("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        counts = {}
        for name, templates in ("both", named), ("default", named[:1]):
            folder = self.model_folder(tokenizer_config__json={"chat_template": templates})
            result = self.run_gabbro("run", folder, "--prompts", prompts, "-n", "1")
            counts[name] = [json.loads(line)["prompt_tokens"] for line in result.text.splitlines()]
            self.assertEqual(b"does not show tools" in result.err, name == "default", result)
        self.assertEqual(counts, {"both": [3, 8], "default": [3, 3]})

    def test_a_template_that_takes_a_system_message_is_followed(self):
        # As Mistral Nemo's: the system message is shown in the last user message, if that ends the conversation.
        last = ("{% set system = messages[0].content if messages[0].role == 'system' %}{% for m in messages %}"
                "{% if m.role == 'user' %}[{% if loop.last and system %}{{ system }}: {% endif %}{{ m.content }}]"
                "{% elif m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}")
        folder = self.model_folder(chat_template__jinja=last)
        system = {"role": "system", "content": "S"}
        calls = [system, *USER, {"role": "assistant", "content": "call"}, {"role": "tool", "content": "4"}]
        self.assertEqual(self.rendered(folder, messages=[system, *USER])[0], "[S: Hi]")
        text, said = self.rendered(folder, messages=calls)
        self.assertEqual((text, said), ("[Hi]call4", "gabbro: warning: the chat template leaves out the text of message 1\n"))
        none = self.model_folder(chat_template__jinja="{% for m in messages if m.role != 'system' %}[{{ m.content }}]{% endfor %}")
        self.assertEqual(self.rendered(none, messages=calls)[0], "[S\n\nHi][call][4]")


class Tensors(SourcesTest):
    def with_names(self, rename, family="llama"):
        folder = self.model_folder()
        shutil.copy(FAMILIES / family / "config.json", folder)
        tensors = read_safetensors(FAMILIES / family / "model.safetensors")
        write_safetensors(folder / "model.safetensors", {rename(name): tensor for name, tensor in tensors.items()})
        return folder

    def test_names_with_other_prefixes(self):
        def bare(name):
            return name.removeprefix("model.")

        for family in "llama", "qwen3":
            expected = self.logits(FAMILIES / family)
            for rename in (bare, lambda name: "language_model." + name, lambda name: "language_model." + bare(name),
                           lambda name: "_orig_mod." + name, lambda name: "module." + name,
                           lambda name: name.replace("model.", "model.language_model.", 1)):
                folder = self.with_names(rename, family)
                self.assertEqual(self.logits(folder), expected, rename("model.norm.weight"))
                converted = self.folder / "converted.gguf"
                self.run_gabbro("convert", folder, "--type", "f32", "--force", "-o", converted)
                whole = self.folder / "whole.gguf"
                self.run_gabbro("convert", FAMILIES / family, "--type", "f32", "--force", "-o", whole)
                self.assertEqual(self.logits(converted), self.logits(whole))
                self.run_gabbro("inspect", folder, "--check")

    def test_fused_matrices_next_to_separate_ones_are_not_used(self):
        folder = self.with_names(str)
        expected = self.logits(folder)
        tensors = read_safetensors(folder / "model.safetensors")
        rows = sum(tensors[f"model.layers.0.self_attn.{name}_proj.weight"][1][0] for name in "qkv")
        columns = tensors["model.layers.0.self_attn.q_proj.weight"][1][1]
        tensors["model.layers.0.self_attn.qkv_proj.weight"] = ("F32", [rows, columns], bytes(4 * rows * columns))
        write_safetensors(folder / "model.safetensors", tensors)
        self.assertEqual(self.logits(folder), expected)
        self.run_gabbro("convert", folder, "--type", "f32", "-o", self.folder / "a.gguf")
        self.run_gabbro("convert", FAMILIES / "llama", "--type", "f32", "-o", self.folder / "b.gguf")
        self.assertEqual(self.logits(self.folder / "a.gguf"), self.logits(self.folder / "b.gguf"))

    def test_matrices_of_another_shape_are_not_converted(self):
        name = "model.layers.1.self_attn.k_proj.weight"
        for change in (lambda dtype, shape, data: (dtype, shape[::-1], data), lambda _, shape, data: ("I16", shape, data)):
            folder = self.with_names(str)
            tensors = read_safetensors(folder / "model.safetensors")
            self.assertNotEqual(*tensors[name][1])
            tensors[name] = change(*tensors[name])
            write_safetensors(folder / "model.safetensors", tensors)
            for command in (["logits", folder, "--tokens", "1", "--out", self.folder / "x.npy"],
                            ["convert", folder, "--type", "q8_0", "-o", self.folder / "x.gguf"]):
                self.refuses(*command, says=f"tensor '{name}'")
            self.assertFalse((self.folder / "x.gguf").exists())

    def test_f64(self):
        folder = self.model_folder()
        tensors = read_safetensors(FAMILIES / "llama" / "model.safetensors")
        found = []
        for dtype, code in ("F32", "f"), ("F64", "d"):
            write_safetensors(folder / "model.safetensors", {name: widened(dtype, code, *tensor) for name, tensor in tensors.items()})
            found.append(self.logits(folder))
            self.run_gabbro("inspect", folder, "--check")
        self.assertEqual(found[0], found[1])
        for name, source in (("a", folder), ("b", FAMILIES / "llama")):
            self.run_gabbro("convert", source, "--type", "q8_0", "-o", self.folder / f"{name}.gguf")
        self.assertEqual(self.logits(self.folder / "a.gguf"), self.logits(self.folder / "b.gguf"))

    def test_e8m0_scales(self):
        folder = ROOT / "tests" / "data" / "quantized" / "fp8_block"
        shutil.copytree(folder, self.folder / "e8m0")
        path = self.folder / "e8m0" / "model.safetensors"
        tensors = read_safetensors(path)
        by_type = {"F32": {}, "F8_E8M0": {}}
        for name, (dtype, shape, data) in tensors.items():
            if name.endswith("weight_scale_inv"):  # the powers of two next to them
                exponents = [round_exponent(value) for value in floats(dtype, data)]
                by_type["F32"][name] = ("F32", shape, b"".join(struct.pack("<f", 2.0 ** e) for e in exponents))
                by_type["F8_E8M0"][name] = ("F8_E8M0", shape, bytes(e + 127 for e in exponents))
        self.assertTrue(by_type["F32"])
        found = []
        for scales in by_type.values():
            write_safetensors(path, {**tensors, **scales})
            found.append(self.logits(self.folder / "e8m0"))
            self.run_gabbro("inspect", self.folder / "e8m0", "--check")
        self.assertEqual(found[0], found[1])


def floats(dtype, data):
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    code, size = {"F32": ("<f", 4), "F16": ("<e", 2)}[dtype]
    return [struct.unpack(code, data[i:i + size])[0] for i in range(0, len(data), size)]


def widened(dtype, code, old, shape, data):
    values = floats(old, data)
    return dtype, shape, struct.pack(f"<{len(values)}{code}", *values)


def round_exponent(value):
    return round(math.log2(value))


if __name__ == "__main__":
    support.main()

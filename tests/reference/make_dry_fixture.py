#!/usr/bin/env python3
"""Writes tests/data/sampler/dry_breakers.json: what llama.cpp's DRY takes off each token, with sequence breakers.

Needs numpy, gguf and llama-cpp-python (see tests/quality/llama_logits.py). The logits are all 0 before. Usage:
make_dry_fixture.py [output folder]
"""
import ctypes
import json
import pathlib
import random
import sys
import tempfile

import gguf
from llama_cpp import llama_cpp as api

DATA = pathlib.Path(__file__).parent.parent / "data"
DEFAULTS = ["\n", ":", "\"", "*"]
PHRASES = ["the other dog", " and then", ": the end", "\n", " of life?", " *Paris*", "\"France\"", " 12", "é", " fox jumps", ".\n\n"]
BREAKERS = [DEFAULTS, [], ["the dog"], ["\n\n"], ["fox jumps"], ["é"], ["d", "and th"], ["other dog and", "dog"], [" "],
            ["he e", "e"], ["zqzqzqzqzqzqzqzqzqzqzqzqzqzqzqzqzqzqzqzq"]]


def sentencepiece_file(folder):
    vocabulary = json.loads((DATA / "text" / "sentencepiece.json").read_text())
    path = pathlib.Path(folder) / "sentencepiece.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(vocabulary["tokens"])
    writer.add_token_scores(vocabulary["scores"])
    writer.add_token_types(vocabulary["types"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


class Vocabulary:
    def __init__(self, path):
        params = api.llama_model_default_params()
        params.vocab_only = True
        self.model = api.llama_model_load_from_file(str(path).encode(), params)
        self.vocab = api.llama_model_get_vocab(self.model)
        self.size = api.llama_vocab_n_tokens(self.vocab)

    def tokenize(self, text):
        out = (api.llama_token * 4096)()
        text = text.encode()
        return list(out[:api.llama_tokenize(self.vocab, text, len(text), out, 4096, False, False)])

    def dry(self, history, breakers, multiplier, base, allowed):
        """{token: what is taken off its logit}"""
        texts = (ctypes.c_char_p * max(1, len(breakers)))(*[b.encode() for b in breakers])
        sampler = api.llama_sampler_init_dry(self.vocab, multiplier, base, allowed, len(history),
                                             ctypes.cast(texts, ctypes.POINTER(ctypes.c_char_p)), len(breakers))
        for token in history:
            api.llama_sampler_accept(sampler, token)
        items = (api.llama_token_data * self.size)(*[api.llama_token_data(i, 0.0, 0.0) for i in range(self.size)])
        array = api.llama_token_data_array(items, self.size, -1, False)
        api.llama_sampler_apply(sampler, ctypes.byref(array))
        api.llama_sampler_free(sampler)
        return {items[i].id: float(f"{-items[i].logit:.9g}") for i in range(self.size) if items[i].logit != 0}


def histories(vocabulary, breakers, rng):
    for _ in range(4):  # a text said again and again, a breaker somewhere in it, and cut somewhere
        words = [rng.choice(PHRASES) for _ in range(rng.randrange(2, 7))]
        words.insert(rng.randrange(len(words) + 1), rng.choice(breakers or [""]))
        tokens = vocabulary.tokenize("".join(words))
        yield (tokens * 4)[:rng.randrange(2 * len(tokens), 4 * len(tokens))]
    yield vocabulary.tokenize("".join(rng.choice(PHRASES) for _ in range(30)))
    few = vocabulary.tokenize("".join([*rng.sample(PHRASES, 3), *breakers]))[-5:]
    yield [rng.choice(few) for _ in range(50)]


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else DATA / "sampler")
    keep = api.llama_log_callback(lambda level, text, user: None)
    api.llama_log_set(keep, None)
    api.llama_backend_init()
    rng = random.Random(11)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, path in (("tiny", DATA / "tiny" / "tiny-f16.gguf"), ("sentencepiece", sentencepiece_file(folder))):
            vocabulary = Vocabulary(path)
            for breakers in BREAKERS:
                for history in histories(vocabulary, breakers, rng):
                    allowed = rng.choice([1, 2, 4])
                    base = 1.75 if len(history) < 100 else 1.25  # Gabbro takes off 1e30 at most
                    penalties = vocabulary.dry(history, breakers, 0.8, base, allowed)
                    rows.append({"vocabulary": name, "breakers": breakers, "history": history, "multiplier": 0.8,
                                 "base": base, "allowed": allowed, "penalties": penalties,
                                 "without": vocabulary.dry(history, [], 0.8, base, allowed)})
    changed = sum(row["penalties"] != row.pop("without") for row in rows)
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(rows, separators=(",", ":"), ensure_ascii=False).replace("},{", "},\n{")
    (out / "dry_breakers.json").write_text(text + "\n", encoding="utf-8")
    print(f"{len(rows)} rows, {sum(bool(r['penalties']) for r in rows)} with penalties, {changed} where breakers make a difference")


main()

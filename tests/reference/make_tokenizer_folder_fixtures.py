#!/usr/bin/env python3
"""Makes tests/data/text/folders/*.json: small tokenizers as make_tokenizer_folders.py trains them, and for the texts of
texts.json the ids and decoded texts that `tokenizers` and `sentencepiece` give.

Normalization rules are a short list of our own here: those that SentencePiece has built in are large.
"""
import base64
import json
import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare_tokenizer_folders
import make_tokenizer_folders
import tokenizer_text

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "text", "folders")
NAMES = ["llama3", "qwen2", "deepseek", "roberta", "phi", "llama2", "mistral", "gemma", "bert-uncased", "bert-cased", "t5",
         "xlm-roberta", "unigram-bytes", "clip", "openai-gpt", "subword-prefix", "word-level", "ctc", "strips", "contiguous",
         "merged-with-next", "sp-llama2", "sp-t5", "sp-gemma", "sp-xlnet", "sp-unigram-bytes", "sp-suffix"]


def rules():
    """Normalization rules: full-width letters, ligatures, white space, and clusters of several characters."""
    pairs = [(chr(code), chr(code - 0xFEE0)) for code in range(0xFF01, 0xFF5F)]
    pairs += [(text, " ") for text in "\\t\\n\\r\\u00a0\\u2003\\u3000".encode().decode("unicode_escape")]
    pairs += [("\u00ad", ""), ("\u200b", ""), ("\ufeff", ""), ("ﬁ", "fi"), ("ﬂ", "fl"), ("½", "1⁄2"), ("²", "2"), ("Ⅷ", "VIII"),
              ("e\u0301", "é"), ("n\u0303", "ñ"), ("a\u0308", "ä"), ("É", "é"), ("…", "..."), ("①", "1"), ("\u212A", "K")]
    spell = lambda text: " ".join(f"{ord(c):X}" for c in text)  # noqa: E731
    return "".join(f"{spell(source)}\t{spell(target)}\n" for source, target in pairs)


def texts():
    lines = list(tokenizer_text.lines(900, 11))
    fixed, mixed = lines[:330], [line for line in lines[330:] if len(line) < 120]
    return random.Random(5).sample(fixed, 110) + mixed[:70]


def main():
    os.makedirs(OUT, exist_ok=True)
    lines = texts()
    with open(os.path.join(OUT, "texts.json"), "w") as file:
        json.dump([line.hex() for line in lines], file, separators=(",", ":"))
        file.write("\n")
    with tempfile.TemporaryDirectory() as scratch:
        make_tokenizer_folders.SMALL_RULES = os.path.join(scratch, "rules.tsv")
        with open(make_tokenizer_folders.SMALL_RULES, "w") as file:
            file.write(rules())
        for name in NAMES:
            make_tokenizer_folders.write_folder(scratch, name)
            folder = os.path.join(scratch, name)
            library = compare_tokenizer_folders.reference(folder)
            fixture = {"files": {}, "parses_special": library.special, "ids": [], "texts": [], "with_control": []}
            for file_name in os.listdir(folder):
                with open(os.path.join(folder, file_name), "rb") as file:
                    content = file.read()
                if file_name.endswith(".json"):
                    fixture["files"][file_name] = json.dumps(json.loads(content), ensure_ascii=False, separators=(",", ":"))
                else:
                    fixture["files"][file_name] = base64.b64encode(content).decode()
            for line in lines:
                ids = list(library.encode(line))
                fixture["ids"].append(ids)
                shown, control = library.decode(ids, False), library.decode(ids, True)
                fixture["texts"].append(shown)
                fixture["with_control"].append(None if control == shown else control)
            with open(os.path.join(OUT, name + ".json"), "w") as file:
                json.dump(fixture, file, ensure_ascii=False, separators=(",", ":"))
                file.write("\n")


if __name__ == "__main__":
    main()

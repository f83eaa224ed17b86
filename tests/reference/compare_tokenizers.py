#!/usr/bin/env python3
"""Compares token ids with those of `tokenizers` or `sentencepiece`, text by text, for the vocabulary of a GGUF file.

The command is run once for each text as `COMMAND MODEL --file FILE --json` and prints a document with `token_ids`; or, with
--framed, once as `COMMAND MODEL FILE`, where FILE holds all texts (see tokenizer_text.py), and prints the ids of a text in
a line. Exits with 1 and shows the first differences where there are any.

  compare_tokenizers.py --count 300 MODEL.gguf build/release/bin/gabbro tokenize
  compare_tokenizers.py --framed MODEL.gguf my_program
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_vocabulary
import tokenizer_text


def reference(metadata, pre):
    """A function from text to ids, without bos and eos, control tokens parsed only where the library can do so."""
    if metadata["tokenizer.ggml.model"] == b"llama":
        import sentencepiece
        processor = sentencepiece.SentencePieceProcessor(model_proto=gguf_vocabulary.sentencepiece_model(metadata))
        return processor.encode
    tokenizer = gguf_vocabulary.hugging_face(metadata, pre)
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def run(options, texts, folder):
    """The ids that the command gives for each text."""
    path = os.path.join(folder, "texts")
    if options.framed:
        with open(path, "wb") as file:
            file.writelines(struct.pack("<I", len(text)) + text for text in texts)
        printed = subprocess.run(options.command + [options.model, path], check=True, capture_output=True).stdout
        return [[int(token) for token in line.split()] for line in printed.decode().split("\n")[:len(texts)]]
    results = []
    for text in texts:
        with open(path, "wb") as file:
            file.write(text)
        arguments = [options.model, "--file", path, "--json", "--no-bos"]
        printed = subprocess.run(options.command + arguments, check=True, capture_output=True).stdout
        results.append(json.loads(printed)["token_ids"])
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    parser.add_argument("--count", type=int, default=12000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pre", help="take this pre-tokenizer instead of the file's")
    parser.add_argument("--framed", action="store_true")
    options = parser.parse_args()
    metadata = gguf_vocabulary.read_metadata(options.model)
    encode = reference(metadata, options.pre)
    texts = list(tokenizer_text.lines(options.count, options.seed, broken=False))
    with tempfile.TemporaryDirectory() as folder:
        results = run(options, texts, folder)
    tokens = metadata["tokenizer.ggml.tokens"]
    different = 0
    for text, ours in zip(texts, results):
        theirs = encode(text.decode())
        if ours == theirs:
            continue
        different += 1
        if different <= 10:
            print(repr(text.decode())[:100])
            print("  command:  ", [tokens[token].decode(errors="replace") for token in ours][:40])
            print("  reference:", [tokens[token].decode(errors="replace") for token in theirs][:40])
    print(f"{os.path.basename(options.model)}: {len(texts)} texts, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

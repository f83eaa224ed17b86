#!/usr/bin/env python3
"""Compares token ids with `tokenizers` or `sentencepiece`, text by text, for the vocabulary of a GGUF file.

The command is run once for each text as `COMMAND MODEL --file FILE --json` and prints a document with `token_ids`; or, with
--framed, once as `COMMAND MODEL FILE`, where FILE holds all texts (see tokenizer_text.py), and prints the ids of a text in
a line. Exits with 1 and shows the first differences where there are any.

  compare_tokenizers.py --count 300 MODEL.gguf build/release/bin/gabbro tokenize
  compare_tokenizers.py --framed MODEL.gguf tokenize_framed
  compare_tokenizers.py --framed --llama MODEL.gguf tokenize_framed

With --llama the ids are compared with llama.cpp's instead (llama-cpp-python, as in tests/quality/llama_logits.py), texts
with broken UTF-8 among them. tokenize_framed is tokenize_framed.cc, linked with the engine.
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
    """A function from bytes to ids, without bos and eos, control tokens parsed only where the library can do so."""
    if metadata["tokenizer.ggml.model"] == b"llama":
        import sentencepiece
        processor = sentencepiece.SentencePieceProcessor(model_proto=gguf_vocabulary.sentencepiece_model(metadata))
        return lambda text: processor.encode(text.decode())  # which knows no control tokens
    tokenizer = gguf_vocabulary.hugging_face(metadata, pre)
    return lambda text: tokenizer.encode(text.decode(), add_special_tokens=False).ids


def llama_reference(path):
    """The same by llama.cpp, control tokens parsed."""
    from llama_cpp import llama_cpp as api
    quiet = api.llama_log_callback(lambda level, text, user: None)
    api.llama_log_set(quiet, None)
    params = api.llama_model_default_params()
    params.vocab_only = True
    model = api.llama_model_load_from_file(path.encode(), params)
    if not model:
        sys.exit(f"compare_tokenizers: error: llama.cpp cannot load {path}")
    vocabulary = api.llama_model_get_vocab(model)
    ids = (api.llama_token * 65536)()

    def encode(text, keep=(quiet, model)):
        return list(ids[:api.llama_tokenize(vocabulary, text, len(text), ids, len(ids), False, True)])

    return encode


def run(options, texts, folder, special):
    """The ids that the command gives for each text; without `special`, control tokens are text like any other."""
    command = options.command + ([] if special else ["--no-special"])
    path = os.path.join(folder, "texts")
    if options.framed:
        with open(path, "wb") as file:
            file.writelines(struct.pack("<I", len(text)) + text for text in texts)
        printed = subprocess.run(command + [options.model, path], check=True, capture_output=True).stdout
        return [[int(token) for token in line.split()] for line in printed.decode().split("\n")[:len(texts)]]
    results = []
    for text in texts:
        with open(path, "wb") as file:
            file.write(text)
        arguments = [options.model, "--file", path, "--json", "--no-bos"]
        printed = subprocess.run(command + arguments, check=True, capture_output=True).stdout
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
    parser.add_argument("--llama", action="store_true", help="compare with llama.cpp")
    options = parser.parse_args()
    metadata = gguf_vocabulary.read_metadata(options.model)
    encode = llama_reference(options.model) if options.llama else reference(metadata, options.pre)
    texts = list(tokenizer_text.lines(options.count, options.seed, broken=options.llama))
    with tempfile.TemporaryDirectory() as folder:
        results = run(options, texts, folder, options.llama or metadata["tokenizer.ggml.model"] != b"llama")
    tokens = metadata["tokenizer.ggml.tokens"]
    different = 0
    for text, ours in zip(texts, results):
        theirs = encode(text)
        if ours == theirs:
            continue
        different += 1
        if different <= 10:
            print(repr(text.decode(errors="backslashreplace"))[:100])
            print("  command:  ", [tokens[token].decode(errors="replace") for token in ours][:40])
            print("  reference:", [tokens[token].decode(errors="replace") for token in theirs][:40])
    print(f"{os.path.basename(options.model)}: {len(texts)} texts, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Logits of a GGUF file by llama.cpp itself, at every position, as float32 [tokens, vocabulary].

Needs numpy and llama-cpp-python (`pip install llama-cpp-python`, or its unpacked sources on PYTHONPATH with
LLAMA_CPP_LIB_PATH naming the folder of a libllama.so of the same release: llama_tools.bindings() sets both).

    llama_logits.py MODEL.gguf --tokens TOKENS.txt --out LOGITS.npy [--batch 512] [--threads 2]

--batch 1 takes the generation path (one token at a time), the default the prompt path.
"""
import argparse
import collections
import importlib.util
import pathlib
import re
import sys
import types

import numpy

# The package without its __init__.py, which imports what the functions of libllama.so do not need.
package = types.ModuleType("llama_cpp")
package.__path__ = importlib.util.find_spec("llama_cpp").submodule_search_locations
sys.modules["llama_cpp"] = package
from llama_cpp import llama_cpp as api  # noqa: E402


def logits_of(path, tokens, batch_size, threads):
    said = collections.deque(maxlen=4)  # the last messages, which have the reason of a refusal
    keep = api.llama_log_callback(lambda level, text, user: said.append(text.decode(errors="replace").strip()))
    api.llama_log_set(keep, None)
    api.llama_backend_init()
    model = api.llama_model_load_from_file(path.encode(), api.llama_model_default_params())
    if not model:
        raise SystemExit(f"llama_logits: error: llama.cpp cannot load {path}: {' / '.join(said)}")
    params = api.llama_context_default_params()
    params.n_ctx = len(tokens)
    params.n_batch = params.n_ubatch = batch_size
    params.n_threads = params.n_threads_batch = threads
    context = api.llama_init_from_model(model, params)
    vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(model))
    result = numpy.empty((len(tokens), vocabulary), numpy.float32)  # [T, V]
    for start in range(0, len(tokens), batch_size):
        part = tokens[start:start + batch_size]
        batch = api.llama_batch_init(len(part), 0, 1)
        batch.n_tokens = len(part)
        for i, token in enumerate(part):
            batch.token[i], batch.pos[i] = token, start + i
            batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = 1, 0, True
        if api.llama_decode(context, batch) != 0:
            raise SystemExit(f"llama_logits: error: llama_decode failed at token {start}")
        values = numpy.ctypeslib.as_array(api.llama_get_logits(context), shape=(len(part), vocabulary))
        result[start:start + len(part)] = values
        api.llama_batch_free(batch)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--tokens", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    tokens = [int(word) for word in re.split(r"[\s,]+", args.tokens.read_text().strip())]
    numpy.save(args.out, logits_of(args.model, tokens, args.batch, args.threads))


if __name__ == "__main__":
    main()

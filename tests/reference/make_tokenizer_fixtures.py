#!/usr/bin/env python3
"""Makes tests/data/text/*.json: small vocabularies and, for texts, the ids that the reference libraries give.

Needs `tokenizers` and `sentencepiece`. What these cannot say (broken UTF-8, pre-tokenizers that are not public) comes from
llama.cpp: --llama names a program that is called as `PROGRAM MODEL.gguf TEXTS` and prints the ids of each text in a line,
bos and eos left out, control tokens parsed (TEXTS as written by tokenizer_text.py). Without it those parts are kept as
they are.
"""
import argparse
import io
import json
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_vocabulary as gguf
import tokenizer_text

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "text")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>"]
LLAMA_ONLY = ["deepseek-llm", "afmoe"]
BROKEN_NAMES = ["gpt-2", "deepseek-v3", "llama-bpe"]


def texts(count, seed):
    """Short texts, all well-formed; the ones that are one piece first."""
    return [text.decode() for text in tokenizer_text.lines(count, seed, broken=False) if len(text) < 160]


def write_gguf(path, metadata):
    """A file with metadata alone: strings, lists of strings, lists of int32, uint32 and bool."""
    def string(value):
        value = value.encode() if isinstance(value, str) else value
        return struct.pack("<Q", len(value)) + value
    out = b""
    for key, value in metadata.items():
        out += string(key)
        if isinstance(value, bool):
            out += struct.pack("<IB", 7, value)
        elif isinstance(value, int):
            out += struct.pack("<II", 4, value)
        elif isinstance(value, str):
            out += struct.pack("<I", 8) + string(value)
        elif isinstance(value[0], str):
            out += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(string, value))
        else:
            out += struct.pack("<IIQ", 9, 5, len(value)) + struct.pack("<%di" % len(value), *value)
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(metadata)) + out + b"\0" * 64)


def llama_ids(program, vocabulary, name, lines):
    with tempfile.TemporaryDirectory() as folder:
        model, framed = os.path.join(folder, "vocabulary.gguf"), os.path.join(folder, "texts")
        write_gguf(model, {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": name,
                           "tokenizer.ggml.tokens": vocabulary["tokens"], "tokenizer.ggml.token_type": vocabulary["types"],
                           "tokenizer.ggml.merges": vocabulary["merges"], "tokenizer.ggml.bos_token_id": 0,
                           "tokenizer.ggml.eos_token_id": 0, "tokenizer.ggml.add_bos_token": False})
        with open(framed, "wb") as file:
            file.writelines(struct.pack("<I", len(line)) + line for line in lines)
        printed = subprocess.run([program, model, framed], check=True, capture_output=True).stdout.decode()
    return [[int(token) for token in line.split()] for line in printed.split("\n")[:len(lines)]]


def train_byte_level(corpus):
    """Merges that know nothing of words, so that each cut shows in the ids."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1400, special_tokens=SPECIAL, initial_alphabet=alphabet, max_token_length=12)
    tokenizer.train_from_iterator(corpus, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    types = [gguf.NORMAL] * len(tokens)
    for token in SPECIAL:
        types[tokens.index(token)] = gguf.USER_DEFINED if token == "<tool>" else gguf.CONTROL
    return {"tokens": tokens, "types": types, "merges": [" ".join(pair) for pair in model["merges"]]}


def make_byte_level(path, llama):
    vocabulary = train_byte_level(texts(6000, 5))
    metadata = {"tokenizer.ggml.tokens": [t.encode() for t in vocabulary["tokens"]],
                "tokenizer.ggml.merges": [m.encode() for m in vocabulary["merges"]], "tokenizer.ggml.token_type": vocabulary["types"]}
    chosen = texts(420, 7) + ["<|im_start|>user\nHi<tool> there<|im_end|>\n", "a<tool><tool>b <|im_end|> <|im_end"]
    results = [{} for _ in chosen]  # of each text: ids as a string -> names
    for name in gguf.FAMILIES:
        tokenizer = gguf.hugging_face(metadata, name)
        for text, result in zip(chosen, results):
            result.setdefault(str(tokenizer.encode(text, add_special_tokens=False).ids), []).append(name)
    old = json.load(open(path)) if os.path.exists(path) else {"llama": {}, "broken": {}}
    if llama:
        valid = [t for t in chosen if not any(c in t for c in "\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") and
                 not any("\u2000" <= c <= "\u200a" for c in t)][:150]
        old["llama"] = {name: list(zip(valid, llama_ids(llama, vocabulary, name, [t.encode() for t in valid]))) for name in LLAMA_ONLY}
        broken = [b for b in tokenizer_text.BROKEN] + [t for t in tokenizer_text.lines(900, 11) if not is_valid(t) and len(t) < 80][:60]
        old["broken"] = {name: [[b.hex(), ids] for b, ids in zip(broken, llama_ids(llama, vocabulary, name, broken))] for name in BROKEN_NAMES}
    cases = [[text, [[json.loads(ids), names] for ids, names in result.items()]] for text, result in zip(chosen, results)]
    write(path, {**vocabulary, "cases": cases, "llama": old["llama"], "broken": old["broken"]})


def is_valid(text):
    try:
        text.decode()
        return True
    except UnicodeDecodeError:
        return False


def make_sentencepiece(path):
    import sentencepiece
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts(6000, 5)), model_writer=model, model_type="bpe", vocab_size=2000, byte_fallback=True,
        character_coverage=0.98, normalization_rule_name="identity", remove_extra_whitespaces=False, num_threads=1,
        user_defined_symbols=["<tool>"], minloglevel=2)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    size = processor.get_piece_size()

    def kind(index):
        for value, check in ((gguf.UNKNOWN, processor.is_unknown), (gguf.CONTROL, processor.is_control), (gguf.BYTE, processor.is_byte),
                             (gguf.UNUSED, processor.is_unused)):
            if check(index):
                return value
        return gguf.USER_DEFINED if processor.id_to_piece(index) == "<tool>" else gguf.NORMAL
    chosen = [text for text in texts(420, 7) if "<" not in text]
    write(path, {"tokens": [processor.id_to_piece(i) for i in range(size)], "types": [kind(i) for i in range(size)],
                 "scores": [processor.get_score(i) for i in range(size)], "cases": [[text, processor.encode(text)] for text in chosen]})


def make_raw(path):
    """Byte pair encoding over characters with byte tokens and escaped spaces, as Gemma 4 has it."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    byte_tokens = ["<0x%02X>" % byte for byte in range(256)]

    def wrap(model):
        tokenizer = Tokenizer(model)
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[^\n]+|\n+"), "isolated")
        return tokenizer
    trained = wrap(models.BPE())
    trained.train_from_iterator(texts(6000, 5), trainers.BpeTrainer(vocab_size=1300, special_tokens=special + byte_tokens, limit_alphabet=200, max_token_length=12))
    model = json.loads(trained.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    tokenizer = wrap(models.BPE(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]], byte_fallback=True))
    types = [gguf.CONTROL if t in special else gguf.BYTE if t in byte_tokens else gguf.NORMAL for t in tokens]
    # Runs of newlines that are a token are taken whole before any merging; merging leads there as well in this vocabulary.
    cases = [[text, tokenizer.encode(text, add_special_tokens=False).ids] for text in texts(420, 7) if "<" not in text]
    write(path, {"tokens": tokens, "types": types, "merges": [" ".join(pair) for pair in model["merges"]], "cases": cases})


def write(path, document):
    with open(path, "w") as file:
        json.dump(document, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")
    print(path, os.path.getsize(path))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llama")
    parser.add_argument("--out", default=ROOT)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    make_byte_level(os.path.join(options.out, "byte_level.json"), options.llama)
    make_sentencepiece(os.path.join(options.out, "sentencepiece.json"))
    make_raw(os.path.join(options.out, "raw_bpe.json"))


if __name__ == "__main__":
    main()

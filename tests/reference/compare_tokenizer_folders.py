#!/usr/bin/env python3
"""Compares token ids and decoded texts with `tokenizers` and `sentencepiece`, for folders of tokenizers.

    compare_tokenizer_folders.py FOLDERS TOKENIZE_FRAMED [--count 12000] [--only NAME...] [--time [--texts FOLDER]]

FOLDERS holds what make_tokenizer_folders.py writes; TOKENIZE_FRAMED is the program of tokenize_framed.cc
(ninja -C build/release tokenize_framed). For each text: the ids; with and without control tokens the decoded text; and the
text that a stream of tokens gives. Broken UTF-8 is among the texts. Exits with 1 and shows the first differences where
there are any. --time measures instead how fast both encode one text of 5 MB, on one thread: processor time, in turns,
medians of --rounds. --texts takes the sources and documents of a folder, instead of texts that are all hard.
"""
import argparse
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_tokenizer_folders
import tokenizer_text


class HuggingFace:
    special = True

    def __init__(self, path):
        from tokenizers import Tokenizer
        self.tokenizer = Tokenizer.from_file(path)

    def encode(self, text):
        return self.tokenizer.encode(text.decode(errors="replace")).ids

    def decode(self, ids, control):
        # The BPE decoder fails on no tokens.
        return self.tokenizer.decode(ids, skip_special_tokens=not control) if ids else ""


class SentencePiece:
    special = False  # knows no control tokens in texts

    def __init__(self, path):
        import sentencepiece
        self.processor = sentencepiece.SentencePieceProcessor(model_file=path)

    def encode(self, text):
        return self.processor.encode(text)

    def decode(self, ids, control):
        return None if control else self.processor.decode(ids)


def reference(folder):
    path = os.path.join(folder, "tokenizer.json")
    return HuggingFace(path) if os.path.exists(path) else SentencePiece(os.path.join(folder, "tokenizer.model"))


def write_frames(path, texts):
    with open(path, "wb") as file:
        file.writelines(struct.pack("<I", len(text)) + text for text in texts)


def ours(program, folder, texts, special):
    """For each text the ids, the text of them, the same with control tokens, and the streamed text."""
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "texts")
        write_frames(path, texts)
        flags = ["--decode", "--with-ends"] if special else ["--decode", "--no-special"]
        run = subprocess.run([program, *flags, folder, path], capture_output=True)
    if run.returncode:
        sys.exit(run.stderr.decode())
    for line in run.stdout.decode().split("\n")[:len(texts)]:
        ids, shown, control, streamed = line.split("\t")
        yield [int(token) for token in ids.split()], *(bytes.fromhex(part).decode(errors="replace")
                                                       for part in (shown, control, streamed))


def compare(program, folder, texts):
    library = reference(folder)
    name, different = os.path.basename(folder), 0
    for text, (ids, shown, control, streamed) in zip(texts, ours(program, folder, texts, library.special)):
        theirs = library.encode(text)
        wrong = []
        if ids != theirs:
            wrong.append(("ids", ids, theirs))
        text_of = library.decode(ids, False)
        for what, got, wanted in (("text", shown, text_of), ("streamed text", streamed, text_of),
                                  ("text with control tokens", control, library.decode(ids, True))):
            if wanted is not None and got != wanted:
                wrong.append((what, got, wanted))
        different += bool(wrong)
        for what, got, wanted in wrong[:1] if different <= 5 else []:
            print(f"{name}: {text[:90]!r}\n  {what}: {got!r:.200}\n  reference: {wanted!r:.200}")
    print(f"{name}: {len(texts)} texts, {different} different", flush=True)
    return different


def text_to_measure(texts):
    if texts:
        return "\n".join(make_tokenizer_folders.file_texts(texts, 5_000_000)).encode()
    lines, size = [], 0
    for line in tokenizer_text.lines(10 ** 6, 3, broken=False):
        lines.append(line)
        size += len(line) + 1
        if size > 5e6:
            break
    return b"\n".join(lines)


def measure(program, folder, rounds, text):
    library = reference(folder)
    times, own_times = [], []
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "texts")
        write_frames(path, [text])
        for _ in range(rounds):
            start = time.process_time()
            library.encode(text)
            times.append(time.process_time() - start)
            command = [program, "--time", "--one-thread", folder, path]
            printed = subprocess.run(command, check=True, capture_output=True).stdout.decode()
            own_times.append(float(printed.split()[0]))
    theirs, seconds = statistics.median(times), statistics.median(own_times)
    print(f"{os.path.basename(folder)}: {len(text) / seconds / 1e6:.1f} MB/s, reference {len(text) / theirs / 1e6:.1f} MB/s, "
          f"{theirs / seconds:.1f} times as fast", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders")
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=12000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--texts", help="a folder of files to measure with")
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    names = options.only or sorted(os.listdir(options.folders))
    if options.time:
        text = text_to_measure(options.texts)
        for name in names:
            measure(options.program, os.path.join(options.folders, name), options.rounds, text)
        return 0
    texts = list(tokenizer_text.lines(options.count, options.seed))
    return 1 if sum(compare(options.program, os.path.join(options.folders, name), texts) for name in names) else 0


if __name__ == "__main__":
    sys.exit(main())

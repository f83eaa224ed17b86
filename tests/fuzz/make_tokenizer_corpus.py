#!/usr/bin/env python3
"""Makes the first corpora of fuzz_tokenizer_json and fuzz_sentencepiece: a small file for each component."""
import json
import os
import struct

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
LETTERS = ["<unk>", "<s>", "a", "b", "c", "1", "'", " ", "▁", "Ġ", "ab", "▁a", "Ġa", "##b", "b</w>", "<0x41>", "<0xC3>", "<0xA9>"]
VOCABULARY = {text: number for number, text in enumerate(LETTERS)}
BPE = {"type": "BPE", "unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True, "ignore_merges": True, "vocab": VOCABULARY,
       "merges": [["a", "b"], "▁ a", ["Ġ", "a"]]}
MODELS = [BPE, BPE | {"continuing_subword_prefix": "##", "end_of_word_suffix": "</w>", "merges": []},
          {"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": [[text, -float(i)] for i, text in enumerate(LETTERS)]},
          {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9,
           "vocab": VOCABULARY},
          {"type": "WordLevel", "unk_token": "<unk>", "vocab": VOCABULARY}]
CHARSMAP = "CAAAAAAAAAAAAAAAYWIA"
NORMALIZERS = [{"type": kind} for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel")] + [
    {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": ""},
    {"type": "Precompiled", "precompiled_charsmap": CHARSMAP},
    {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}]
STEPS = [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}] + [
    {"type": kind} for kind in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts")] + [
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": scheme != "first"} for scheme in ("always", "first")] + [
    {"type": "Punctuation", "behavior": "Contiguous"}, {"type": "Digits", "individual_digits": True},
    {"type": "FixedLength", "length": 3}, {"type": "CharDelimiterSplit", "delimiter": "b"}] + [
    {"type": "Split", "pattern": {"Regex": "(?i:'s)|[^\\s\\p{L}&&[^a]]+|\\b\\w|(?m:.)$|\\h{,2}"}, "behavior": behavior, "invert": False}
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")]
DECODERS = [{"type": "ByteLevel"}, {"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "Metaspace", "replacement": "▁"},
            {"type": "BPEDecoder", "suffix": "</w>"}, {"type": "CTC", "pad_token": "a", "word_delimiter_token": "b", "cleanup": True},
            {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                                              {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 1},
                                              {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "é"}]}]
PROCESSORS = [None, {"type": "BertProcessing", "sep": ["<s>", 1], "cls": ["<unk>", 0]},
              {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
               "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}]
TOKENS = [{"id": 1, "content": "<s>", "single_word": False, "lstrip": True, "rstrip": True, "normalized": False, "special": True},
          {"id": 18, "content": "A b", "single_word": True, "lstrip": False, "rstrip": False, "normalized": True, "special": False}]


def field(number, value):
    if isinstance(value, int):
        return bytes([number * 8 % 128 | (128 if number > 15 else 0)] + ([number // 16] if number > 15 else []) + [value])
    if isinstance(value, float):
        return bytes([number * 8 + 5]) + struct.pack("<f", value)
    value = value.encode() if isinstance(value, str) else value
    return bytes([number * 8 + 2, len(value)]) + value


def write(name, number, content):
    folder = os.path.join(CORPUS, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, str(number)), "wb") as file:
        file.write(content)


def main():
    for number in range(len(STEPS)):
        pick = lambda choices: choices[number % len(choices)]  # noqa: E731, B023
        document = {"version": "1.0", "added_tokens": TOKENS, "normalizer": pick(NORMALIZERS), "pre_tokenizer": STEPS[number],
                    "post_processor": pick(PROCESSORS), "decoder": pick(DECODERS), "model": pick(MODELS)}
        text = "a b<s> aab 12'S é ﬁ A b c\u0301ab"
        write("tokenizer_json", number, json.dumps(document, ensure_ascii=False).encode() + b"\0" + text.encode() + b"\xc3")
    pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("a", -1.0, 1), ("b", -2.0, 1), ("▁", -3.0, 1), ("ab", -1.5, 5),
              ("▁a", -2.5, 1), ("<start_of_turn>", 0.0, 4), ("bb", -1.2, 1)]
    for number in range(4):
        model = b"".join(field(1, field(1, text) + field(2, score) + field(3, kind)) for text, score, kind in pieces)
        model += field(2, field(3, 1 + number % 2) + field(24, number // 2) + field(41, 1) + field(42, 2))
        model += field(3, field(3, 1) + field(4, number // 2) + field(5, 1))
        text = "a abb  <s> <start_of_turn>b é".encode() + b"\xff"
        write("sentencepiece", number, bytes([len(text)]) + text + model)


if __name__ == "__main__":
    main()

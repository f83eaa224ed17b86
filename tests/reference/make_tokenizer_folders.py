#!/usr/bin/env python3
"""Trains small tokenizers of the kinds that models are published with, and writes the folder of each.

    make_tokenizer_folders.py OUT [--only NAME...] [--texts FOLDER --size TOKENS]

With --texts and --size they are as large as models', and trained on files of text: for measuring. Names that
begin with `pre-` have the pre-tokenizer of a name in GGUF files (gguf_vocabulary.py). Each folder has tokenizer.json or tokenizer.model, and what stands next to it. They are trained with `tokenizers` and
`sentencepiece` on the texts of tokenizer_text.py; the settings are from the model families that they are named
after. compare_tokenizer_folders.py compares the tokens; make_tokenizer_fixtures.py writes fixtures of the tests.
"""
import argparse
import io
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gguf_vocabulary
import tokenizer_text

GPT2_SPLIT = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2_SPLIT = LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK_SPLITS = [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
                   r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
                   r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
BLOOM_SPLIT = r" ?[^(\s|[.,!?…。，、।۔،])]+"
GPT4O_SPLIT = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
               r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
               r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


SMALL_RULES = None  # the file of a short list of normalization rules, to be taken instead of those that are built in


TEXTS, SIZE = None, None  # a folder of texts to train on, and the size of vocabularies, instead of the small ones


def tokens(small):
    return SIZE or small


def file_texts(folder, limit=24 << 20):
    """Lines of the sources and documents below a folder, up to `limit` bytes."""
    out, size = [], 0
    for path, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if not name.endswith((".py", ".md", ".rst", ".txt", ".h", ".cc", ".c")):
                continue
            with open(os.path.join(path, name), encoding="utf-8", errors="ignore") as file:
                text = file.read(1 << 18)
            size += len(text)
            out.append(text)
            if size > limit:
                return out
    return out


def corpus(count=3000, seed=7):
    """Texts to train on, well-formed."""
    small = small_corpus(count, seed)
    return small + file_texts(TEXTS) if TEXTS else small


def small_corpus(count, seed):
    return [text.decode() for text in tokenizer_text.lines(count, seed, broken=False)]


def special(content, **flags):
    from tokenizers import AddedToken
    return AddedToken(content, special=True, normalized=False, **flags)


def byte_level(split, specials, added=(), size=700, normalizer=None, ignore_merges=False, prefix_space=False, unk=None,
               pre_tokenizer=None):
    """Byte-level BPE; `split`: a regular expression, a list of pre-tokenizers, or None for GPT-2's own."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges, unk_token=unk))
    if split is None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space, use_regex=True)
    else:
        steps = [pre_tokenizers.Split(Regex(split), "isolated")] if isinstance(split, str) else list(split)
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=prefix_space, use_regex=False))
        tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.Sequence(steps)
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=tokens(size), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=list(specials))
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens([token for token in added if token.special])
    tokenizer.add_tokens([token for token in added if not token.special])
    return tokenizer


def template(tokenizer, single, names):
    from tokenizers import processors
    return processors.TemplateProcessing(single=single, special_tokens=[(name, tokenizer.token_to_id(name)) for name in names])


def gpt2():
    tokenizer = byte_level(None, ["<|endoftext|>"])
    return tokenizer, {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}


def roberta():
    from tokenizers import processors
    tokenizer = byte_level(None, ["<s>", "<pad>", "</s>", "<unk>"], added=[special("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return tokenizer, {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def llama3():
    from tokenizers import processors
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    tokenizer = byte_level(LLAMA3_SPLIT, [], added=[special(name) for name in names], ignore_merges=True)
    tokenizer.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=False), template(tokenizer, "<|begin_of_text|> $A", ["<|begin_of_text|>"])])
    return tokenizer, {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}


def qwen2():
    from tokenizers import AddedToken, normalizers
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    added = [special(name) for name in names] + [AddedToken("<tool_call>", special=False, normalized=False)]
    tokenizer = byte_level(QWEN2_SPLIT, [], added=added, normalizer=normalizers.NFC())
    return tokenizer, {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}


def deepseek():
    from tokenizers import AddedToken, Regex, pre_tokenizers
    steps = [pre_tokenizers.Split(Regex(split), "isolated") for split in DEEPSEEK_SPLITS]
    added = [special("<｜begin▁of▁sentence｜>"), special("<｜end▁of▁sentence｜>"), AddedToken("<｜User｜>", normalized=False)]
    tokenizer = byte_level(steps, [], added=added)
    tokenizer.post_processor = template(tokenizer, "<｜begin▁of▁sentence｜> $A", ["<｜begin▁of▁sentence｜>"])
    return tokenizer, {"bos_token": {"content": "<｜begin▁of▁sentence｜>"}, "eos_token": {"content": "<｜end▁of▁sentence｜>"}}


def falcon():
    from tokenizers import Regex, pre_tokenizers
    steps = [pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
             pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]
    from tokenizers import Tokenizer, decoders, models, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=tokens(900), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=[">>TITLE<<", "<|endoftext|>"]))
    return tokenizer, {"eos_token": "<|endoftext|>"}


def phi():
    from tokenizers import AddedToken
    spaces = [AddedToken(" " * count, normalized=True) for count in range(31, 1, -1)]
    tokenizer = byte_level(None, ["<|endoftext|>"], added=spaces)
    return tokenizer, {"eos_token": "<|endoftext|>"}


def bloom():
    from tokenizers import Regex, pre_tokenizers
    tokenizer = byte_level([pre_tokenizers.Split(Regex(BLOOM_SPLIT), "isolated")], ["<unk>", "<s>", "</s>", "<pad>"])
    return tokenizer, {"bos_token": "<s>", "eos_token": "</s>"}


def gpt4o():
    tokenizer = byte_level(GPT4O_SPLIT, ["<|endoftext|>"], ignore_merges=True)
    return tokenizer, {"eos_token": "<|endoftext|>"}


def llama2():
    """SentencePiece BPE as `transformers` converted it at first: Prepend and Replace, byte fallback."""
    from tokenizers import Tokenizer, decoders, models, normalizers, trainers
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=tokens(1200), special_tokens=["<unk>", "<s>", "</s>"] + bytes_, limit_alphabet=250,
                                  max_token_length=12)
    tokenizer.train_from_iterator([part for text in corpus() for part in text.split("\n")], trainer)
    document = json.loads(tokenizer.to_str())  # bytes are tokens of the model, not special ones
    document["added_tokens"] = document["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = template(tokenizer, "<s> $A", ["<s>"])
    return tokenizer, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def mistral():
    """The same as newer conversions have it: Metaspace."""
    from tokenizers import Tokenizer, pre_tokenizers
    tokenizer, config = llama2()
    document = json.loads(tokenizer.to_str())
    document["normalizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    return tokenizer, config


def gemma():
    from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers
    tokenizer, _ = llama2()
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([special("<start_of_turn>"), special("<end_of_turn>")])
    tokenizer.add_tokens([AddedToken("\n" * count, normalized=False) for count in range(2, 8)])
    return Tokenizer.from_str(tokenizer.to_str()), {"bos_token": "<s>", "eos_token": "</s>"}


def bert(lowercase):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(corpus(), trainers.WordPieceTrainer(vocab_size=tokens(1100), special_tokens=names, limit_alphabet=400))
    if lowercase:
        tokenizer.post_processor = template(tokenizer, "[CLS] $A [SEP]", ["[CLS]", "[SEP]"])
    else:
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer, {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "pad_token": "[PAD]"}


def message_fields(message):
    """The fields of a protocol buffer that are bytes, as (number, bytes)."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        tag = varint()
        if tag & 7 == 2:
            size = varint()
            yield tag >> 3, message[at:at + size]
            at += size
        elif tag & 7 == 0:
            varint()
        else:
            at += 8 if tag & 7 == 1 else 4


def charsmap(name):
    """The precompiled rules of SentencePiece's normalization `name`."""
    model = dict(message_fields(sentencepiece_model("unigram", normalization_rule_name=name)))
    return dict(message_fields(model[3]))[2]


def unigram(size=900, byte_fallback=False):
    """The pieces of a SentencePiece unigram, as the conversions of `transformers` write them."""
    import sentencepiece
    model = sentencepiece.SentencePieceProcessor(
        model_proto=sentencepiece_model("unigram", vocab_size=tokens(size), byte_fallback=byte_fallback))
    return [(model.id_to_piece(i), model.get_score(i)) for i in range(model.get_piece_size())]


def t5():
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + unigram()[3:]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2, byte_fallback=False))
    tokenizer.normalizer = normalizers.Precompiled(charsmap("nmt_nfkc"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"] + [special(f"<extra_id_{i}>") for i in range(5)])
    tokenizer.post_processor = template(tokenizer, "$A </s>", ["</s>"])
    return tokenizer, {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def xlm_roberta():
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + unigram()[3:] + [("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap("nmt_nfkc")),
                                                 normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", special("<mask>", lstrip=True)])
    tokenizer.post_processor = template(tokenizer, "<s> $A </s>", ["<s>", "</s>"])
    return tokenizer, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def unigram_bytes():
    """Unigram with byte fallback and the strings that ALBERT and mBART have around it."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    tokenizer = Tokenizer(models.Unigram(unigram(1100, True), unk_id=0, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace("``", "\""), normalizers.Replace("''", "\""),
                                                 normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                                 normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer, {"unk_token": "<unk>"}


def clip():
    """BPE with the end of a word marked."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    tokenizer = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>", continuing_subword_prefix=""))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"),
                             "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=1200, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), end_of_word_suffix="</w>",
        special_tokens=["<|startoftext|>", "<|endoftext|>"]))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0), False, False)
    return tokenizer, {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>"}


def openai_gpt():
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=900, end_of_word_suffix="</w>", limit_alphabet=200,
                                                                special_tokens=["<unk>"]))
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    return tokenizer, {"unk_token": "<unk>"}


def subword_prefix():
    """BPE with prefixes, unknown tokens that are fused, Nmt and NFD."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFD()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=700, continuing_subword_prefix="##", limit_alphabet=120,
                                                                special_tokens=["[UNK]"]))
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    return tokenizer, {"unk_token": "[UNK]"}


def word_level():
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.UnicodeScripts(), pre_tokenizers.WhitespaceSplit(),
                                                       pre_tokenizers.Punctuation("isolated"), pre_tokenizers.Digits(True)])
    tokenizer.train_from_iterator(corpus(), trainers.WordLevelTrainer(vocab_size=600, special_tokens=["[UNK]", "[PAD]"]))
    tokenizer.add_tokens([AddedToken("Brown", single_word=True, normalized=True), AddedToken("fox", single_word=True, rstrip=True),
                          AddedToken("été", normalized=True, lstrip=True, rstrip=True), AddedToken("IT'S", normalized=False)])
    return tokenizer, {"unk_token": "[UNK]"}


def ctc():
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    letters = ["<pad>", "<s>", "</s>", "<unk>", "|"] + [chr(c) for c in range(ord("a"), ord("z") + 1)] + ["'", ".", ","]
    tokenizer = Tokenizer(models.WordLevel({letter: i for i, letter in enumerate(letters)}, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(" ", "|")])
    tokenizer.pre_tokenizer = pre_tokenizers.FixedLength(length=1)
    tokenizer.decoder = decoders.CTC(pad_token="<pad>", word_delimiter_token="|", cleanup=True)
    tokenizer.add_special_tokens(["<s>", "</s>", "<unk>"])
    return tokenizer, {"unk_token": "<unk>", "pad_token": "<pad>"}


def splits(behavior, invert=False):
    """Character BPE after one Split, so that each cut shows; no decoder."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"[\s\d]|\w(?=\d)|\b[A-Z]"), behavior, invert), pre_tokenizers.CharDelimiterSplit("e")])
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=900, special_tokens=["[UNK]"], limit_alphabet=300))
    return tokenizer, {"unk_token": "[UNK]"}


def strips():
    """Decoders that only custom tokenizers have."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r" +"), "merged_with_next")
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=700, special_tokens=["[UNK]"], limit_alphabet=200))
    tokenizer.decoder = decoders.Sequence([decoders.Strip("e", 1, 0), decoders.Replace(Regex(r"\s"), "_"), decoders.Fuse(),
                                           decoders.Replace("__", " "), decoders.Strip("o", 2, 0)])
    return tokenizer, {"unk_token": "[UNK]"}


def pre_tokenized(name):
    """Byte-level BPE after the pre-tokenizer that GGUF files call `name`."""
    tokenizer = byte_level([], [], ignore_merges=name in gguf_vocabulary.IGNORE_MERGES,
                           pre_tokenizer=gguf_vocabulary.pre_tokenizer(name))
    return tokenizer, {}


TOKENIZER_JSON = {
    "gpt2": gpt2, "roberta": roberta, "llama3": llama3, "qwen2": qwen2, "deepseek": deepseek, "falcon": falcon, "phi": phi,
    "bloom": bloom, "gpt4o": gpt4o, "llama2": llama2, "mistral": mistral, "gemma": gemma, "bert-uncased": lambda: bert(True),
    "bert-cased": lambda: bert(False), "t5": t5, "xlm-roberta": xlm_roberta, "unigram-bytes": unigram_bytes, "clip": clip,
    "openai-gpt": openai_gpt, "subword-prefix": subword_prefix, "word-level": word_level, "ctc": ctc, "strips": strips,
    "removed": lambda: splits("removed"), "removed-inverted": lambda: splits("removed", True),
    "merged-with-previous": lambda: splits("merged_with_previous"), "merged-with-next": lambda: splits("merged_with_next"),
    "contiguous": lambda: splits("contiguous")} | {
        f"pre-{name}": (lambda name=name: pre_tokenized(name)) for name in gguf_vocabulary.FAMILIES}


def sentencepiece_model(kind, **options):
    """The bytes of a trained model."""
    import sentencepiece
    texts = [part for text in corpus() for part in text.replace("\r", "\n").split("\n") if part.strip() and "\0" not in part]
    out = io.BytesIO()
    if SMALL_RULES and options.get("normalization_rule_name", "nmt_nfkc") != "identity":
        options = options | {"normalization_rule_name": "user_defined", "normalization_rule_tsv": SMALL_RULES}
    settings = {"vocab_size": 1000, "character_coverage": 0.98, "hard_vocab_limit": False, "max_sentencepiece_length": 12}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=out, model_type=kind, num_threads=1,
                                             minloglevel=2, **(settings | options))
    return out.getvalue()


# The settings of Llama 2, T5, Gemma and others.
SENTENCEPIECE = {
    "sp-llama2": ("bpe", dict(normalization_rule_name="identity", byte_fallback=True, remove_extra_whitespaces=False,
                              split_digits=True, allow_whitespace_only_pieces=True, vocab_size=1200)),
    "sp-t5": ("unigram", dict(normalization_rule_name="nmt_nfkc", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)),
    "sp-gemma": ("bpe", dict(normalization_rule_name="identity", byte_fallback=True, remove_extra_whitespaces=False,
                             add_dummy_prefix=False, allow_whitespace_only_pieces=True, vocab_size=1200,
                             user_defined_symbols=["<start_of_turn>", "<end_of_turn>", "▁▁", "▁▁▁▁", "<mask>"])),
    "sp-xlnet": ("unigram", dict(normalization_rule_name="nmt_nfkc_cf", control_symbols=["<cls>", "<sep>"],
                                 user_defined_symbols=["<eop>", "fox"])),
    "sp-unigram-bytes": ("unigram", dict(normalization_rule_name="nfkc", byte_fallback=True, vocab_size=1200,
                                         remove_extra_whitespaces=False)),
    "sp-bpe-nfkc": ("bpe", dict(normalization_rule_name="nfkc_cf")),
    "sp-suffix": ("unigram", dict(normalization_rule_name="nmt_nfkc", treat_whitespace_as_suffix=True)),
}


def write(folder, name, content):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content)


def folder_files(name):
    """The files of the tokenizer `name`."""
    if name in SENTENCEPIECE:
        kind, options = SENTENCEPIECE[name]
        return {"tokenizer.model": sentencepiece_model(kind, **options)}
    tokenizer, config = TOKENIZER_JSON[name]()
    return {"tokenizer.json": tokenizer.to_str().encode(), "tokenizer_config.json": json.dumps(config).encode()}


def write_folder(out, name):
    for file, content in folder_files(name).items():
        write(os.path.join(out, name), file, content)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--only", nargs="+", default=list(TOKENIZER_JSON) + list(SENTENCEPIECE))
    parser.add_argument("--texts", help="a folder of sources and documents to train on")
    parser.add_argument("--size", type=int, help="tokens of a vocabulary")
    options = parser.parse_args()
    global TEXTS, SIZE
    TEXTS, SIZE = options.texts, options.size
    for name in options.only:
        write_folder(options.out, name)
        print(name, flush=True)


if __name__ == "__main__":
    main()

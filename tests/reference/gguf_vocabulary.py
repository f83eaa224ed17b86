"""Reads the metadata of a GGUF file, and makes of its vocabulary the tokenizer of the reference library that it came from.

The regular expressions here are from the models' own tokenizer.json, in the dialect of `tokenizers` (Oniguruma). They
are written down a second time on purpose: they check the list in src/text/pipeline/pretokenizer_table.cc.
"""
import struct

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def read_metadata(path):
    """The key-value pairs of a GGUF file; strings as bytes."""
    with open(path, "rb") as file:
        data = file.read(1 << 28)
    at = 24

    def scalar(code):
        nonlocal at
        value = struct.unpack_from("<" + code, data, at)[0]
        at += struct.calcsize("<" + code)
        return value

    def string():
        nonlocal at
        size = scalar("Q")
        at += size
        return data[at - size:at]

    def value(kind):
        nonlocal at
        if kind == 8:
            return string()
        if kind != 9:
            return scalar(SCALARS[kind])
        inner, count = scalar("I"), scalar("Q")
        if inner == 8:
            return [string() for _ in range(count)]
        layout = "<%d%s" % (count, SCALARS[inner])
        at += struct.calcsize(layout)
        return list(struct.unpack_from(layout, data, at - struct.calcsize(layout)))

    assert data[:4] == b"GGUF"
    return {string().decode(): value(scalar("I")) for _ in range(struct.unpack_from("<Q", data, 16)[0])}


CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s|%s"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL)
GPT4O = CASED % (CONTRACTION + "?", CONTRACTION + "?", r"\p{N}{1,3}")
KIMI = (r"[\p{Han}]+"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+" + CONTRACTION + "?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*" + CONTRACTION + "?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL)
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
             r"| ?[\p{P}\p{S}]+[\r\n]*" + TAIL)
BLOOM = " ?[^(\\s|.,!?…。，、।۔،)]+"
HAN_HANGUL = "[一-龥ࠀ-一가-퟿]+"
HAN_KANA = "[一-龥぀-ゟ゠-ヿ]+"

# For each name: what stands before ByteLevel. A string is a Split with isolated matches; "digits" splits every digit off.
FAMILIES = {
    "gpt-2": [None], "smollm": ["digits", None], "starcoder": ["digits", None], "refact": ["digits", None], "command-r": ["digits", None],
    "mpt": [None], "default": ["punctuation", None, r"\p{N}+", "[0-9][0-9][0-9]"], "falcon": ["punctuation`", None, "[0-9][0-9][0-9]"],
    "llama-bpe": [LLAMA3], "qwen2": [QWEN2], "tekken": [CASED % ("", "", r"\p{N}")], "gpt-4o": [GPT4O], "kimi-k2": [KIMI],
    "qwen35": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + TAIL],
    "deepseek-v3": [r"\p{N}{1,3}", HAN_KANA, DEEPSEEK3],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN_HANGUL, "digits"],
    "bloom": [BLOOM], "viking": [BLOOM, "digits"], "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O], "minicpm5": [r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")],
    "seed-coder": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+" + TAIL],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    "exaone-moe": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"],
    "jais-2": [LLAMA3.replace(r"|\s+(?!\S)|\s+", "".join(r"|\s{%d}(?!\S)" % (1 << n) for n in range(9, 1, -1)) + r"|\s{1,2}(?!\S)|\s{1}")],
    "ufakzeka": [QWEN2.replace(CONTRACTION + "|", "")],
    "laguna": [r"[^\n]+|\n+", QWEN2],
    "youtu": ["[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+", CASED % (CONTRACTION + "?", CONTRACTION + "?", r"\p{N}")],
    "spark2_5": [r"\p{N}{1,3}", HAN_KANA, DEEPSEEK3.replace(r"[\r\n]*|\s*[\r\n]+", r"|[\r\n]"), "digits"],
    "chameleon": ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "digits", r"[\p{P}!-/:-@\[-`{-~]", None],
}
IGNORE_MERGES = {"llama-bpe", "tekken", "minicpm5", "youtu"}


def pre_tokenizer(name):
    """The pre-tokenizer of `tokenizers` for a name of tokenizer.ggml.pre."""
    from tokenizers import Regex, pre_tokenizers as pre
    parts = []
    for part in FAMILIES[name]:
        if part is None:
            # ByteLevel's own expression; it must come last, so its spelling of bytes is left to the end.
            part = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
        if part == "digits":
            parts.append(pre.Digits(individual_digits=True))
        elif part.startswith("punctuation"):
            parts.append(pre.Split(Regex(r"[\p{P}\$\+<=>\^~\|%s]+" % part[len("punctuation"):]), "isolated"))
        else:
            parts.append(pre.Split(Regex(part), "isolated"))
    return pre.Sequence(parts + [pre.ByteLevel(add_prefix_space=False, use_regex=False)])


def hugging_face(metadata, name=None):
    """A tokenizers.Tokenizer for a byte-level vocabulary; `name` overrules tokenizer.ggml.pre."""
    from tokenizers import AddedToken, Tokenizer, models
    name = name or metadata.get("tokenizer.ggml.pre", b"default").decode()
    tokens = [token.decode() for token in metadata["tokenizer.ggml.tokens"]]
    merges = []
    for merge in metadata["tokenizer.ggml.merges"]:
        space = merge.index(b" ", 1)
        merges.append((merge[:space].decode(), merge[space + 1:].decode()))
    vocabulary = {token: index for index, token in reversed(list(enumerate(tokens)))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=name in IGNORE_MERGES))
    tokenizer.pre_tokenizer = pre_tokenizer(name)
    types = metadata.get("tokenizer.ggml.token_type", [])
    # Some conversions have lost the type of these, and llama.cpp goes by the name.
    special = [token for token, kind in zip(tokens, types) if kind in (CONTROL, USER_DEFINED) or token in ("</s>", "<|endoftext|>")]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """One field of a protocol buffer: an integer or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    return varint(number << 3 | 2) + varint(len(value)) + value


def sentencepiece_model(metadata):
    """The model file that sentencepiece would have had for this vocabulary."""
    types = metadata["tokenizer.ggml.token_type"]
    out = b""
    unknown = metadata.get("tokenizer.ggml.unknown_token_id", 0)
    for index, (token, score, kind) in enumerate(zip(metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.scores"], types)):
        if index == unknown or kind == UNKNOWN:  # of several, only one may say so
            kind = UNKNOWN if index == unknown else CONTROL
        out += field(1, field(1, token) + varint(2 << 3 | 5) + struct.pack("<f", score) + field(3, kind))
    out += field(2, field(3, 2) + field(35, int(BYTE in types)) + field(40, unknown) + field(41, 1) + field(42, 2) + field(43, -1))
    prefix = metadata.get("tokenizer.ggml.add_space_prefix", True)
    return out + field(3, field(1, b"identity") + field(3, int(prefix)) + field(4, 0) + field(5, 1))

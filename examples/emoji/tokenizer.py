"""A byte-level BPE as CLIP has it, with a small vocabulary, and the captions of pictures."""

from __future__ import annotations

import collections
import itertools
import re
from typing import Any

MERGES = 1500
WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d|[^\W\d_]+|\d|[^\s\w]+|_+")
FIRST, LAST = "<|startoftext|>", "<|endoftext|>"
# Backgrounds that a prompt can name.
COLORS = {
    "red": (220, 40, 40),
    "orange": (245, 140, 30),
    "yellow": (250, 215, 60),
    "green": (60, 160, 70),
    "blue": (50, 110, 220),
    "purple": (130, 70, 180),
    "pink": (245, 150, 190),
    "gray": (140, 140, 140),
    "black": (0, 0, 0),
}


def alphabet() -> dict[int, str]:
    """Bytes as printable characters, as GPT-2 and CLIP write them."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


LETTERS = alphabet()


def symbols(word: str) -> tuple[str, ...]:
    letters = [LETTERS[byte] for byte in word.encode()]
    letters[-1] += "</w>"
    return tuple(letters)


def train(captions: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The vocabulary and the merges, most frequent pairs first."""
    counts = collections.Counter(word for caption in captions for word in WORDS.findall(caption.lower()))
    words = {symbols(word): count for word, count in counts.items()}
    merges: list[tuple[str, str]] = []
    while len(merges) < MERGES:
        pairs: collections.Counter[tuple[str, str]] = collections.Counter()
        for word, count in words.items():
            for pair in itertools.pairwise(word):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        merged_words: collections.Counter[tuple[str, ...]] = collections.Counter()
        for word, count in words.items():
            merged_words[merged(word, best)] += count
        words = dict(merged_words)
    tokens = sorted(LETTERS.values())
    tokens += [token + "</w>" for token in tokens]
    tokens += dict.fromkeys("".join(pair) for pair in merges if "".join(pair) not in set(tokens))
    return {token: i for i, token in enumerate([*tokens, FIRST, LAST])}, merges


def merged(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    result: list[str] = []
    for symbol in word:
        if result and (result[-1], symbol) == pair:
            result[-1] += symbol
        else:
            result.append(symbol)
    return tuple(result)


class Tokenizer:
    def __init__(self, vocabulary: dict[str, int], merges: list[Any], length: int) -> None:
        self.vocabulary, self.length = vocabulary, length
        self.ranks = {tuple(pair): i for i, pair in enumerate(merges)}
        self.known: dict[str, list[int]] = {}

    def of_word(self, word: str) -> list[int]:
        if word not in self.known:
            parts = symbols(word)
            while len(parts) > 1:
                pair = min(itertools.pairwise(parts), key=lambda pair: self.ranks.get(pair, MERGES))
                if pair not in self.ranks:
                    break
                parts = merged(parts, pair)
            self.known[word] = [self.vocabulary[part] for part in parts]
        return self.known[word]

    def __call__(self, caption: str) -> list[int]:
        """`length` tokens: padded with the last token, as CLIP's are."""
        tokens = [token for word in WORDS.findall(caption.lower()) for token in self.of_word(word)][: self.length - 2]
        last = self.vocabulary[LAST]
        return [self.vocabulary[FIRST], *tokens] + [last] * (self.length - 1 - len(tokens))


def names(text: dict[str, Any]) -> list[str]:
    """What a picture is called."""
    name = text["name"]
    if name.startswith("flag: "):
        country = name.removeprefix("flag: ")
        return [name, f"flag of {country}", f"{country} flag"]
    article = "an" if name[0] in "aeio" else "a"
    return [name, f"{article} {name}", f"the {name}"]


def captions(text: dict[str, Any], color: str | None = None) -> list[str]:
    """Captions of a picture, whose background has `color`, or is white."""
    if color is not None:
        return [f"{name} {on}" for name in names(text)[:2] for on in (f"on {color}", f"on a {color} background")]
    found = [*names(text), text["name"], f"{text['name']} emoji"]
    if text["keywords"]:
        found += [f"{text['name']}, {', '.join(text['keywords'])}", f"{text['name']}, {text['keywords'][0]}"]
    return found


def captions_for_vocabulary(texts: list[dict[str, Any]]) -> list[str]:
    found = [caption for text in texts for caption in captions(text)]
    return found + [f"{name} on a {color} background" for color in COLORS for name in texts[0]["name"].split() * 20]

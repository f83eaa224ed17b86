"""Masks of tokens against llguidance (PyPI): compare_llguidance.py PROBE MODEL.gguf [PAIRS]

For schemas with texts that are beginnings of valid documents: the tokens that may follow, with llguidance's white space
and spelling set to ours as far as it can be. Tokens are left out of the comparison on which the two differ by design:
those with white space other than blanks, and with escapes in strings, which ours writes only where they are needed.
"""

import json
import random
import sys

import llguidance

from probe import Probe, spelled

SCHEMAS = [
    {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 130}},
     "required": ["name", "age"], "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}, "c": {"enum": ["x", "xy", 3]}}, "required": ["c"],
     "additionalProperties": False},
    {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "string", "maxLength": 5}, {"type": "number"}], "items": {"type": "boolean"}},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"anyOf": [{"type": "string", "pattern": "^[a-f]{2,5}$"}, {"type": "integer", "minimum": 10, "maximum": 99}]},
    {"$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"}, "c": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
                     "required": ["v", "c"], "additionalProperties": False}}, "$ref": "#/$defs/n"},
    {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number", "minimum": 0}}, "required": ["kind", "r"],
     "additionalProperties": False},
    {"type": "string", "minLength": 3, "maxLength": 6},
    {"type": "object", "properties": {"s": {"type": "string", "pattern": "^(ab|cd)*$"}, "o": {"type": "object", "properties": {"x": {}}}},
     "required": ["s"], "additionalProperties": False},
]
DOCUMENTS = [
    [{"name": "Ann Lee", "age": 41}, {"name": "", "age": 7}],
    [{"a": True, "b": None, "c": "xy"}, {"c": 3}, {"b": None, "c": "x"}],
    [[1, -20, 333], [0]],
    [["ab", 1.5, True, False], ["x"], []],
    [{"k": 1, "other": -2}, {}],
    ["abc", 42, "fa"],
    [{"v": 1, "c": [{"v": 2, "c": []}, {"v": -3, "c": []}]}],
    [{"kind": "circle", "r": 2.25}, {"kind": "circle", "r": 0}],
    ["abcd", "xyz"],
    [{"s": "abcd", "o": {"x": [1, "y"]}}, {"s": ""}],
]


class Vocabulary:
    """The tokenizer that llguidance asks for: bytes of tokens, and a greedy encoding."""

    def __init__(self, tokens):
        self.eos_token_id, self.bos_token_id = 0, None
        self.tokens = [b"<|end|>" if i == 0 else each for i, each in enumerate(tokens)]
        self.special_token_ids = [0]
        self.single = {each: i for i, each in enumerate(self.tokens) if len(each) == 1}

    def __call__(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        return [self.single[bytes([byte])] for byte in data]


def main(program, model, pairs=2000):
    probe = Probe(program, model)
    tokens = [bytes.fromhex(each) for each in probe.ask(tokens=True)]
    vocabulary = Vocabulary(tokens)
    theirs = llguidance.LLTokenizer(llguidance.TokenizerWrapper(vocabulary))
    left_out = {i for i, each in enumerate(tokens) if not each or i == 0 or any(byte in each for byte in b"\n\r\t\\\x7f") or b"   " in each}
    random.seed(1)
    compared = different = forced = 0
    options = {"whitespace_pattern": "\\n?[ ]{0,20}", "whitespace_flexible": True}
    examples = []
    while compared < int(pairs):
        at = random.randrange(len(SCHEMAS))
        text = spelled(random.choice(DOCUMENTS[at]))
        text = text[: random.randrange(len(text) + 1)]
        ours = set(probe.ask(kind="schema", source=json.dumps(SCHEMAS[at]), texts=[text], masks=True)["masks"][0])
        grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps({**SCHEMAS[at], "x-guidance": options}))
        matcher = llguidance.LLMatcher(theirs, grammar)
        if not matcher.consume_tokens(vocabulary(text)):
            raise SystemExit(f"llguidance refuses {text!r} of {SCHEMAS[at]}: {matcher.get_error()}")
        bits = matcher.compute_bitmask()
        allowed = {i for i in range(len(tokens)) if bits[i // 8] >> (i % 8) & 1}
        compared += 1
        # llguidance allows one token of forced text, ours each beginning of it.
        longest = max((tokens[i] for i in ours), key=len, default=b"")
        if len(allowed) == 1 and allowed <= ours and all(longest.startswith(tokens[i]) for i in ours):
            forced += 1
        elif (ours ^ allowed) - left_out:
            different += 1
            examples.append((SCHEMAS[at], text, [tokens[i] for i in sorted(ours - allowed - left_out)][:8],
                             [tokens[i] for i in sorted(allowed - ours - left_out)][:8]))
    print(f"{compared} masks compared, {forced} of them of forced text, {different} differ")
    for each in examples[:12]:
        print("  ", *each, sep=" | ")
    return different


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)

"""Masks of tokens against llguidance (PyPI): compare_llguidance.py PROBE MODEL.gguf [PAIRS]

Pairs of a schema and the beginning of a document that hypothesis-jsonschema makes for it, by the fifty schemas of
answer_schemas.py and the ones below. llguidance gets our white space and our escapes. Each difference has to be one of
DIFFERENCES, which docs/guides/output_formats.md lists with the clauses of the standards.
"""

import collections
import json
import random
import re
import sys
import warnings

import hypothesis
import llguidance
from hypothesis_jsonschema import from_schema
from hypothesis_jsonschema._from_schema import HypothesisRefResolutionError

from answer_schemas import cases
from probe import Probe, in_order, spelled

warnings.simplefilter("ignore")
WHOLE = {"type": "integer"}
SCHEMAS = [
    {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 130}},
     "required": ["name", "age"], "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}, "c": {"enum": ["x", "xy", 3]}}, "required": ["c"],
     "additionalProperties": False},
    {"type": "array", "items": WHOLE, "minItems": 1, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "string", "maxLength": 5}, {"type": "number"}], "items": {"type": "boolean"}},
    {"type": "object", "additionalProperties": WHOLE},
    {"anyOf": [{"type": "string", "pattern": "^[a-f]{2,5}$"}, {"type": "integer", "minimum": 10, "maximum": 99}]},
    {"$defs": {"n": {"type": "object", "properties": {"v": WHOLE, "c": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
                     "required": ["v", "c"], "additionalProperties": False}}, "$ref": "#/$defs/n"},
    {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number", "minimum": 0}}, "required": ["kind", "r"],
     "additionalProperties": False},
    {"type": "string", "minLength": 3, "maxLength": 6},
    {"type": "object", "properties": {"s": {"type": "string", "pattern": "^(ab|cd)*$"}, "o": {"type": "object", "properties": {"x": {}}}},
     "required": ["s"], "additionalProperties": False},
    {"type": "object", "patternProperties": {"^x": {"type": "boolean"}, "^y": WHOLE}, "additionalProperties": False},
    {"allOf": [{"type": "object", "properties": {"a": WHOLE}, "required": ["a"]}, {"properties": {"b": {"type": "string"}}, "required": ["b"]}]},
    {"enum": ["red", "green", 5, None, True, ["a"], {"k": 1}]}, {"type": "number", "minimum": -1.5, "exclusiveMaximum": 20}, {"type": "integer", "multipleOf": 5},
    {"type": "array", "items": {"type": "array", "items": {"type": ["string", "null"]}, "maxItems": 2}}, {}, {"type": "number"},
]
RECURSIVE = {
    "n": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": -3, "c": []}]}, {"v": 0, "c": []}],
    "Folder": [{"name": "a", "folders": [{"name": "b"}, {"name": "", "folders": []}]}, {"name": "x"}],
    "Sum": [{"left": 1, "right": {"left": -2, "right": 3}}, {"left": {"left": 1, "right": 2}, "right": 0}]}
# Differences that are known, by the text and a token: the name of each is in the guide.
MANY_DIGITS = re.compile(rb"(?<![\d.])\d{20,}|\.\d{18,}|[eE][+-]?\d{4,}")
MINUS_ZERO = re.compile(r"-0(\.0*)?$")
CODE_ESCAPE = re.compile(rb"(?<!\\)(?:\\\\)*\\u")


# Within a string of the properties with an email, a URI or a time.
OPEN_FORMAT = re.compile(rb'"(to|url|start|end|when|created)": ?(\[("[^"]*", ?)*)?"[^"]*$')


def difference(text, token):
    """The name of a known difference; None: it is none of them."""
    whole = text + token
    if CODE_ESCAPE.search(whole, max(len(text) - 5, 0)):
        return "escapes by code"
    if re.search(rb"T?\d\d:\d\d:6", whole[max(len(text) - 6, 0):]):
        return "leap seconds"
    if OPEN_FORMAT.search(text):
        return "parts of formats"
    if MANY_DIGITS.search(whole, max(len(text) - 40, 0)):
        return "digits of numbers"
    if re.search(rb"\.\d*$", text) and re.match(rb"0+", token):
        return "zeros at the end"
    return None


def difference_of_text(text, ours):
    """As difference(), of a text that only one of them takes."""
    if not ours and re.search(r'"format": "(email|uri|date-time)"', text[0]):
        return "parts of formats"
    if not ours and MANY_DIGITS.search(text[1].encode()):
        return "digits of numbers"
    return "zeros at the end" if ours and re.search(r"\.\d*0", text[1]) else None


class Vocabulary:
    """The tokenizer that llguidance asks for: bytes of tokens, and a token for each byte of a text."""

    def __init__(self, tokens):
        self.eos_token_id, self.bos_token_id = 0, None
        self.tokens = [b"<|end|>" if i == 0 else each for i, each in enumerate(tokens)]
        self.special_token_ids = [0]
        self.single = {each: i for i, each in enumerate(self.tokens) if len(each) == 1}

    def __call__(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        return [self.single[bytes([byte])] for byte in data]


def resolved(schema, root):
    """`schema` with references replaced, which hypothesis-jsonschema loses in places; recursive ones stay."""
    if isinstance(schema, list):
        return [resolved(each, root) for each in schema]
    if not isinstance(schema, dict):
        return schema
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    if name and f"#/$defs/{name}" not in json.dumps(root["$defs"][name]):
        return resolved({**root["$defs"][name], **{key: value for key, value in schema.items() if key != "$ref"}}, root)
    return {key: resolved(value, root) for key, value in schema.items()}


def documents(schema, count):
    """Texts of documents that are valid by the schema."""
    found = []

    @hypothesis.settings(max_examples=count, deadline=None, database=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck),
                         phases=[hypothesis.Phase.generate])
    @hypothesis.given(from_schema(resolved(schema, schema)))
    def take(document):
        found.append(spelled(in_order(document, schema)))

    try:
        take()
    except HypothesisRefResolutionError:  # it makes no recursive documents
        found = [spelled(document) for document in RECURSIVE[" ".join(sorted(schema["$defs"]))]]
    return [text for text in found if not any(part in text for part in ("e+", "e-", "\\u")) and "\\ud" not in json.dumps(text)]


def main(program, model, pairs=2500):
    probe = Probe(program, model)
    tokens = [bytes.fromhex(each) for each in probe.ask(tokens=True)]
    vocabulary = Vocabulary(tokens)
    theirs = llguidance.LLTokenizer(llguidance.TokenizerWrapper(vocabulary))
    options = {"whitespace_pattern": "\\n?[ ]{0,20}", "json_allowed_escapes": "nrbtf\\\""}
    source = random.Random(1)
    schemas = SCHEMAS + [schema for _, schema in cases()]
    counts, unexplained, refused = collections.Counter(), [], collections.Counter()
    for schema in schemas:
        texts = documents(schema, 12 + int(pairs) // len(schemas))
        if not texts:
            refused["without documents"] += 1
            continue
        grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps({**schema, "x-guidance": options}))
        if error := llguidance.LLMatcher.validate_grammar(grammar, theirs):
            refused["llguidance: " + error[:100]] += 1
            continue
        for _ in range(1 + int(pairs) // len(schemas)):
            text = source.choice(texts)
            text = text[:source.randrange(len(text) + 1)]
            answer = probe.ask(kind="schema", source=json.dumps(schema), texts=[text], masks=True)
            if "error" in answer:
                refused["ours: " + answer["error"][:100]] += 1
                break
            ours = set(answer["masks"][0])
            matcher = llguidance.LLMatcher(theirs, grammar)
            takes = matcher.consume_tokens(vocabulary(text))
            if not takes and not answer["begins"][0]:  # hypothesis-jsonschema does not know all formats, nor prefixItems
                continue
            if takes != answer["begins"][0]:
                name = difference_of_text((json.dumps(schema), text), answer["begins"][0])
                counts[name or "a text that one refuses"] += 1
                if name is None:
                    unexplained.append((schema, text, "ours takes it" if answer["begins"][0] else "theirs takes it", ""))
                continue
            bits = matcher.compute_bitmask()
            allowed = {i for i in range(1, len(tokens)) if bits[i // 8] >> (i % 8) & 1}
            counts["pairs"] += 1
            ends = bool(bits[0] & 1)
            # llguidance allows one token of forced text, ours each beginning of it.
            longest = max((tokens[i] for i in ours), key=len, default=b"")
            if ours == allowed and (ends == answer["accepts"][0]):
                counts["equal"] += 1
            elif len(allowed) == 1 and allowed <= ours and all(longest.startswith(tokens[i]) for i in ours):
                counts["equal, forced text"] += 1
            else:
                names = {difference(text.encode(), tokens[i]) for i in ours ^ allowed}
                if ends != answer["accepts"][0]:
                    names.add("minus zero" if answer["accepts"][0] and MINUS_ZERO.search(text) else None)
                for name in names - {None}:
                    counts[name] += 1
                if None in names:
                    counts["not explained"] += 1
                    unexplained.append((schema, text, [tokens[i] for i in sorted(ours - allowed)][:8], [tokens[i] for i in sorted(allowed - ours)][:8]))
    print(dict(counts), dict(refused))
    for schema, text, *rest in unexplained[:30]:
        print("  ", json.dumps(schema)[:300], "|", text[-80:], *rest)
    return len(unexplained) + (counts["pairs"] < min(2000, int(pairs)))


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)

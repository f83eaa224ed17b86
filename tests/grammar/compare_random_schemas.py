"""Random schemas and documents of hypothesis-jsonschema on our grammars: compare_random_schemas.py PROBE [COUNT]

For each schema that compiles: documents that hypothesis generates for it are accepted, and of documents for another
schema exactly those that the jsonschema package finds valid.
"""

import itertools
import json
import re
import sys
import warnings

import hypothesis
import jsonschema
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema
from hypothesis_jsonschema._from_schema import HypothesisRefResolutionError

from probe import Probe, in_order, spelled

warnings.simplefilter("ignore")
SIMPLE = st.recursive(
    st.one_of(
        st.just({"type": "null"}), st.just({"type": "boolean"}),
        st.builds(lambda a, b: {"type": "integer", "minimum": min(a, b), "maximum": max(a, b)}, st.integers(-2000, 2000), st.integers(-2000, 2000)),
        st.builds(lambda a, b: {"type": "number", "minimum": min(a, b), "exclusiveMaximum": max(a, b) + 1},
                  st.integers(-400, 400).map(lambda x: x / 8), st.integers(-400, 400).map(lambda x: x / 8)),
        st.builds(lambda a, b: {"type": "string", "minLength": min(a, b), "maxLength": max(a, b)}, st.integers(0, 9), st.integers(0, 9)),
        st.sampled_from(["^[a-c]+$", "x|y", "^[0-9]{2,4}-", "[^a]$"]).map(lambda p: {"type": "string", "pattern": p}),
        st.lists(st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=3)), min_size=1, max_size=4).map(lambda v: {"enum": v}),
        st.just({"type": "integer", "multipleOf": 3}),
    ),
    lambda inner: st.one_of(
        st.builds(lambda items, a, b: {"type": "array", "items": items, "minItems": min(a, b), "maxItems": max(a, b)}, inner, st.integers(0, 3), st.integers(0, 3)),
        st.builds(lambda first, items: {"type": "array", "prefixItems": first, "items": items}, st.lists(inner, min_size=1, max_size=2), inner),
        st.builds(lambda properties, required, rest: {"type": "object", "properties": properties,
                                                      "required": [n for n in properties if n in required], "additionalProperties": rest},
                  st.dictionaries(st.sampled_from("abcd"), inner, max_size=3), st.sets(st.sampled_from("abcd")), st.one_of(st.booleans(), inner)),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: {"anyOf": each}),
        st.builds(lambda a, b: {"allOf": [a, b]}, inner, inner),
    ),
    max_leaves=6,
)


MOST_ORDERS = 2000
MANY_DIGITS = re.compile(r"\d{20,}|\.\d{18,}")  # more than the guide allows


def orders(value):
    """`value` with the members of its objects in all orders: alternatives may list the same names in different ones."""
    if isinstance(value, list):
        yield from map(list, itertools.product(*(list(orders(each)) for each in value)))
    elif isinstance(value, dict):
        for names in itertools.permutations(value):
            for values in itertools.product(*(list(orders(value[name])) for name in names)):
                yield dict(zip(names, values))
    else:
        yield value


def accepts_an_order(probe, schema, text):
    texts = [spelled(each) for each in itertools.islice(orders(json.loads(text)), MOST_ORDERS)]
    return any(probe.ask(kind="schema", source=json.dumps(schema), texts=texts)["accepts"])


def main(program, count=2000):
    probe = Probe(program)
    totals = {"schemas": 0, "refused": 0, "documents": 0, "other order": 0, "many digits": 0}
    wrong = []

    @hypothesis.settings(max_examples=int(count), deadline=None, database=None, derandomize=True,
                         suppress_health_check=list(hypothesis.HealthCheck), phases=[hypothesis.Phase.generate])
    @hypothesis.given(st.data())
    def check(data):
        schema, other = data.draw(SIMPLE), data.draw(SIMPLE)
        try:
            documents = [data.draw(from_schema(schema)) for _ in range(2)] + [data.draw(from_schema(other))]
        except (HypothesisRefResolutionError, hypothesis.errors.InvalidArgument):
            return
        validator = jsonschema.Draft202012Validator(schema)
        documents = [each for each in documents if "\\ud" not in json.dumps(each)]
        texts = [spelled(in_order(each, schema)) for each in documents]
        valid = [validator.is_valid(json.loads(text)) for text in texts]
        answer = probe.ask(kind="schema", source=json.dumps(schema), texts=texts)
        totals["schemas"] += 1
        if "error" in answer:
            totals["refused"] += 1
            if "can never end" not in answer["error"] or any(valid):
                wrong.append((schema, answer["error"], texts, valid))
            return
        totals["documents"] += len(texts)
        for text, is_valid, accepts in zip(texts, valid, answer["accepts"]):
            if is_valid and not accepts and accepts_an_order(probe, schema, text):
                totals["other order"] += 1
            elif is_valid and not accepts and MANY_DIGITS.search(text):
                totals["many digits"] += 1
            elif is_valid != accepts and "e-" not in text and "e+" not in text:
                wrong.append((schema, text, "accepted" if accepts else "refused"))

    check()
    print(totals, len(wrong), "wrong")
    for each in wrong[:20]:
        print("  ", *each)
    return len(wrong)


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)

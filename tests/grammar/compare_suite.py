"""JSON Schema's official test cases on our grammars: compare_suite.py PROBE FOLDER...

FOLDER: tests/draft2020-12 and others of the JSON-Schema-Test-Suite, which the source archive of PyPI's `jsonschema`
carries as json/tests. Each document is put into the form that grammars write (spelling, order of properties). Prints the
number of schemas that are refused, by keyword, and each document on which grammar and suite differ. Fails for a document
that the grammar wrongly accepts, or that it refuses for no reason of REFUSED.
"""

import collections
import json
import re
import sys
from pathlib import Path

from probe import Probe, in_order, spelled


# Documents that are valid and refused, by file, description of the schema and description of the document; the reasons
# are in docs/guides/output_formats.md.
REFUSED = {
    ("const.json", "const with object", "same object with different property order is valid"): "constants are written in one way",
    ("const.json", "float and integers are equal up to 64-bit representation limits", "float is valid"): "integers have no fraction",
    ("enum.json", "enum with [0] does not match [false]", "[0.0] is valid"): "integers have no fraction",
    ("ref.json", "ref overrides any sibling keywords", "ref valid, maxItems ignored"): "keywords next to $ref count in all drafts",
    ("vocabulary.json", "schema that uses custom metaschema with with no validation vocabulary",
     "no validation: invalid number, but it still validates"): "the vocabulary is that of the standard"}


def reason(file, group, test):
    """Why a valid document is refused; None: wrongly."""
    if file == "format.json" and "is only an annotation by default" in test:
        return "formats are obeyed"
    return REFUSED.get((file, group, test))


def main(program, *folders):
    return sum(compare(Probe(program), folder) for folder in folders)


def compare(probe, folder):
    refused, same, wrong = collections.Counter(), 0, []
    schemas = 0
    for file in sorted(Path(folder).glob("*.json")):
        for group in json.loads(file.read_text(encoding="utf-8")):
            schemas += 1
            schema = group["schema"]
            texts = [spelled(in_order(test["data"], schema)) for test in group["tests"]]
            answer = probe.ask(kind="schema", source=json.dumps(schema), texts=texts)
            if "error" in answer:
                valid = [test for test in group["tests"] if test["valid"]]
                if "can never end" in answer["error"]:
                    wrong += [(file.name, group["description"], test["description"], "refused") for test in valid]
                    continue
                keyword = re.search(r"(#[^:]*): ", answer["error"])
                refused[keyword.group(1).split("/")[-1] if keyword else answer["error"]] += 1
                continue
            for test, text, accepts in zip(group["tests"], texts, answer["accepts"]):
                if accepts == test["valid"]:
                    same += 1
                else:
                    wrong.append((file.name, group["description"], test["description"],
                                  ("accepted " if accepts else "refused ") + text[:200]))
    explained = [each for each in wrong if each[3].startswith("refused") and reason(*each[:3])]
    print(f"{Path(folder).name}: {schemas} schemas, {sum(refused.values())} refused:", dict(refused.most_common()))
    print(f"{same} documents alike, {len(explained)} refused as documented, {len(wrong) - len(explained)} wrong")
    for each in wrong:
        print("  ", *each, reason(*each[:3]) or "WRONG", sep=" | ")
    return len(wrong) - len(explained)


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)

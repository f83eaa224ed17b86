"""JSON Schema's official test cases on our grammars: compare_suite.py PROBE FOLDER

FOLDER: tests/draft2020-12 of the JSON-Schema-Test-Suite, which the source archive of PyPI's `jsonschema` carries as
json/tests. Each document is put into the form that grammars write (spelling, order of properties). Prints the number
of schemas that are refused, by keyword, and each document on which grammar and suite differ; fails for wrong ones.
"""

import collections
import json
import re
import sys
from pathlib import Path

from probe import Probe, in_order, spelled


def main(program, folder):
    probe = Probe(program)
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
    print(f"{schemas} schemas, {sum(refused.values())} refused:", dict(refused.most_common()))
    print(f"{same} documents alike, {len(wrong)} not")
    for each in wrong:
        print("  ", *each, sep=" | ")
    return len([each for each in wrong if each[3].startswith("accepted")])


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)

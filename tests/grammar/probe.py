"""Runs grammar_probe, the program of probe.cc."""

import json
import subprocess


class Probe:
    """A process of grammar_probe; `model`: the vocabulary of its masks, else a token for each byte."""

    def __init__(self, program, model=None):
        command = [str(program)] + ([str(model)] if model else [])
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def spelled(value):
    """A document as a grammar spells it: no escape that is not needed, whole numbers without a fraction."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else json.dumps(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(spelled, value)) + "]"
    return "{" + ", ".join(f"{spelled(str(name))}: {spelled(each)}" for name, each in value.items()) + "}"


def in_order(value, schema, root=None):
    """`value` with the properties of each object in the order of the schema, as far as `properties` say it."""
    root = schema if root is None else root
    if isinstance(value, list):
        prefix, items = [], {}
        if isinstance(schema, dict):
            prefix, items = schema.get("prefixItems", []), schema.get("items", {})
        return [in_order(each, prefix[i] if i < len(prefix) else items, root) for i, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    names = []
    collect_names(schema, root, names, set())
    places = {name: i for i, name in reversed(list(enumerate(names)))}
    ordered = sorted(value.items(), key=lambda pair: places.get(pair[0], len(names)))
    return {name: in_order(each, property_schema(schema, name), root) for name, each in ordered}


def property_schema(schema, name):
    return schema.get("properties", {}).get(name, {}) if isinstance(schema, dict) else {}


def collect_names(schema, root, names, seen):
    if not isinstance(schema, dict) or id(schema) in seen:
        return
    seen.add(id(schema))
    if isinstance(schema.get("properties"), dict):
        names.extend(schema["properties"])
    for key in ("allOf", "anyOf", "oneOf"):
        for each in schema.get(key, []):
            collect_names(each, root, names, seen)
    for key in ("dependentSchemas", "dependencies"):
        for each in schema.get(key, {}).values():
            collect_names(each, root, names, seen)
    for key in ("dependentRequired", "dependencies"):
        for each in schema.get(key, {}).values():
            names.extend(each if isinstance(each, list) else [])
    reference = schema.get("$ref", "")
    if reference.startswith("#/"):
        at = root
        for step in reference[2:].split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            at = at[int(step)] if isinstance(at, list) else at.get(step, {})
        collect_names(at, root, names, seen)
    if isinstance(schema.get("required"), list):
        names.extend(schema["required"])

"""Answers of a small model by schemas: smollm_answers.py PROGRAM MODEL [SEEDS]

`gabbro run --schema` at temperature 1. Each answer that ends by itself has to be valid by the jsonschema package.
Prints the ends of answers that are cut, and how many end.
"""

import json
import subprocess
import sys
import tempfile

import jsonschema

CASES = [
    ("Invent a person.", {"type": "object", "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 30}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "hobbies": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 3}},
        "required": ["name", "age", "hobbies"], "additionalProperties": False}),
    ("What is the weather in Paris? Call the tool.", {"type": "object", "properties": {
        "name": {"const": "get_weather"}, "arguments": {"type": "object", "properties": {
            "city": {"type": "string", "maxLength": 40}, "unit": {"enum": ["celsius", "fahrenheit"]}}, "required": ["city", "unit"],
            "additionalProperties": False}}, "required": ["name", "arguments"], "additionalProperties": False}),
    ("Name three dates of history.", {"type": "array", "minItems": 3, "maxItems": 3, "items": {"type": "object", "properties": {
        "date": {"type": "string", "format": "date"}, "event": {"type": "string", "maxLength": 60}}, "required": ["date", "event"],
        "additionalProperties": False}}),
    ("Is this text positive? 'I like it.'", {"type": "object", "properties": {
        "sentiment": {"enum": ["positive", "negative", "neutral"]}, "score": {"type": "number", "minimum": 0, "maximum": 1}},
        "required": ["sentiment", "score"], "additionalProperties": False}),
    ("Describe a small tree of folders.", {"$defs": {"folder": {"type": "object", "properties": {
        "name": {"type": "string", "pattern": "^[a-z]{1,12}$"},
        "folders": {"type": "array", "items": {"$ref": "#/$defs/folder"}, "maxItems": 2}}, "required": ["name", "folders"],
        "additionalProperties": False}}, "$ref": "#/$defs/folder"}),
]


def main(program, model, seeds=20):
    ended = 0
    for prompt, schema in CASES:
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as prompts:
            for seed in range(1, int(seeds) + 1):
                prompts.write(json.dumps({"prompt": prompt, "seed": seed, "temperature": 1, "max_tokens": 400}) + "\n")
            prompts.flush()
            done = subprocess.run([program, "run", model, "--device", "cpu", "--prompts", prompts.name, "--schema", json.dumps(schema),
                                   "--parallel", "8"], stdout=subprocess.PIPE, text=True, check=True)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        for row in rows:
            if row["stop_reason"] != "eos":
                print("  cut:", row["text"][-80:])
                continue
            jsonschema.validate(json.loads(row["text"]), schema, format_checker=jsonschema.FormatChecker())
            ended += 1
        print(rows[0]["text"])
    print(f"{ended} of {len(CASES) * int(seeds)} answers ended and are valid")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Answers of a small model by fifty schemas: smollm_answers.py PROGRAM MODEL PROBE [SEEDS] [ROWS.jsonl]

`gabbro run --schema` at temperature 1, up to 1,024 tokens; PROBE is grammar_probe. Each answer that ends by itself has to
be valid by the jsonschema package, and so has each one that is cut, with the text that the grammar ends it with. At least
19 of 20 have to end. Writes all answers to ROWS.jsonl.
"""

import collections
import decimal
import json
import os
import subprocess
import sys
import tempfile

import jsonschema

from answer_schemas import cases
from probe import Probe

TOKENS = 1024
OPTIONS = os.environ.get("GABBRO_RUN_OPTIONS", "").split()


def answers(program, model, prompt, schema, seeds):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as prompts:
        for seed in range(1, seeds + 1):
            prompts.write(json.dumps({"prompt": prompt, "seed": seed, "temperature": 1, "max_tokens": TOKENS}) + "\n")
        prompts.flush()
        done = subprocess.run([program, "run", model, "--device", "cpu", "--prompts", prompts.name, "--schema", json.dumps(schema),
                               "--parallel", str(min(seeds, 32)), *OPTIONS], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def exact(text):
    return json.loads(text, parse_float=decimal.Decimal)


def is_valid(text, schema):
    try:
        jsonschema.validate(exact(text), exact(json.dumps(schema)), format_checker=jsonschema.FormatChecker())
    except (ValueError, jsonschema.ValidationError) as error:
        print("  invalid:", text[:300], str(error).split("\n")[0])
        return False
    return True


def main(program, model, probe_program, seeds=20, rows_file=None):
    probe = Probe(probe_program)
    counts, cut_tokens = collections.Counter(), 0
    with open(rows_file or "/dev/null", "w", encoding="utf-8") as file:
        for number, (prompt, schema) in enumerate(cases()):
            of_case = collections.Counter()
            for row in answers(program, model, prompt, schema, int(seeds)):
                ended, text = row["stop_reason"] == "eos", row["text"]
                file.write(json.dumps({"case": number, "seed": row.get("seed"), "ended": ended, "tokens": row["generated_tokens"], "text": text}) + "\n")
                of_case["ended" if ended else "cut"] += 1
                if not ended:
                    cut_tokens += row["generated_tokens"]
                    text += probe.ask(kind="schema", source=json.dumps(schema), texts=[text], endings=True)["endings"][0] or "no ending"
                of_case["wrong"] += not is_valid(text, schema)
            file.flush()
            print(f"{number:2} {prompt[:60]:60} ended {of_case['ended']}, cut {of_case['cut']}, wrong {of_case['wrong']}", flush=True)
            counts += of_case
    total = counts["ended"] + counts["cut"]
    print(f"{counts['ended']} of {total} answers ended, {counts['cut']} were cut, {counts['wrong']} are wrong")
    return counts["wrong"] > 0 or counts["ended"] < 0.95 * total


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)

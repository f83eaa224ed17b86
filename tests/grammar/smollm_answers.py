"""Answers of a small model by fifty schemas: smollm_answers.py PROGRAM MODEL PROBE [SEEDS] [ROWS.jsonl]

`gabbro serve` at temperature 1, up to 1,024 tokens; PROBE is grammar_probe. A schema of a tool is asked for as a strict
call of this tool, and a model of pydantic as a strict `response_format`, whose schema the system message has, as
clients write it. Each answer that ends by itself has to be valid by the jsonschema package, and so has each one that is
cut, with the text that the grammar ends it with. At least 19 of 20 have to end. ROWS.jsonl gets all answers; those that
it has are not asked for again.
"""

import collections
import concurrent.futures
import decimal
import http.client
import json
import os
import subprocess
import sys

import jsonschema

from answer_schemas import TOOLS, cases
from probe import Probe

TOKENS = 1024
SAMPLING = json.loads(os.environ.get("GABBRO_SAMPLING", '{"temperature": 1}'))
TOGETHER = 16
SEEDS_OF_ROUND = 4
THREADS = os.environ.get("GABBRO_THREADS", "1")


class Server:
    def __init__(self, program, model):
        self.process = subprocess.Popen([program, "serve", model, "--device", "cpu", "--port", "0", "--host", "127.0.0.1", "--parallel", str(TOGETHER),
                                         "--threads", THREADS], stderr=subprocess.PIPE, text=True)
        line = next(line for line in self.process.stderr if line.startswith("listening on "))
        self.port = int(line.rsplit(":", 1)[1])

    def choice(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise ValueError(answer)
        return answer["choices"][0], answer["usage"]["completion_tokens"]


def tool_answer(server, tool, seed):
    prompt, name, schema = tool
    function = {"name": name, "parameters": schema, "strict": True}
    choice, tokens = server.choice({
        "messages": [{"role": "user", "content": prompt}], "tools": [{"type": "function", "function": function}], "parallel_tool_calls": False,
        "tool_choice": {"type": "function", "function": {"name": name}}, **SAMPLING, "max_tokens": TOKENS, "seed": seed})
    calls = choice["message"].get("tool_calls") or []
    text = calls[0]["function"]["arguments"] if len(calls) == 1 and calls[0]["function"]["name"] == name else f"no call: {choice}"
    return choice["finish_reason"], tokens, text


def model_answer(server, prompt, schema, seed):
    choice, tokens = server.choice({
        "messages": [{"role": "system", "content": "Answer with a JSON object that matches this JSON Schema:\n" + json.dumps(schema)},
                     {"role": "user", "content": prompt}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}},
        **SAMPLING, "max_tokens": TOKENS, "seed": seed})
    return choice["finish_reason"], tokens, choice["message"]["content"]


def row_of(server, number, seed):
    if number < len(TOOLS):
        reason, tokens, text = tool_answer(server, TOOLS[number], seed)
    else:
        reason, tokens, text = model_answer(server, *cases()[number], seed)
    return {"case": number, "seed": seed, "ended": reason != "length", "tokens": tokens, "text": text}


def schema_of(number):
    return TOOLS[number][2] if number < len(TOOLS) else cases()[number][1]


sys.setrecursionlimit(100_000)  # for deep documents


def exact(text):
    return json.loads(text, parse_float=decimal.Decimal)


def is_valid(text, schema):
    try:
        jsonschema.validate(exact(text), exact(json.dumps(schema)), format_checker=jsonschema.FormatChecker())
    except (ValueError, jsonschema.ValidationError) as error:
        print("  invalid:", text[:300], str(error).split("\n")[0])
        return False
    return True


def whole_text(probe, row):
    """The text, ended by the grammar where it was cut."""
    if row["ended"]:
        return row["text"]
    answer = probe.ask(kind="closed", source=json.dumps(schema_of(row["case"])), texts=[row["text"]], endings=True)
    return row["text"] + (answer["endings"][0] if answer["endings"][0] is not None else " has no ending")


def in_rounds(count, seeds):
    """Cases and seeds: a few seeds of each case, as the server keeps a prompt that it knows for a while, and then more."""
    for first in range(1, seeds + 1, SEEDS_OF_ROUND):
        for number in range(count):
            for seed in range(first, min(first + SEEDS_OF_ROUND, seeds + 1)):
                yield number, seed


def read_rows(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main(program, model, probe_program, seeds=20, rows_file=os.devnull):
    rows = read_rows(rows_file)
    known = {(row["case"], row["seed"]) for row in rows}
    server = Server(program, model)
    try:
        with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool, open(rows_file, "a", encoding="utf-8") as file:
            asked = [pool.submit(row_of, server, number, seed) for number, seed in in_rounds(len(cases()), int(seeds)) if (number, seed) not in known]
            for done in concurrent.futures.as_completed(asked):
                if done.exception() is not None:
                    pool.shutdown(wait=False, cancel_futures=True)
                rows.append(row := done.result())
                file.write(json.dumps(row) + "\n")
                file.flush()
    finally:
        server.process.terminate()
        server.process.wait()
    probe = Probe(probe_program)
    of_cases = collections.defaultdict(collections.Counter)
    for row in rows:
        of_cases[row["case"]]["ended" if row["ended"] else "cut"] += 1
        of_cases[row["case"]]["wrong"] += not is_valid(whole_text(probe, row), schema_of(row["case"]))
    for number, counts in sorted(of_cases.items()):
        print(f"{number:2} {cases()[number][0][:60]:60} ended {counts['ended']}, cut {counts['cut']}, wrong {counts['wrong']}")
    total = sum(of_cases.values(), collections.Counter())
    print(f"{total['ended']} of {len(rows)} answers ended, {total['cut']} were cut, {total['wrong']} are wrong")
    return total["wrong"] > 0 or total["ended"] < 0.95 * len(rows)


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)

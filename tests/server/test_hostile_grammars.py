"""Forms of answers that are made to hurt: each ends in an error or an answer within 2 s, and the engine goes on."""
import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import support  # noqa: E402
from support import TINY_F16, TestCase, within  # noqa: E402
from test_program import Program  # noqa: E402

LIMIT = 2  # seconds


def processor_seconds(process):
    """Of a process and its children: other programs on the machine do not count."""
    ticks = 0
    children = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()
    for number in (process, *children):
        fields = pathlib.Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def nested(schema, levels):
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


PAIRS = [{"anyOf": [{"minimum": i}, {"maxLength": i}, {"minItems": i}]} for i in range(30)]
LOOP = {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}
ENDLESS = {"$defs": {"a": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]}}, "$ref": "#/$defs/a"}
PATTERNS = {f"^.*{letter}.{{9}}$": {} for letter in "abcdefghijklmnop"}
DOUBLING = "root ::= a0\n" + "".join(f"a{i} ::= a{i + 1} a{i + 1}\n" for i in range(60)) + 'a60 ::= "x"'
CHAIN = "root ::= r0\n" + "".join(f'r{i} ::= r{i + 1} "x"\n' for i in range(20_000)) + 'r20000 ::= "y"'
# Kind, a field, and its value. Several rows of one kind are for several readers.
HOSTILE = [
    ("empty", "grammar", " "), ("empty", "guided_regex", ""), ("empty", "guided_json", {"enum": []}), ("empty", "guided_choice", []),
    ("without a text", "grammar", 'root ::= "a" root'), ("without a text", "guided_json", {"minLength": 3, "maxLength": 2, "type": "string"}),
    ("without a text", "guided_json", ENDLESS), ("without a text", "guided_json", False),
    ("left recursion", "grammar", 'root ::= root "a" | "a"'), ("left recursion", "grammar", 'root ::= "b"? root "a" | "a"'),
    ("a loop of references", "guided_json", LOOP), ("a loop of references", "guided_json", {"$ref": "#"}),
    ("exponential alternatives", "guided_json", {"allOf": PAIRS}), ("exponential states", "guided_json", {"type": "object", "patternProperties": PATTERNS}),
    ("exponential states", "guided_json", {"type": "string", "pattern": "^(a|b)*a(a|b){30}$", "maxLength": 100_000}),
    ("exponential length", "grammar", DOUBLING), ("counts of counts", "grammar", "root ::= ((((([a-z]{1000}){1000}){1000}){1000}){1000}){1000}"),
    ("counts of counts", "guided_regex", "((((a{1,999}){1,999}){1,999}){1,999}){1,999}"), ("repeated nothing", "guided_regex", "(((a*)*)*|(b*)*)*c"),
    ("counts of counts", "guided_json", {"type": "array", "minItems": 10 ** 9, "items": {"type": "array", "minItems": 10 ** 9}}),
    ("ambiguous", "grammar", 'root ::= "a" root root | "a" root | "a"'), ("ambiguous", "guided_regex", "(a|a|aa)*b"),
    ("deep", "grammar", "root ::= " + "(" * 100_000), ("deep", "guided_regex", "(" * 100_000), ("deep", "guided_json", nested({}, 90)),
    ("long", "grammar", CHAIN), ("huge", "grammar", 'root ::= "a"' + ' | "a"' * 200_000), ("huge", "guided_regex", "a" * 5_000_000),
    ("huge", "guided_json", {"enum": [f"value {i}" for i in range(100_000)]}),
    ("huge", "guided_json", {"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(5000)}, "minProperties": 100}),
    ("large numbers", "guided_json", {"type": "number", "multipleOf": 1e-300}), ("large numbers", "guided_json", {"type": "integer", "minimum": 1e300}),
    ("large numbers", "guided_json", {"type": "integer", "multipleOf": 999_999_999_999_999_989}),
    ("large numbers", "guided_json", {"type": "string", "minLength": 10 ** 18}),
]


class Hostile(TestCase):
    def test_each_ends_and_the_engine_goes_on(self):
        program = Program(TINY_F16, "--chat-template", "chatml")
        self.addCleanup(lambda: program.process.poll() is None and program.end(signal.SIGKILL))
        plain = {"prompt": "Once", "max_tokens": 8, "temperature": 0}
        expected = program.ask("POST", "/v1/completions", plain)[1]["choices"][0]["text"]
        for kind, field, value in HOSTILE:
            with self.subTest(kind=kind, field=field, value=json.dumps(value)[:80]):
                body = {"prompt": "Once", "max_tokens": 8, field: value}

                def attempt():
                    start, used = time.monotonic(), processor_seconds(program.process.pid)
                    status, answer = program.ask("POST", "/v1/completions", body)
                    self.assertIn(status, (200, 400), answer)
                    if status == 400:
                        self.assertTrue(answer["error"]["message"])
                    waited = time.monotonic() - start
                    self.assertLess(waited, 10 * LIMIT)
                    return min(waited, processor_seconds(program.process.pid) - used)
                within(LIMIT, attempt)
                self.assertEqual(program.ask("POST", "/v1/completions", plain)[1]["choices"][0]["text"], expected)
        self.assertGreaterEqual(len({kind for kind, _, _ in HOSTILE}), 10)
        self.assertEqual(program.end(), 0)


if __name__ == "__main__":
    support.main()

"""What the tests of two dialects by their own clients share: ids and joined events, and calls that are counted."""
import pathlib
import re
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (1, 2)] + [str(pathlib.Path(__file__).resolve().parents[2] / "cli")]
import test_anthropic  # noqa: E402
from server_support import SCRIPT, Server  # noqa: E402

LEAST = 60
ID = re.compile(r"^(msg|toolu|sig|resp|rs|fc|ctc|call)_[A-Za-z0-9_-]{20,}$")
MODELS = {**test_anthropic.Messages.config["models"], "context": {"model": {"context": 64}, **SCRIPT},
          "json": {"answers": [{"tokens": ['{"a"', ": 5", "}"]}]}}


def user(text="hi"):
    return [{"role": "user", "content": text}]


def named(value, names):
    """`value` with each id as its kind and a number by its first appearance, and times as 0."""
    if isinstance(value, dict):
        return {key: 0 if key == "created_at" else named(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [named(each, names) for each in value]
    if isinstance(value, str) and (found := ID.match(value)):
        return names.setdefault(value, f"{found.group(1)} {sum(name.startswith(found.group(1) + ' ') for name in names.values())}")
    return value


def joined(events, member):
    """Events without pings, neighbors joined that differ in the text of `member(event)` only."""
    result = []
    for event in events:
        place = member(event)
        last = result[-1] if result else {}
        if place and last.get("type") == event["type"] and member(last) and member(last)[1] == place[1]:
            member(last)[0][place[1]] += place[0][place[1]]
        elif event["type"] != "ping" or len(result) == 1:
            result.append(event)
    return result


class Dialect(unittest.TestCase):
    calls = [0]
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server(models=MODELS, load=list(MODELS))
        cls.base = f"http://127.0.0.1:{cls.server.port}"

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def count(self, function, *arguments, **fields):
        self.calls[0] += 1
        return function(*arguments, **fields)

    def fails(self, kind, says, function, **fields):
        with self.assertRaises(kind) as caught:
            self.count(function, **fields)
        self.assertIn(says, str(caught.exception))
        return caught.exception

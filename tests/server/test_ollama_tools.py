"""Calls of tools in Ollama's dialect: whole, streamed, and cut anywhere."""
import importlib.util
import unittest

import server_support
from server_support import TestCase
from test_tools import SCRIPT, TOOLS

EXPECTED = [("look", {"city": "Zürich \"x\"", "at": [1, 2]}), ("count", {})]


def calls_of(message):
    calls = message.get("tool_calls", [])
    assert [call["function"]["index"] for call in calls] == list(range(len(calls))), calls
    assert all(call["id"].startswith("call_") for call in calls), calls
    return [(call["function"]["name"], call["function"]["arguments"]) for call in calls]


class OllamaTools(TestCase):
    config = {"models": {"script": SCRIPT, "plain": {"answers": [{"tokens": ["x"]}]}}}

    def request(self, text, **fields):
        return {"model": "script", "messages": [{"role": "user", "content": text}], "tools": TOOLS, **fields}

    def whole(self, text, **fields):
        status, answer = self.server.post("/api/chat", self.request(text, stream=False, **fields))
        self.assertEqual(status, 200, answer)
        message = answer["message"]
        return message["content"], message.get("thinking", ""), calls_of(message), answer["done_reason"]

    def streamed(self, text, **fields):
        lines = self.server.lines("/api/chat", self.request(text, **fields))
        self.assertEqual([line["done"] for line in lines], [False] * (len(lines) - 1) + [True])
        content = "".join(line["message"]["content"] for line in lines)
        thinking = "".join(line["message"].get("thinking", "") for line in lines)
        calls = [call for line in lines for call in line["message"].get("tool_calls", [])]
        return content, thinking, calls_of({"tool_calls": calls}), lines[-1]["done_reason"]

    def test_calls(self):
        self.assertEqual(self.whole("calls 0 "), ("I look.", "", EXPECTED, "stop"))
        self.assertEqual(self.whole("thinks 0 "), ("I look.", "I may <tool_call> it", EXPECTED, "stop"))
        self.assertEqual(self.whole("repaired 0 "), ("", "", [("look", {"city": "a\nb", "x": True})], "stop"))

    def test_streams_equal_whole_answers(self):
        for name in ("calls", "only", "thinks", "talks", "broken", "repaired", "half"):
            expected = self.whole(f"{name} 0 ")
            for seed in range(40):
                self.assertEqual(self.streamed(f"{name} {seed} "), expected, (name, seed))

    def test_a_call_that_is_cut_is_left_out(self):
        self.assertEqual(self.whole("half 0 "), ("", "", [], "stop"))
        self.assertEqual(self.whole("half 1 ", options={"num_predict": 3})[2:], ([], "length"))

    def test_turns_after_calls(self):
        messages = [{"role": "user", "content": "calls 0 "},
                    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look", "arguments": {"city": "Rome"}}}]},
                    {"role": "tool", "tool_name": "look", "content": "sunny"}]
        status, answer = self.server.post("/api/chat", {**self.request(""), "messages": messages, "stream": False})
        self.assertEqual(status, 200, answer)

    def test_fields_that_are_wrong(self):
        for fields, says in (({"tools": 5}, "tools: expected an array"), ({"tools": [{"type": "function"}]}, "tools[0].function"),
                             ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name")):
            for messages in ([{"role": "user", "content": "x"}], []):
                status, answer = self.server.post("/api/chat", {**self.request("x"), "messages": messages, **fields})
                self.assertEqual((status, list(answer)), (400, ["error"]), answer)
                self.assertIn(says, answer["error"])

    def test_show_tells_of_tools(self):
        self.assertEqual(self.server.post("/api/show", {"model": "script"})[1]["capabilities"], ["completion", "tools"])
        self.assertEqual(self.server.post("/api/show", {"model": "plain"})[1]["capabilities"], ["completion"])

    @unittest.skipUnless(importlib.util.find_spec("ollama"), "the package ollama is not installed")
    def test_by_the_client_library(self):
        import ollama
        client = ollama.Client(host=f"http://127.0.0.1:{self.server.port}")

        def look(city: str) -> str:
            """The weather of a city."""
            return city

        message = client.chat(model="script", messages=[{"role": "user", "content": "calls 7 "}], tools=[look]).message
        self.assertEqual([(call.function.name, dict(call.function.arguments)) for call in message.tool_calls], EXPECTED)
        parts = list(client.chat(model="script", messages=[{"role": "user", "content": "calls 8 "}, message, {"role": "tool", "tool_name": "look", "content": "sun"}],
                                 tools=[look], stream=True))
        self.assertEqual([call.function.name for part in parts for call in part.message.tool_calls or []], ["look", "count"])


if __name__ == "__main__":
    server_support.main()

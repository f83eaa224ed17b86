#!/usr/bin/env python3
"""OpenAI's Responses by its own client, on scripted models: at least 60 calls.

Each case is asked for whole, as events, which are compared with the sequence that the dialect describes, and by the
client's own reader of streams. `./test clients` installs what requirements.txt lists and runs it.
"""
import asyncio
import base64
import sys
import unittest

import openai
import pydantic
from dialect_support import LEAST, MODELS, Dialect, joined, named, user
from server_support import TEXT
from test_anthropic import named_events
from test_tools import ANSWERS, EXPECTED

LOOK_UP = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}, "strict": False}
COUNT_UP = {"type": "function", "name": "count", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}, "strict": False}
MESSAGE = [("message", TEXT)]
THOUGHT = [("reasoning", "hmm"), ("message", "yes")]
CALLED = [("message", "I look."), *[("function_call", name, arguments) for name, arguments in EXPECTED]]
COUNTED = [("function_call", "count", '{"n": 3}')]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ITEMS = [*user("calls 0 "), {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
         {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
         {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"city": "Rome"}'},
         {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}]
# Name, input, fields, and items.
RESPONSES = [
    ("plain", "hi", {}, MESSAGE), ("instructions", "hi", {"instructions": "be brief"}, MESSAGE), ("temperature", "hi", {"temperature": 0.5}, MESSAGE),
    ("top_p", "hi", {"top_p": 0.5}, MESSAGE), ("metadata", "hi", {"metadata": {"a": "b"}, "user": "x", "service_tier": "auto"}, MESSAGE),
    ("store", "hi", {"store": True, "truncation": "disabled"}, MESSAGE), ("not stored", "hi", {"store": False}, MESSAGE),
    ("effort", "hi", {"reasoning": {"effort": "low", "summary": "auto"}}, MESSAGE), ("verbosity", "hi", {"text": {"verbosity": "low"}}, MESSAGE),
    ("text", "hi", {"text": {"format": {"type": "text"}}}, MESSAGE),
    ("json_object", "hi", {"model": "json", "text": {"format": {"type": "json_object"}}}, [("message", '{"a": 5}')]),
    ("a schema", "hi", {"model": "json", "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA, "strict": True}}}, [("message", '{"a": 5}')]),
    ("length", "hi", {"max_output_tokens": 2}, [("message", "Hello")]), ("one token", "hi", {"max_output_tokens": 1}, [("message", "Hel")]),
    ("items", [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}], {}, MESSAGE),
    ("a developer", [{"role": "developer", "content": "now"}, *user()], {"instructions": "be"}, MESSAGE),
    ("a system message", [{"role": "system", "content": "now"}, *user()], {}, MESSAGE),
    ("a history", [*user("a"), {"role": "assistant", "content": "b"}, *user("c")], {}, MESSAGE),
    ("thoughts", "ponder", {}, THOUGHT), ("thoughts that the prompt opens", "x", {"model": "opens"}, THOUGHT),
    ("encrypted thoughts", "ponder", {"include": ["reasoning.encrypted_content"]}, THOUGHT),
    ("calls", "calls 0 ", {"model": "script", "tools": [LOOK_UP, COUNT_UP]}, CALLED),
    ("calls in tokens", "calls 8 ", {"model": "script", "tools": [LOOK_UP, COUNT_UP]}, CALLED),
    ("thoughts and calls", "thinks 6 ", {"model": "script", "tools": [LOOK_UP, COUNT_UP]}, [("reasoning", "I may <tool_call> it"), *CALLED]),
    ("one call", "calls 2 ", {"model": "script", "tools": [LOOK_UP, COUNT_UP], "parallel_tool_calls": False}, CALLED[:2]),
    ("required", "only 3 ", {"model": "script", "tools": [LOOK_UP, COUNT_UP], "tool_choice": "required"}, COUNTED),
    ("a named tool", "only 3 ", {"model": "script", "tools": [LOOK_UP, COUNT_UP], "tool_choice": {"type": "function", "name": "count"}}, COUNTED),
    ("allowed tools", "only 3 ", {"model": "script", "tools": [LOOK_UP, COUNT_UP], "tool_choice": {
        "type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "count"}]}}, COUNTED),
    ("no tool", "only 3 ", {"model": "script", "tools": [LOOK_UP, COUNT_UP], "tool_choice": "none"}, [("message", ANSWERS["only"])]),
    ("tools of the vendor", "only 3 ", {"model": "script", "tools": [COUNT_UP, {"type": "web_search"}]}, COUNTED),
    ("strict", "only 3 ", {"model": "script", "tools": [{**COUNT_UP, "strict": True}]}, COUNTED),
    ("a broken call", "broken 2 ", {"model": "script", "tools": [LOOK_UP]}, [("message", ANSWERS["broken"])]),
    ("a repaired call", "repaired 2 ", {"model": "script", "tools": [LOOK_UP]}, [("function_call", "look", '{"city": "a\\nb", "x": true}')]),
    ("results of tools", ITEMS, {"model": "script", "tools": [LOOK_UP, COUNT_UP]}, CALLED),
    ("a call of the history that is broken", [*ITEMS[:3], {**ITEMS[3], "arguments": "{broken"}, ITEMS[4]], {"model": "script", "tools": [LOOK_UP]}, CALLED),
    ("characters", "bytes", {}, [("message", "€uro")]),
]
PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}


def output_items(items, status, encrypts):
    """The items of a whole response."""
    seen = dict.fromkeys(PREFIXES, 0)
    for number, (kind, value, *arguments) in enumerate(items):
        item = {"id": f"{PREFIXES[kind]} {seen[kind]}", "type": kind, "status": "incomplete" if status == "incomplete" and number == len(items) - 1 else "completed"}
        if arguments:
            item |= {"call_id": f"call {seen[kind]}", "name": value, "arguments": arguments[0]}
        elif kind == "message":
            item |= {"role": "assistant", "content": [{"type": "output_text", "text": value, "annotations": [], "logprobs": []}]}
        else:
            item |= {"summary": [], "content": [{"type": "reasoning_text", "text": value}]}
            item |= {"encrypted_content": base64.b64encode(value.encode()).decode()} if encrypts else {}
        seen[kind] += 1
        yield item


def response_events(whole, status, encrypts):
    """The sequence of events of a response: https://platform.openai.com/docs/api-reference/responses-streaming"""
    begun = {**whole, "status": "in_progress", "output": [], "incomplete_details": None, "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(whole["output"]):
        empty = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
        empty |= {"encrypted_content": ""} if encrypts and item["type"] == "reasoning" else {}
        yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "status": "in_progress", **empty}}
        place = {"item_id": item["id"], "output_index": index}
        if item["type"] == "function_call":
            yield {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **place, "name": item["name"], "arguments": item["arguments"]}
        else:
            [part] = item["content"]
            place |= {"content_index": 0}
            scores = {"logprobs": []} if part["type"] == "output_text" else {}
            yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
            yield {"type": f"response.{part['type']}.delta", **place, "delta": part["text"], **scores}
            yield {"type": f"response.{part['type']}.done", **place, "text": part["text"], **scores}
            yield {"type": "response.content_part.done", **place, "part": part}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{status}", "response": whole}


def without_parsed(value):
    """Without what the client adds."""
    if isinstance(value, list):
        return [without_parsed(each) for each in value]
    if isinstance(value, dict):
        return {name: without_parsed(each) for name, each in value.items() if name not in ("parsed", "parsed_arguments")}
    return value


REQUIRED = {"id", "object", "created_at", "status", "error", "incomplete_details", "instructions", "metadata", "model", "output", "parallel_tool_calls",
            "temperature", "tool_choice", "tools", "top_p"}


class Responses(Dialect):
    def setUp(self):
        self.api = openai.OpenAI(base_url=self.base + "/v1", api_key="none", max_retries=0, timeout=30)

    def fields(self, given, fields):
        return {"model": "plain", "input": given, **fields}

    def test_cases(self):
        for name, given, fields, items in RESPONSES:
            with self.subTest(name):
                self.compare(self.fields(given, fields), items)

    def compare(self, fields, items):
        status = "incomplete" if "max_output_tokens" in fields else "completed"
        encrypts = bool(fields.get("include"))
        answer = self.count(self.api.responses.create, **fields)
        whole = named(answer.to_dict(), {})
        self.assertLessEqual(REQUIRED, set(whole))
        self.assertEqual((whole["object"], whole["status"], whole["model"], whole["error"]), ("response", status, fields["model"], None))
        self.assertEqual(whole["incomplete_details"], {"reason": "max_output_tokens"} if status == "incomplete" else None)
        for name in ("instructions", "temperature", "top_p", "metadata", "max_output_tokens", "parallel_tool_calls"):
            if name in fields:
                self.assertEqual(whole[name], fields[name])
        self.assertEqual(whole["output"], list(output_items(items, status, encrypts)))
        self.assertEqual(answer.output_text, "".join(item[1] for item in items if item[0] == "message"))
        usage = answer.usage
        self.assertEqual(usage.total_tokens, usage.input_tokens + usage.output_tokens)
        counted = {key: value for key, value in fields.items() if key in ("model", "input", "instructions", "tools", "tool_choice", "reasoning", "text")}
        self.assertEqual(self.count(self.api.responses.input_tokens.count, **counted).input_tokens, usage.input_tokens)
        with self.count(self.api.responses.with_streaming_response.create, stream=True, **fields) as streamed:
            events = named_events(streamed.read())
        self.assertEqual([event.pop("sequence_number") for event in events], list(range(len(events))))
        self.assertEqual(joined(named(events, {}), lambda event: (event, "delta") if "delta" in event else None),
                         list(response_events(whole, status, encrypts)))
        with self.count(self.api.responses.stream, **{key: value for key, value in fields.items() if key != "stream"}) as stream:
            for event in stream:
                pass
        self.assertEqual(event.type, f"response.{status}")
        self.assertEqual(without_parsed(named(event.response.to_dict()["output"], {})), whole["output"])

    def test_a_call_that_is_cut(self):
        fields = self.fields("half 0 ", {"model": "script", "tools": [LOOK_UP]})
        self.assertEqual(self.count(self.api.responses.create, **fields).output[0].arguments, '{"city": "a')
        events = list(self.count(self.api.responses.create, stream=True, **fields))
        self.assertEqual("".join(event.delta for event in events if event.type == "response.function_call_arguments.delta"), '{"city": "a')

    def test_a_loop_of_tools(self):
        history = user("calls 7 ")
        for _ in range(3):
            answer = self.count(self.api.responses.create, model="script", input=history, tools=[LOOK_UP, COUNT_UP])
            calls = [item for item in answer.output if item.type == "function_call"]
            self.assertEqual([(call.name, call.arguments) for call in calls], EXPECTED)
            history += [item.to_dict() for item in answer.output]
            history += [{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"} for call in calls]

    def test_parsed(self):
        class Answer(pydantic.BaseModel):
            a: int
        self.assertEqual(self.count(self.api.responses.parse, model="json", input="hi", text_format=Answer).output_parsed, Answer(a=5))

    def test_errors(self):
        for given, fields, says in (
                ([], {}, "input: is empty"), ([{"type": "item_reference", "id": "x"}], {}, "input[0].type"), ([{"role": "tool", "content": "x"}], {}, "input[0].role"),
                ([{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,aGk="}]}], {}, "input[0].content[0].type"),
                ([{"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}], {}, "input[0].content[0].type"),
                ([{"type": "function_call", "name": "f"}], {}, "call_id: is required"), ("hi", {"previous_response_id": "resp_1"}, "answers are not stored"),
                ("hi", {"conversation": "x"}, "conversation"), ("hi", {"background": True}, "background"), ("hi", {"truncation": "auto"}, "truncation"),
                ("hi", {"top_logprobs": 3}, "top_logprobs"), ("hi", {"include": ["message.output_text.logprobs"]}, "include"),
                ("hi", {"max_output_tokens": 0}, "max_output_tokens"), ("hi", {"temperature": 5}, "temperature"),
                ("hi", {"model": "script", "tools": [{**LOOK_UP, "name": "a b"}]}, "tools[0].name"),
                ("hi", {"model": "script", "tools": [LOOK_UP], "tool_choice": {"type": "function", "name": "x"}}, "'x' is not one of the tools"),
                ("hi", {"text": {"format": {"type": "json_schema", "name": "x", "schema": {"not": {}}}}}, "#/not"), ("x" * 5000, {}, "more than the context")):
            for stream in (False, True):
                error = self.fails(openai.BadRequestError, says, self.api.responses.create, stream=stream, **self.fields(given, fields))
                self.assertIn(error.type, ("invalid_request_error", None))
        self.fails(openai.NotFoundError, "nothing", self.api.responses.create, **self.fields("hi", {"model": "nothing"}))
        self.fails(openai.InternalServerError, "the script fails", self.api.responses.create, **self.fields("broken", {}))
        events = list(self.count(self.api.responses.create, stream=True, **self.fields("broken", {})))
        self.assertEqual((events[-1].type, events[-1].response.status, events[-1].response.error.message), ("response.failed", "failed", "the script fails"))

    def test_async(self):
        async def run():
            async with openai.AsyncOpenAI(base_url=self.base + "/v1", api_key="none", max_retries=5, timeout=30) as client:
                whole = await asyncio.gather(*[client.responses.create(model="plain", input="hi") for _ in range(3)])
                stream = await client.responses.create(model="plain", input="hi", stream=True)
                return [answer.output_text for answer in whole], "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])
        self.calls[0] += 4
        self.assertEqual(asyncio.run(run()), ([TEXT] * 3, TEXT))

    def test_models(self):
        self.assertEqual([model.id for model in self.count(self.api.models.list)], list(MODELS))


class ZCount(unittest.TestCase):
    """Runs last: tests are sorted by name of their class."""

    def test_count(self):
        print(f"{Dialect.calls[0]} calls", file=sys.stderr)
        self.assertGreaterEqual(Dialect.calls[0], LEAST)


if __name__ == "__main__":
    unittest.main()

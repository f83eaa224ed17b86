#!/usr/bin/env python3
"""Anthropic's Messages by its own client, on scripted models: at least 60 calls.

Each case is asked for whole, as events, which are compared with the sequence that the dialect describes, and by the
client's own reader of streams. `./test clients` installs what requirements.txt lists and runs it.
"""
import asyncio
import json
import sys
import unittest

import anthropic
from dialect_support import LEAST, MODELS, Dialect, joined, named, user
from server_support import TEXT
from test_anthropic import CALLS, named_events
from test_tools import ANSWERS, EXPECTED

LOOK = {"name": "look", "description": "the weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
COUNT = {"name": "count", "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
SAID = [("text", TEXT)]
ALL_CALLS = [("text", "I look."), *[("tool_use", name, arguments) for name, arguments in EXPECTED]]
ONLY = [("tool_use", "count", '{"n": 3}')]
HISTORY = [*user("calls 0 "), {"role": "assistant", "content": [
    {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "I look."},
    {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"city": "Rome"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "sunny"}]}]}]
# Name, text or messages, fields, blocks, and why it ends.
MESSAGES = [
    ("plain", "hi", {}, SAID, "end_turn"),
    ("temperature", "hi", {"extra_body": {"temperature": 0.5}}, SAID, "end_turn"),
    ("top_p", "hi", {"extra_body": {"top_p": 0.5}}, SAID, "end_turn"),
    ("top_k", "hi", {"extra_body": {"top_k": 5}}, SAID, "end_turn"),
    ("system", "hi", {"system": "be brief"}, SAID, "end_turn"),
    ("system blocks", "hi", {"system": [{"type": "text", "text": "x-anthropic-billing-header: cch=1;"},
                                        {"type": "text", "text": "be", "cache_control": {"type": "ephemeral"}}]}, SAID, "end_turn"),
    ("metadata", "hi", {"metadata": {"user_id": "x"}, "service_tier": "auto"}, SAID, "end_turn"),
    ("a stop that does not come", "hi", {"stop_sequences": ["#"]}, SAID, "end_turn"),
    ("a stop", "hi", {"stop_sequences": ["#", " wor"]}, [("text", "Hello")], "stop_sequence"),
    ("length", "hi", {"max_tokens": 2}, [("text", "Hello")], "max_tokens"),
    ("the context", "hi", {"model": "context", "max_tokens": 4000}, None, None),
    ("blocks", [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}]}], {},
     SAID, "end_turn"),
    ("neighbors of one role", [*user("a"), *user("b")], {}, SAID, "end_turn"),
    ("a history", [*user("a"), {"role": "assistant", "content": "b"}, *user("c")], {}, SAID, "end_turn"),
    ("a prefill", [*user("x"), {"role": "assistant", "content": "So "}], {"model": "opens"}, [("text", "it is")], "end_turn"),
    ("thoughts", "ponder", {}, [("thinking", "hmm"), ("text", "yes")], "end_turn"),
    ("thoughts that the prompt opens", "x", {"model": "opens"}, [("thinking", "hmm"), ("text", "yes")], "end_turn"),
    ("thinking enabled", "ponder", {"thinking": {"type": "enabled", "budget_tokens": 2000}}, [("thinking", "hmm"), ("text", "yes")], "end_turn"),
    ("thinking disabled", "hi", {"thinking": {"type": "disabled"}}, SAID, "end_turn"),
    ("thinking adaptive", "hi", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, SAID, "end_turn"),
    ("a form", "hi", {"model": "json", "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}, [("text", '{"a": 5}')], "end_turn"),
    ("calls", "calls 0 ", {"model": "script", "tools": [LOOK, COUNT]}, ALL_CALLS, "tool_use"),
    ("calls in tokens", "calls 9 ", {"model": "script", "tools": [LOOK, COUNT]}, ALL_CALLS, "tool_use"),
    ("thoughts and calls", "thinks 5 ", {"model": "script", "tools": [LOOK, COUNT]}, [("thinking", "I may <tool_call> it"), *ALL_CALLS], "tool_use"),
    ("one call", "calls 3 ", {"model": "script", "tools": [LOOK, COUNT], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, ALL_CALLS[:2],
     "tool_use"),
    ("any", "only 2 ", {"model": "script", "tools": [LOOK, COUNT], "tool_choice": {"type": "any"}}, ONLY, "tool_use"),
    ("a named tool", "only 2 ", {"model": "script", "tools": [LOOK, COUNT], "tool_choice": {"type": "tool", "name": "count"}}, ONLY, "tool_use"),
    ("no tool", "only 2 ", {"model": "script", "tools": [LOOK, COUNT], "tool_choice": {"type": "none"}}, [("text", ANSWERS["only"])], "end_turn"),
    ("a tool of the vendor", "only 2 ", {"model": "script", "tools": [COUNT, {"type": "web_search_20250305", "name": "web_search"}]}, ONLY, "tool_use"),
    ("strict", "only 2 ", {"model": "script", "tools": [{**COUNT, "strict": True}]}, ONLY, "tool_use"),
    ("a broken call", "broken 4 ", {"model": "script", "tools": [LOOK]}, [("text", ANSWERS["broken"])], "end_turn"),
    ("a repaired call", "repaired 4 ", {"model": "script", "tools": [LOOK]}, [("tool_use", "look", '{"city": "a\\nb", "x": true}')], "tool_use"),
    ("results of tools", HISTORY, {"model": "script", "tools": [LOOK, COUNT]}, ALL_CALLS, "tool_use"),
    ("an error of a tool", [*HISTORY[:2], {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "no", "is_error": True},
                                                                       {"type": "text", "text": "go on"}]}],
     {"model": "script", "tools": [LOOK]}, [("text", "I look."), *ALL_CALLS[1:]], "tool_use"),
    ("characters", "bytes", {}, [("text", "€uro")], "end_turn"),
]


def message_events(model, blocks, reason, stop, usage):
    """The sequence of section "Messages" of the dialect: https://docs.anthropic.com/en/docs/build-with-claude/streaming"""
    start = {"id": "msg 0", "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": None, "stop_sequence": None,
             "usage": {**usage, "output_tokens": 0}}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    tools = 0
    for index, (kind, value, *arguments) in enumerate(blocks):
        block = {"type": kind, "id": f"toolu {tools}", "name": value, "input": {}} if arguments else {"type": kind, kind: ""}
        delta = {"type": "input_json_delta", "partial_json": arguments[0]} if arguments else {"type": f"{kind}_delta", kind: value}
        tools += len(arguments)
        yield {"type": "content_block_start", "index": index, "content_block": block | ({"signature": ""} if kind == "thinking" else {})}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        if kind == "thinking":
            yield {"type": "content_block_delta", "index": index, "delta": {"type": "signature_delta", "signature": "sig 0"}}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": stop}, "usage": usage}
    yield {"type": "message_stop"}


def message_delta(event):
    delta = event.get("delta", {})
    name = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}.get(delta.get("type"))
    return (delta, name) if name else None


def message_blocks(blocks):
    """The content of a whole message."""
    tools = iter(range(len(blocks)))
    for kind, value, *arguments in blocks:
        if arguments:
            yield {"type": kind, "id": f"toolu {next(tools)}", "name": value, "input": json.loads(arguments[0])}
        else:
            yield {"type": kind, kind: value} | ({"signature": "sig 0"} if kind == "thinking" else {})


class Messages(Dialect):
    def setUp(self):
        self.api = anthropic.Anthropic(base_url=self.base, api_key="none", max_retries=0, timeout=30)

    def fields(self, text, fields):
        return {"model": "plain", "max_tokens": 100, "messages": text if isinstance(text, list) else user(text), **fields}

    def test_cases(self):
        for name, text, fields, blocks, reason in MESSAGES:
            with self.subTest(name):
                if blocks is None:
                    self.fails(anthropic.BadRequestError, "prompt is too long", self.api.messages.create, **self.fields("x" * 99, fields))
                    continue
                self.compare(self.fields(text, fields), blocks, reason)

    def compare(self, fields, blocks, reason):
        whole = self.count(self.api.messages.create, **fields)
        self.assertEqual((whole.type, whole.role, whole.model, whole.stop_reason), ("message", "assistant", fields["model"], reason))
        self.assertEqual(named([block.to_dict() for block in whole.content], {}), list(message_blocks(blocks)))
        stop = fields["stop_sequences"][-1] if reason == "stop_sequence" else None
        self.assertEqual(whole.stop_sequence, stop)
        counted = {key: value for key, value in fields.items() if key in ("model", "messages", "system", "tools", "tool_choice", "thinking")}
        self.assertEqual(self.count(self.api.messages.count_tokens, **counted).input_tokens, whole.usage.input_tokens)
        with self.count(self.api.messages.with_streaming_response.create, stream=True, **fields) as answer:
            content = answer.read()
        usage = {name: getattr(whole.usage, name) for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")}
        self.assertEqual(joined(named(named_events(content), {}), message_delta), list(message_events(fields["model"], blocks, reason, stop, usage)))
        with self.count(self.api.messages.stream, **fields) as stream:
            spoken = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(spoken, "".join(block[1] for block in blocks if block[0] == "text"))
        self.assertEqual(named(final.to_dict()["content"], {}), list(message_blocks(blocks)))
        self.assertEqual((final.stop_reason, final.stop_sequence, final.usage.output_tokens), (reason, stop, whole.usage.output_tokens))

    def test_a_call_that_is_cut(self):
        fields = self.fields("half 0 ", {"model": "script", "tools": [LOOK]})
        self.assertEqual(self.count(self.api.messages.create, **fields).content[0].input, {"arguments": '{"city": "a'})
        events = [event for event in self.count(self.api.messages.create, stream=True, **fields)]
        self.assertEqual("".join(event.delta.partial_json for event in events if event.type == "content_block_delta"), '{"city": "a')

    def test_a_loop_of_tools(self):
        messages = user("calls 7 ")
        for _ in range(3):
            with self.count(self.api.messages.stream, model="script", max_tokens=1000, messages=messages, tools=[LOOK, COUNT]) as stream:
                message = stream.get_final_message()
            self.assertEqual([(block.name, block.input) for block in message.content if block.type == "tool_use"], CALLS)
            results = [{"type": "tool_result", "tool_use_id": block.id, "content": "sunny"} for block in message.content if block.type == "tool_use"]
            messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]

    def test_errors(self):
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
        document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
        for text, fields, says in (
                ("hi", {"max_tokens": 0}, "max_tokens"), ([], {}, "messages: is empty"), ([{"role": "tool", "content": "x"}], {}, "messages[0].role"),
                ([{"role": "user", "content": [picture]}], {}, "messages[0].content[0].type"), ([{"role": "user", "content": [document]}], {}, "content[0].type"),
                ("hi", {"extra_body": {"temperature": 5}}, "temperature"), ("hi", {"stop_sequences": [""]}, "stop_sequences"),
                ("hi", {"thinking": {"type": "enabled", "budget_tokens": 5}}, "budget_tokens"),
                ("hi", {"model": "script", "tools": [LOOK], "tool_choice": {"type": "tool", "name": "x"}}, "'x' is not one of the tools"),
                ("hi", {"model": "script", "tools": [{"name": "a b", "input_schema": {}}]}, "tools[0].name"), ("x" * 5000, {}, "prompt is too long"),
                ("hi", {"output_config": {"format": {"type": "json_schema", "schema": {"not": {}}}}}, "#/not"),
                ("hi", {"system": [{"type": "image"}]}, "system[0].type"), ("hi", {"extra_body": {"mcp_servers": [{}]}}, "mcp_servers")):
            for stream in (False, True):
                error = self.fails(anthropic.BadRequestError, says, self.api.messages.create, stream=stream, **self.fields(text, fields))
                self.assertEqual((error.body["type"], error.body["error"]["type"]), ("error", "invalid_request_error"))
                self.assertEqual(error.body["request_id"], error.response.headers["request-id"])
        self.fails(anthropic.NotFoundError, "nothing", self.api.messages.create, **self.fields("hi", {"model": "nothing"}))
        self.fails(anthropic.InternalServerError, "the script fails", self.api.messages.create, **self.fields("broken", {}))
        error = self.fails(anthropic.APIStatusError, "the script fails", lambda: list(self.api.messages.create(stream=True, **self.fields("broken", {}))))
        self.assertEqual(error.body["error"]["type"], "api_error")

    def test_models(self):
        self.assertEqual([model.id for model in self.count(self.api.models.list)], list(MODELS))
        self.assertEqual(self.count(self.api.models.retrieve, "plain").display_name, "plain")
        self.fails(anthropic.NotFoundError, "", self.api.models.retrieve, model_id="nothing")

    def test_async(self):
        async def run():
            async with anthropic.AsyncAnthropic(base_url=self.base, api_key="none", max_retries=5, timeout=30) as client:
                whole = await asyncio.gather(*[client.messages.create(**self.fields("hi", {})) for _ in range(3)])
                async with client.messages.stream(**self.fields("hi", {})) as stream:
                    return [message.content[0].text for message in whole], "".join([text async for text in stream.text_stream])
        self.calls[0] += 4
        self.assertEqual(asyncio.run(run()), ([TEXT] * 3, TEXT))


class ZCount(unittest.TestCase):
    """Runs last: tests are sorted by name of their class."""

    def test_count(self):
        print(f"{Dialect.calls[0]} calls", file=sys.stderr)
        self.assertGreaterEqual(Dialect.calls[0], LEAST)


if __name__ == "__main__":
    unittest.main()

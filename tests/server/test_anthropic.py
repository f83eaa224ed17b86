"""Anthropic's Messages, on scripted models."""
import importlib.util
import json
import unittest

import server_support
from server_support import TEXT, TestCase
from test_tools import ANSWERS, HERMES, SCRIPT

TOOLS = [{"name": "look", "description": "the weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}},
         {"name": "count", "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}]
CALLS = [("look", {"city": "Zürich \"x\"", "at": [1, 2]}), ("count", {})]
DELTAS = {"thinking": "thinking_delta", "text": "text_delta", "tool_use": "input_json_delta"}
PLAIN = {"answers": server_support.SCRIPT["answers"]}


def named_events(content):
    """The pairs of a stream: the name of each event, and its data, which repeats the name."""
    events = []
    for block in content.decode().split("\n\n")[:-1]:
        name, data = block.split("\n")
        assert name.startswith("event: ") and data.startswith("data: "), block
        event = json.loads(data[6:])
        assert event["type"] == name[7:], block
        events.append(event)
    return events


def joined(events):
    """The message that a stream builds up; checks the order of its events."""
    assert [event["type"] for event in events[:2]] == ["message_start", "ping"], events[:2]
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"], events[-2:]
    message, open_block = events[0]["message"], None
    assert message["content"] == [] and message["stop_reason"] is None and message["stop_sequence"] is None, message
    for event in events[2:-2]:
        kind = event["type"]
        if kind == "ping":
            continue
        assert event["index"] == len(message["content"]) - (kind != "content_block_start"), event
        if kind == "content_block_start":
            assert open_block is None, event
            open_block = event["content_block"]
            message["content"].append(open_block)
            pieces = ""
        elif kind == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "signature_delta":
                assert open_block["type"] == "thinking" and delta["signature"], event
                open_block["signature"] = delta["signature"]
                continue
            assert delta["type"] == DELTAS[open_block["type"]], event
            pieces += delta[{"tool_use": "partial_json"}.get(open_block["type"], open_block["type"])]
        else:
            assert kind == "content_block_stop", event
            if open_block["type"] == "tool_use":
                assert open_block["input"] == {}, open_block
                try:
                    open_block["input"] = json.loads(pieces)
                except json.JSONDecodeError:
                    open_block["input"] = {"arguments": pieces}
            else:
                open_block[open_block["type"]] += pieces
            open_block = None
    assert open_block is None
    message |= events[-2]["delta"]
    message["usage"] = events[-2]["usage"]
    return message


def shown(message):
    """Its blocks without ids, and its end."""
    blocks = []
    for block in message["content"]:
        if block["type"] == "tool_use":
            assert block["id"].startswith("toolu_") and len(block["id"]) >= 30, block
            blocks.append((block["name"], block["input"]))
        elif block["type"] == "thinking":
            assert block["signature"], block
            blocks.append(("thinking", block["thinking"]))
        else:
            blocks.append(block["text"])
    return blocks, message["stop_reason"], message["stop_sequence"], message["usage"]["output_tokens"]


class Messages(TestCase):
    config = {"models": {"script": SCRIPT, "plain": PLAIN,
                         "opens": {"model": {"template": HERMES.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")},
                                   "answers": [{"if": "</think>\n\nSo ", "tokens": ["it ", "is"]}, {"tokens": ["hm", "m</think>", "yes"]}]}}}

    def request(self, text="hi", **fields):
        return {"model": "plain", "max_tokens": 100, "messages": [{"role": "user", "content": text}], **fields}

    def whole(self, text="hi", **fields):
        status, answer = self.server.post("/v1/messages", self.request(text, **fields))
        self.assertEqual(status, 200, answer)
        self.assertEqual((answer["type"], answer["role"], answer["id"][:4]), ("message", "assistant", "msg_"))
        return answer

    def stream(self, text="hi", **fields):
        status, headers, content = self.server.ask("POST", "/v1/messages?beta=true", self.request(text, stream=True, **fields))
        self.assertEqual(status, 200, content)
        self.assertTrue(headers["Content-Type"].startswith("text/event-stream"))
        return joined(named_events(content))

    def prompt(self, **fields):
        return self.server.post("/v1/messages/count_tokens", {"model": "plain", **fields})

    def test_text(self):
        self.assertEqual(shown(self.whole()), ([TEXT], "end_turn", None, 5))
        self.assertEqual(shown(self.stream()), ([TEXT], "end_turn", None, 5))
        self.assertEqual(shown(self.whole(max_tokens=2)), (["Hello"], "max_tokens", None, 2))
        self.assertEqual(shown(self.stream(max_tokens=2)), (["Hello"], "max_tokens", None, 2))

    def test_stop_sequences(self):
        for ask in (self.whole, self.stream):
            self.assertEqual(shown(ask(stop_sequences=["#", " wor"]))[:3], (["Hello"], "stop_sequence", " wor"))

    def test_usage(self):
        answer = self.whole()["usage"]
        self.assertEqual(answer, {**answer, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 5})
        self.assertEqual(self.stream()["usage"], answer)
        self.assertEqual(self.prompt(messages=[{"role": "user", "content": "hi"}]), (200, {"input_tokens": answer["input_tokens"]}))

    def test_thoughts(self):
        expected = [("thinking", "hmm"), "yes"]
        self.assertEqual(shown(self.whole("ponder"))[0], expected)
        self.assertEqual(shown(self.stream("ponder"))[0], expected)
        self.assertEqual(shown(self.whole(model="opens"))[0], expected)
        for thinking in ({"type": "enabled", "budget_tokens": 2000}, {"type": "disabled"}, {"type": "adaptive"}):
            self.whole(thinking=thinking, output_config={"effort": "low"})

    def test_calls(self):
        self.assertEqual(shown(self.whole("calls 0 ", model="script", tools=TOOLS))[:3], (["I look.", *CALLS], "tool_use", None))
        self.assertEqual(shown(self.whole("thinks 0 ", model="script", tools=TOOLS))[0],
                         [("thinking", "I may <tool_call> it"), "I look.", *CALLS])

    def test_streams_equal_whole_answers(self):
        for name in ANSWERS:
            expected = shown(self.whole(f"{name} 0 ", model="script", tools=TOOLS))[:3]
            for seed in range(40):
                self.assertEqual(shown(self.stream(f"{name} {seed} ", model="script", tools=TOOLS))[:3], expected, (name, seed))

    def test_choices(self):
        for choice in ({"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "count"}, {"type": "auto", "disable_parallel_tool_use": True}):
            self.assertEqual(shown(self.whole("only 0 ", model="script", tools=TOOLS, tool_choice=choice))[1], "tool_use")
        self.assertEqual(shown(self.whole("only 0 ", model="script", tools=TOOLS, tool_choice={"type": "none"}))[0], [ANSWERS["only"]])
        served = [*TOOLS, {"type": "web_search_20250305", "name": "web_search"}]
        self.assertEqual(shown(self.whole("only 0 ", model="script", tools=served))[1], "tool_use")

    def test_prompts(self):
        """The same tokens as those that OpenAI's dialect makes of the same conversation."""
        def openai(messages, **fields):
            return self.server.post("/tokenize", {"model": "script", "messages": messages, **fields})[1]["count"]

        call = {"id": "toolu_1", "type": "function", "function": {"name": "look", "arguments": "{\"city\": \"Rome\"}"}}
        for messages, system, expected in (
                ([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}]}], None,
                 [{"role": "user", "content": "a\nb"}]),
                ([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}], "be",
                 [{"role": "system", "content": "be"}, {"role": "user", "content": "a\nb"}]),
                ([{"role": "user", "content": "a"}],
                 [{"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=5;"}, {"type": "text", "text": "be"}],
                 [{"role": "system", "content": "be"}, {"role": "user", "content": "a"}]),
                ([{"role": "user", "content": "a"},
                  {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "x"},
                                                    {"type": "text", "text": "I look."},
                                                    {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"city": "Rome"}}]},
                  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "sunny"}], "is_error": False},
                                               {"type": "text", "text": "go on"}]}], None,
                 [{"role": "user", "content": "a"}, {"role": "assistant", "content": "I look.", "tool_calls": [call]},
                  {"role": "tool", "content": "sunny", "tool_call_id": "toolu_1"}, {"role": "user", "content": "go on"}])):
            with self.subTest(messages=messages):
                self.assertEqual(self.prompt(model="script", messages=messages, system=system), (200, {"input_tokens": openai(expected)}))

    def test_prefill(self):
        messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "So "}]
        self.assertEqual(shown(self.whole(model="opens", messages=messages))[0], ["it is"])
        count = self.prompt(messages=messages)[1]["input_tokens"]
        self.assertEqual(count, self.prompt(messages=messages[:1])[1]["input_tokens"] + len("So "))

    def test_formats(self):
        schema = {"type": "json_schema", "schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
        for fields in ({"output_config": {"format": schema}}, {"output_format": schema}):
            self.assertEqual(shown(self.whole(**fields))[0], [TEXT])

    def test_errors(self):
        text = {"type": "text", "text": "x"}
        for fields, says in (({"max_tokens": None}, "max_tokens: is required"), ({"max_tokens": 0}, "max_tokens"), ({"messages": None}, "messages: is required"),
                             ({"messages": []}, "messages: is empty"), ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
                             ({"messages": [{"role": "user"}]}, "messages[0].content: is required"), ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
                             ({"messages": [{"role": "user", "content": [text, {"type": "image"}]}]}, "messages[0].content[1].type"),
                             ({"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "f"}]}]}, "messages[0].content[0].type"),
                             ({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": 5}]}]}, "content[0].input"),
                             ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "content[0].tool_use_id: is required"),
                             ({"messages": [{"role": "user", "content": [5]}]}, "messages[0].content[0]"),
                             ({"system": 5}, "system"), ({"system": [{"type": "image"}]}, "system[0].type"), ({"temperature": 5}, "temperature"),
                             ({"stop_sequences": [""]}, "stop_sequences"), ({"stop_sequences": 5}, "stop_sequences"), ({"thinking": {"type": "maybe"}}, "thinking.type"),
                             ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "thinking.budget_tokens"), ({"stream": "x"}, "stream"),
                             ({"tools": [{"name": "a b", "input_schema": {}}]}, "tools[0].name"), ({"tools": [{"name": "f"}]}, "tools[0].input_schema: is required"),
                             ({"model": "script", "tools": TOOLS, "tool_choice": {"type": "x"}}, "tool_choice.type"),
                             ({"model": "script", "tools": TOOLS, "tool_choice": {"type": "tool", "name": "x"}}, "'x' is not one of the tools"),
                             ({"model": "script", "tool_choice": {"type": "any"}}, "needs tools"), ({"mcp_servers": [{}]}, "mcp_servers"),
                             ({"output_config": {"format": {"type": "xml"}}}, "output_config.format"),
                             ({"output_config": {"format": {"type": "json_schema", "schema": {"not": {}}}}}, "not")):
            with self.subTest(fields=fields):
                status, answer = self.server.post("/v1/messages", self.request("x") | fields)
                self.refused_as(status, answer, 400, "invalid_request_error", says)

    def refused_as(self, status, answer, expected, kind, says=""):
        self.assertEqual((status, answer["type"], answer["error"]["type"]), (expected, "error", kind), answer)
        self.assertEqual(sorted(answer), ["error", "request_id", "type"])
        self.assertIn(says, answer["error"]["message"])
        self.assertTrue(answer["request_id"])

    def test_errors_of_other_kinds(self):
        self.refused_as(*self.server.post("/v1/messages", self.request(model="nothing")), 404, "not_found_error")
        self.refused_as(*self.server.post("/v1/messages", b"{"), 400, "invalid_request_error")
        self.refused_as(*self.server.get("/v1/messages"), 405, "invalid_request_error")
        self.refused_as(*self.server.post("/v1/messages", self.request("x" * 5000)), 400, "invalid_request_error", "prompt is too long: ")
        self.refused_as(*self.server.post("/v1/messages", self.request("broken")), 500, "api_error", "the script fails")
        status, _, content = self.server.ask("POST", "/v1/messages", self.request("broken", stream=True))
        last = named_events(content)[-1]
        self.assertEqual((status, last["type"], last["error"]), (200, "error", {"type": "api_error", "message": "the script fails"}))

    def test_a_full_queue(self):
        with server_support.Server(models={"plain": {"model": {"parallel": 1}, **PLAIN}}, queue=0) as server:
            with server.connect() as held:
                held.sendall(server_support.raw_request("POST", "/v1/messages", self.request("slow", stream=True)))
                server.wait_until(1)
                status, headers, content = server.ask("POST", "/v1/messages", self.request())
                self.refused_as(status, json.loads(content), 529, "overloaded_error")
                self.assertTrue(headers["retry-after-ms"])


class Models(TestCase):
    config = {"models": Messages.config["models"]}

    def test_lists(self):
        version = {"anthropic-version": "2023-06-01"}
        status, answer = self.server.get("/v1/models", **version)
        self.assertEqual((status, answer["has_more"], answer["first_id"], answer["last_id"]), (200, False, "script", "opens"), answer)
        row = {"type": "model", "id": "plain", "display_name": "plain", "created_at": "2023-11-14T22:13:20.000000Z"}
        self.assertEqual(answer["data"][1], row)
        self.assertEqual(self.server.get("/v1/models/plain", **version), (200, row))
        self.assertEqual(self.server.get("/v1/models/nothing", **version)[0], 404)
        self.assertEqual(self.server.get("/v1/models")[1]["object"], "list")


@unittest.skipUnless(importlib.util.find_spec("anthropic"), "the package anthropic is not installed")
class Client(TestCase):
    config = {"keys": "a-key-of-tests-1", "models": Messages.config["models"]}

    def setUp(self):
        import anthropic
        self.anthropic = anthropic
        self.client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{self.server.port}", api_key="a-key-of-tests-1", max_retries=0, timeout=30)

    def create(self, text="hi", **fields):
        return self.client.messages.create(**{"model": "plain", "max_tokens": 100, "messages": [{"role": "user", "content": text}], **fields})

    def test_messages(self):
        for fields in ({}, {"temperature": 0.5}, {"top_p": 0.5}, {"top_k": 5}, {"system": "be"}, {"system": [{"type": "text", "text": "be"}]},
                       {"metadata": {"user_id": "x"}}, {"stop_sequences": ["#"]}, {"thinking": {"type": "disabled"}}, {"service_tier": "auto"}):
            if fields.keys() & {"top_p", "top_k", "temperature"}:
                fields = {"extra_body": fields}
            message = self.create(**fields)
            self.assertEqual((message.content[0].text, message.stop_reason), (TEXT, "end_turn"), fields)
        count = self.client.messages.count_tokens(model="plain", messages=[{"role": "user", "content": "hi"}])
        self.assertEqual(count.input_tokens, message.usage.input_tokens)

    def test_streams(self):
        for text in ("hi", "ponder"):
            with self.client.messages.stream(model="plain", max_tokens=100, messages=[{"role": "user", "content": text}]) as stream:
                spoken = "".join(stream.text_stream)
                final = stream.get_final_message()
            self.assertEqual(final.content[-1].text, spoken)
            self.assertEqual(shown(final.to_dict()), shown(self.create(text).to_dict()))

    def test_a_loop_of_tools(self):
        messages = [{"role": "user", "content": "calls 7 "}]
        for turn in range(2):
            with self.client.messages.stream(model="script", max_tokens=1000, messages=messages, tools=TOOLS) as stream:
                message = stream.get_final_message()
            self.assertEqual(shown(message.to_dict())[:2], (["I look.", *CALLS], "tool_use"), turn)
            results = [{"type": "tool_result", "tool_use_id": block.id, "content": "sunny"} for block in message.content if block.type == "tool_use"]
            messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["script", "plain", "opens"])
        self.assertEqual(self.client.models.retrieve("plain").display_name, "plain")

    def test_errors(self):
        anthropic = self.anthropic
        for call, kind in ((lambda: self.create(max_tokens=0), anthropic.BadRequestError), (lambda: self.create(model="nothing"), anthropic.NotFoundError),
                           (lambda: self.create("broken"), anthropic.InternalServerError), (lambda: self.create("x" * 5000), anthropic.BadRequestError),
                           (lambda: list(self.create("broken", stream=True)), anthropic.APIStatusError)):
            with self.assertRaises(kind):
                call()
        with self.assertRaises(anthropic.AuthenticationError):
            self.client.with_options(api_key="wrong").messages.count_tokens(model="plain", messages=[{"role": "user", "content": "hi"}])


if __name__ == "__main__":
    server_support.main()

"""OpenAI's Responses, on scripted models."""
import base64
import importlib.util
import json
import unittest

import server_support
from server_support import TEXT, TestCase
from test_anthropic import named_events
from test_tools import ANSWERS, EXPECTED, HERMES, SCRIPT, cut_at_random
from test_tools import TOOLS as CHAT_TOOLS

TOOLS = [{"type": "function", **tool["function"]} for tool in CHAT_TOOLS]
PLAIN = {"answers": server_support.SCRIPT["answers"]}
PARTS = {"message": ("output_text", "msg_"), "reasoning": ("reasoning_text", "rs_")}


def joined(events):
    """The response that a stream ends with; checks the order and the members of its events."""
    assert [event["sequence_number"] for event in events] == list(range(len(events))), events
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"], events[:2]
    for event in events[:2]:
        assert event["response"]["status"] == "in_progress" and event["response"]["output"] == [], event
    items, steps = [], iter(events[2:-1])
    for event in steps:
        assert event["type"] == "response.output_item.added" and event["output_index"] == len(items), event
        item = event["item"]
        assert item["status"] == "in_progress", item
        place = {"item_id": item["id"], "output_index": len(items)}
        part = None
        if item["type"] == "function_call":
            assert item["id"].startswith("fc_") and item["call_id"].startswith("call_") and item["arguments"] == "", item
            kind, ends = "response.function_call_arguments", []
        else:
            part, prefix = PARTS[item["type"]]
            assert item["id"].startswith(prefix) and item["content"] == [], item
            event = next(steps)
            place["content_index"] = 0
            assert (event["type"], event["part"]["type"], event["part"]["text"]) == ("response.content_part.added", part, ""), event
            kind, ends = f"response.{part}", ["response.content_part.done"]
        text = ""
        for event in steps:
            assert {name: event[name] for name in place} == place, event
            if event["type"] == f"{kind}.done":
                break
            assert event["type"] == f"{kind}.delta" and event["delta"], event
            assert part != "output_text" or event["logprobs"] == [], event
            text += event["delta"]
        assert event[{None: "arguments"}.get(part, "text")] == text, event
        for end in ends:
            event = next(steps)
            assert event["type"] == end and event["part"]["text"] == text, event
        event = next(steps)
        assert event["type"] == "response.output_item.done" and event["output_index"] == len(items), event
        assert event["item"]["id"] == item["id"], event
        items.append(event["item"])
        assert (items[-1]["arguments"] if part is None else items[-1]["content"][0]["text"]) == text, event
    last = events[-1]["response"]
    assert events[-1]["type"] == f"response.{last['status']}", events[-1]
    assert last["output"] == items, last
    return last


def shown(response):
    """Its items without ids, and its end."""
    items = []
    for item in response["output"]:
        if item["type"] == "function_call":
            items.append((item["name"], item["arguments"]))
        elif item["type"] == "reasoning":
            items.append(("reasoning", item["content"][0]["text"]))
        else:
            assert item["role"] == "assistant" and item["content"][0]["annotations"] == [], item
            items.append(item["content"][0]["text"])
    return items, response["status"], response["usage"]["output_tokens"]


class Responses(TestCase):
    config = {"models": {"script": SCRIPT, "plain": PLAIN}}

    def request(self, text="hi", **fields):
        return {"model": "plain", "input": text, **fields}

    def whole(self, text="hi", **fields):
        status, answer = self.server.post("/v1/responses", self.request(text, **fields))
        self.assertEqual(status, 200, answer)
        return answer

    def stream(self, text="hi", **fields):
        status, _, content = self.server.ask("POST", "/v1/responses", self.request(text, stream=True, **fields))
        self.assertEqual(status, 200, content)
        return joined(named_events(content))

    def test_text(self):
        for ask in (self.whole, self.stream):
            answer = ask()
            self.assertEqual(shown(answer), ([TEXT], "completed", 5))
            usage = answer["usage"]
            self.assertEqual(usage["total_tokens"], usage["input_tokens"] + 5)
            self.assertEqual((usage["input_tokens_details"]["cached_tokens"], usage["output_tokens_details"]["reasoning_tokens"]), (0, 0))
            self.assertEqual((answer["object"], answer["store"], answer["error"], answer["incomplete_details"]), ("response", False, None, None))
            answer = ask(max_output_tokens=2, instructions="be", temperature=0.5, metadata={"a": "b"})
            self.assertEqual(shown(answer), (["Hello"], "incomplete", 2))
            self.assertEqual((answer["incomplete_details"], answer["instructions"], answer["temperature"], answer["metadata"], answer["max_output_tokens"]),
                             ({"reason": "max_output_tokens"}, "be", 0.5, {"a": "b"}, 2))

    def test_thoughts(self):
        for ask in (self.whole, self.stream):
            answer = ask("ponder", include=["reasoning.encrypted_content"], reasoning={"effort": "low", "summary": "auto"})
            self.assertEqual(shown(answer)[0], [("reasoning", "hmm"), "yes"])
            self.assertEqual(base64.b64decode(answer["output"][0]["encrypted_content"]), b"hmm")
            self.assertEqual(answer["usage"]["output_tokens_details"], {"reasoning_tokens": 3})
            self.assertNotIn("encrypted_content", ask("ponder")["output"][0])

    def test_calls(self):
        self.assertEqual(shown(self.whole("calls 0 ", model="script", tools=TOOLS))[:2], (["I look.", *EXPECTED], "completed"))
        for choice in ("auto", "required", {"type": "function", "name": "count"}, {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "count"}]}):
            self.assertEqual(shown(self.whole("only 0 ", model="script", tools=TOOLS, tool_choice=choice))[0], [("count", '{"n": 3}')])
        for fields in ({"tool_choice": "none"}, {"tools": [{"type": "web_search"}]}):
            self.assertEqual(shown(self.whole("only 0 ", model="script", **{"tools": TOOLS, **fields}))[0], [ANSWERS["only"]])

    def test_streams_equal_whole_answers(self):
        for name in ANSWERS:
            expected = shown(self.whole(f"{name} 0 ", model="script", tools=TOOLS))[:2]
            for seed in range(40):
                self.assertEqual(shown(self.stream(f"{name} {seed} ", model="script", tools=TOOLS))[:2], expected, (name, seed))

    def test_prompts(self):
        """The same tokens as those that chat makes of the same conversation."""
        call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"city\": \"Rome\"}"}}
        thought = {"type": "reasoning", "id": "rs_1", "summary": []}
        for given, instructions, expected in (
                ("a", "be", [{"role": "system", "content": "be"}, {"role": "user", "content": "a"}]),
                ([{"role": "user", "content": "a"}, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
                  {"role": "user", "content": [{"type": "input_text", "text": "c"}]}], None,
                 [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]),
                ([{"role": "developer", "content": "now"}, {"role": "user", "content": "a"}], "be",
                 [{"role": "system", "content": "be\n\nnow"}, {"role": "user", "content": "a"}]),
                ([{"role": "user", "content": "a"}, {**thought, "content": [{"type": "reasoning_text", "text": "hm"}]},
                  {"role": "assistant", "content": "I look."},
                  {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{\"city\": \"Rome\"}"},
                  {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
                  {**thought, "encrypted_content": "a*"}], None,
                 [{"role": "user", "content": "a"}, {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [call]},
                  {"role": "tool", "content": "sunny", "tool_call_id": "call_1"}]),
                ([{"role": "user", "content": "a"}, {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{broken"},
                  {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "no"}]}], None,
                 [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [
                     {**call, "function": {"name": "look", "arguments": "{broken"}}]}, {"role": "tool", "content": "no", "tool_call_id": "call_1"}])):
            with self.subTest(given=given):
                body = {"model": "script", "input": given, "instructions": instructions}
                status, answer = self.server.post("/v1/responses/input_tokens", body)
                self.assertEqual((status, answer["object"]), (200, "response.input_tokens"), answer)
                count = self.server.post("/tokenize", {"model": "script", "messages": expected})[1]["count"]
                self.assertEqual(answer["input_tokens"], count)

    def test_formats(self):
        schema = {"type": "json_schema", "name": "x", "strict": True, "schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}
        for form in ({"type": "text"}, {"type": "json_object"}, schema):
            status, answer = self.server.post("/v1/responses", self.request() | {"text": {"format": form, "verbosity": "low"}})
            self.assertEqual((status, shown(answer)[0]), (200, [TEXT]))

    def test_errors(self):
        for fields, says in (({"input": None}, "input: is required"), ({"input": []}, "input: is empty"), ({"input": 5}, "input: expected"), ({"input": [5]}, "input[0]"),
                             ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"), ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
                             ({"input": [{"role": "user"}]}, "input[0].content: is required"),
                             ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
                             ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id: is required"),
                             ({"input": [{"type": "function_call_output", "call_id": "x"}]}, "input[0].output: is required"),
                             ({"previous_response_id": "resp_1"}, "previous_response_id: answers are not stored"), ({"conversation": "x"}, "conversation: answers"),
                             ({"background": True}, "background"), ({"truncation": "auto"}, "truncation"), ({"top_logprobs": 3}, "top_logprobs"),
                             ({"include": ["message.output_text.logprobs"]}, "include"), ({"max_output_tokens": 0}, "max_output_tokens"), ({"n": 2}, "n: has to be 1"),
                             ({"instructions": 5}, "instructions"), ({"reasoning": 5}, "reasoning"), ({"tools": [{"name": "f"}]}, "tools[0].type: is required"),
                             ({"tools": [{"type": "function"}]}, "tools[0].name: is required"),
                             ({"text": {"format": {"type": "xml"}}}, "text.format"), ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
                             ({"text": {"format": {"type": "json_schema", "schema": {"not": {}}}}}, "not"), ({"input": "x" * 5000}, "more than the context")):
            with self.subTest(fields=fields):
                self.refused(self.server.post("/v1/responses", self.request() | fields), 400, says)
        self.refused(self.server.post("/v1/responses", self.request("broken")), 500, "the script fails")
        status, _, content = self.server.ask("POST", "/v1/responses", self.request("broken", stream=True))
        last = named_events(content)[-1]
        self.assertEqual((status, last["type"], last["response"]["status"]), (200, "response.failed", "failed"))
        self.assertEqual(last["response"]["error"], {"code": "server_error", "message": "the script fails"})

    @unittest.skipUnless(importlib.util.find_spec("openai"), "the package openai is not installed")
    def test_by_the_client_library(self):
        import openai
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", max_retries=0, timeout=30)
        for fields in ({}, {"instructions": "be"}, {"temperature": 0.5}, {"top_p": 0.5}, {"metadata": {"a": "b"}}, {"store": True}, {"reasoning": {"effort": "low"}},
                       {"user": "x"}, {"truncation": "disabled"}, {"text": {"format": {"type": "text"}}}, {"max_output_tokens": 50}):
            answer = client.responses.create(model="plain", input="hi", **fields)
            self.assertEqual((answer.output_text, answer.status), (TEXT, "completed"), fields)
        history = [{"role": "user", "content": "calls 7 "}]
        for turn in range(2):
            with client.responses.stream(model="script", input=history, tools=TOOLS) as stream:
                types = [event.type for event in stream]
                final = stream.get_final_response()
            self.assertEqual(types[-1], "response.completed")
            calls = [item for item in final.output if item.type == "function_call"]
            self.assertEqual([(call.name, json.loads(call.arguments)) for call in calls], [(name, json.loads(text)) for name, text in EXPECTED], turn)
            history += [item.to_dict() for item in final.output]
            history += [{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"} for call in calls]
        with self.assertRaises(openai.BadRequestError) as caught:
            client.responses.create(model="plain", input="hi", previous_response_id="resp_1")
        self.assertEqual(caught.exception.param, "previous_response_id")


PATCH = "*** Begin\n+\"x\"\n*** End"
CUSTOM = [{"type": "custom", "name": "patch", "description": "Edits", "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'}},
          {"type": "custom", "name": "say"}, {"type": "web_search"}]


class CustomTools(TestCase):
    """Tools whose input is a text: a function with one parameter for the model, and a text again for the client."""
    config = {"models": {"script": {"model": {"template": HERMES}, "answers": [
        {"if": "result of it", "tokens": ["done"]},
        {"if": "grammar (lark)", "tokens": cut_at_random('<tool_call>{"name": "patch", "arguments": ' + json.dumps({"input": PATCH}) + "}</tool_call>", 3)},
        {"tokens": ["the description is missing"]}]}}}

    def request(self, **fields):
        return {"model": "script", "input": [{"role": "user", "content": "go"}], "tools": CUSTOM, **fields}

    def test_calls(self):
        status, answer = self.server.post("/v1/responses", self.request())
        self.assertEqual(status, 200, answer)
        [item] = answer["output"]
        self.assertEqual({name: item[name] for name in ("type", "name", "input", "status")},
                         {"type": "custom_tool_call", "name": "patch", "input": PATCH, "status": "completed"})
        self.assertTrue(item["id"].startswith("ctc_") and item["call_id"].startswith("call_"), item)
        self.assertNotIn("arguments", item)
        history = [{"role": "user", "content": "go"}, item, {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "result of it"}]
        self.assertEqual(self.server.post("/v1/responses", self.request(input=history))[1]["output"][0]["content"][0]["text"], "done")

    def test_streams(self):
        status, _, content = self.server.ask("POST", "/v1/responses", self.request(stream=True))
        events = named_events(content)
        self.assertEqual([event["type"].removeprefix("response.") for event in events],
                         ["created", "in_progress", "output_item.added", "custom_tool_call_input.delta", "custom_tool_call_input.done", "output_item.done",
                          "completed"])
        self.assertEqual((events[2]["item"]["input"], events[3]["delta"], events[4]["input"], events[5]["item"]["input"]), ("", PATCH, PATCH, PATCH))
        self.assertEqual(events[-1]["response"]["output"], [events[5]["item"]])

    def test_choices(self):
        for choice in ("required", {"type": "custom", "name": "patch"}):
            self.assertEqual(self.server.post("/v1/responses", self.request(tool_choice=choice))[1]["output"][0]["type"], "custom_tool_call")
        self.refused(self.server.post("/v1/responses", self.request(tool_choice={"type": "custom", "name": "x"})), 400, "'x' is not one of the tools")
        self.refused(self.server.post("/v1/responses", self.request(tools=[{"type": "custom"}])), 400, "tools[0].name")

    @unittest.skipUnless(importlib.util.find_spec("openai"), "the package openai is not installed")
    def test_by_the_client_library(self):
        import openai
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", max_retries=0, timeout=30)
        with client.responses.stream(model="script", input="go", tools=CUSTOM) as stream:
            self.assertIn("response.custom_tool_call_input.done", [event.type for event in stream])
            self.assertEqual(stream.get_final_response().output[0].input, PATCH)


if __name__ == "__main__":
    server_support.main()

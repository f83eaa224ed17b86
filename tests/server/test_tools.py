"""Calls of tools in chat completions: whole, streamed, and cut anywhere."""
import json
import random

import server_support
from server_support import TestCase

# A template of the kind that Qwen's and Hermes' models have, and one of Llama 3's kind.
HERMES = (
    "{% if tools %}<|im_start|>system\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}answer in <tool_call><|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for call in m.tool_calls or [] %}"
    "<tool_call>{{ call.function.name }} {{ call.function.arguments | tojson }}</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
LLAMA = HERMES.replace("answer in <tool_call>", 'ipython {"name": f, "parameters": p}').replace("<tool_call>", "").replace("</tool_call>", "")


def tool(name, strict=None, **parameters):
    function = {"name": name, "description": f"the tool {name}"}
    if parameters:
        function["parameters"] = {"type": "object", "properties": parameters}
    if strict is not None:
        function["strict"] = strict
    return {"type": "function", "function": function}


TOOLS = [tool("look", city={"type": "string"}), tool("count", n={"type": "integer"})]
CALLS = ('I look.\n\n<tool_call>\n{"name": "look", "arguments": {"city": "Zürich \\"x\\"", "at": [1, 2]}}\n</tool_call>\n'
         '<tool_call>\n{"name": "count", "arguments": {}}\n</tool_call>')
EXPECTED = [("look", '{"city": "Zürich \\"x\\"", "at": [1, 2]}'), ("count", "{}")]


def cut_at_random(text, seed):
    chance = random.Random(seed)
    tokens = [""]
    for character in text:
        if chance.random() < 0.3:
            tokens.append("")
        tokens[-1] += character
    return [token for token in tokens if token]


def joined(events):
    """Text, thoughts, calls and the end of a stream's only choice; checks the form of its chunks."""
    text, thought, calls, reason = "", "", [], None
    for event in events:
        if event == "[DONE]":
            break
        [choice] = event["choices"]
        delta = choice["delta"]
        text += delta.get("content") or ""
        thought += delta.get("reasoning_content") or ""
        for piece in delta.get("tool_calls", []):
            if piece["index"] == len(calls):
                assert piece["type"] == "function" and piece["id"].startswith("call_") and piece["function"]["name"], piece
                calls.append([piece["function"]["name"], ""])
            else:
                assert "id" not in piece and "name" not in piece["function"] and piece["index"] == len(calls) - 1, piece
            calls[-1][1] += piece["function"]["arguments"]
        reason = choice["finish_reason"] or reason
    return text, thought, [tuple(call) for call in calls], reason


def whole(answer):
    [choice] = answer["choices"]
    message = choice["message"]
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", [])]
    for call in message.get("tool_calls", []):
        assert call["type"] == "function" and call["id"].startswith("call_"), call
    return message["content"] or "", message.get("reasoning_content", ""), calls, choice["finish_reason"]


ANSWERS = {
    "calls": CALLS,
    "only": '<tool_call>\n{"name": "count", "arguments": {"n": 3}}\n</tool_call>',
    "thinks": "<think>I may <tool_call> it</think>" + CALLS,
    "talks": "No <tool> is needed, <tool_call is text.",
    "broken": '<tool_call>{"name": look}</tool_call>',
    "repaired": '<tool_call>{"name": "look", "arguments": {"city": "a\nb", "x": True,}}',
    "half": '<tool_call>{"name": "look", "arguments": {"city": "a',
}
SCRIPT = {"model": {"template": HERMES}, "answers": [
    *({"if": f"{name} {seed} ", "tokens": [text] if seed == 0 else cut_at_random(text, seed)}
      for name, text in ANSWERS.items() for seed in range(40)),
    {"tokens": ["free"]}]}


class Tools(TestCase):
    config = {"models": {"script": SCRIPT,
                         "llama": {"model": {"template": LLAMA}, "answers": [
                             {"if": "json", "tokens": ['{"city": ', '"Rome"}']},
                             {"tokens": ['{"name": "look", ', '"parameters": {"city":', ' "Rome"}}']}]},
                         "plain": {"answers": [{"if": "result of look", "tokens": ["Sunny."]}, {"if": "You may call functions", "tokens": [
                             'I look. {"tool_calls": [{"name": "look", ', '"arguments": {"city": "Rome"}}', "]}"]}, {"tokens": ["x"]}]}}}

    def ask(self, text, **fields):
        status, answer = self.server.chat(text, **{"tools": TOOLS, **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def stream(self, text, **fields):
        body = {"model": "script", "messages": [{"role": "user", "content": text}], "tools": TOOLS, "stream": True, **fields}
        return joined(self.server.events("/v1/chat/completions", body))

    def test_calls(self):
        answer = self.ask("calls 0 ")
        self.assertEqual(whole(answer), ("I look.", "", EXPECTED, "tool_calls"))
        only = self.ask("only 0 ")
        self.assertEqual(whole(only), ("", "", [("count", '{"n": 3}')], "tool_calls"))
        self.assertIsNone(only["choices"][0]["message"]["content"])
        self.assertEqual(whole(self.ask("thinks 0 ")), ("I look.", "I may <tool_call> it", EXPECTED, "tool_calls"))
        identifiers = [call["id"] for call in answer["choices"][0]["message"]["tool_calls"]]
        self.assertEqual(len(set(identifiers)), 2)

    def test_answers_without_calls(self):
        self.assertEqual(whole(self.ask("talks 0 ")), (ANSWERS["talks"], "", [], "stop"))
        self.assertEqual(whole(self.ask("broken 0 ")), (ANSWERS["broken"], "", [], "stop"))
        self.assertEqual(whole(self.ask("repaired 0 ")), ("", "", [("look", '{"city": "a\\nb", "x": true}')], "tool_calls"))
        self.assertEqual(whole(self.ask("half 0 ")), ("", "", [("look", '{"city": "a')], "stop"))
        self.assertEqual(whole(self.ask("half 1 ", max_tokens=3))[3], "length")

    # Every text of an answer, whole and as a stream, with 40 random cuts into tokens.
    def test_streams_equal_whole_answers(self):
        for name in ANSWERS:
            expected = whole(self.ask(f"{name} 0 "))
            for seed in range(40):
                self.assertEqual(self.stream(f"{name} {seed} "), expected, (name, seed))

    def test_a_template_without_a_form_of_calls(self):
        """A system message describes the tools, and their results come from the user."""
        messages = [{"role": "user", "content": "go"}]
        expected = ("I look.", "", [("look", '{"city": "Rome"}')], "tool_calls")
        for fields in ({}, {"tool_choice": "required"}, {"parallel_tool_calls": False}):
            body = {"model": "plain", "messages": messages, "tools": TOOLS, **fields}
            answer = self.server.post("/v1/chat/completions", body)[1]
            self.assertEqual(whole(answer), expected)
            self.assertEqual(joined(self.server.events("/v1/chat/completions", {**body, "stream": True})), expected)
        messages += [answer["choices"][0]["message"], {"role": "tool", "tool_call_id": answer["choices"][0]["message"]["tool_calls"][0]["id"], "content": "sun"}]
        self.assertEqual(whole(self.server.post("/v1/chat/completions", {**body, "messages": messages})[1]), ("Sunny.", "", [], "stop"))
        self.assertEqual(whole(self.server.post("/v1/chat/completions", {**body, "messages": messages, "tool_choice": "none"})[1])[0], "Sunny.")

    def test_choices_interleave(self):
        answer = self.ask("calls 5 ", n=3)
        self.assertEqual(len(answer["choices"]), 3)
        for choice in answer["choices"]:
            self.assertEqual(whole({"choices": [choice]}), ("I look.", "", EXPECTED, "tool_calls"))

    def test_llama3(self):
        body = {"model": "llama", "messages": [{"role": "user", "content": "go"}], "tools": TOOLS}
        self.assertEqual(whole(self.server.post("/v1/chat/completions", body)[1]), ("", "", [("look", '{"city": "Rome"}')], "tool_calls"))
        self.assertEqual(joined(self.server.events("/v1/chat/completions", {**body, "stream": True})),
                         ("", "", [("look", '{"city": "Rome"}')], "tool_calls"))
        body["messages"][0]["content"] = "json"
        self.assertEqual(whole(self.server.post("/v1/chat/completions", body)[1]), ('{"city": "Rome"}', "", [], "stop"))

    def test_without_tools_calls_are_text(self):
        for fields in ({"tools": None}, {"tools": []}, {"tool_choice": "none"}, {"tools": [{"type": "web_search"}]}):
            with self.subTest(fields=fields):
                self.assertEqual(whole(self.ask("only 0 ", **fields)), (ANSWERS["only"], "", [], "stop"))

    def test_choices_that_are_taken(self):
        named = {"type": "function", "function": {"name": "count"}}
        allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}}
        for fields in ({"tool_choice": "auto"}, {"tool_choice": "required"}, {"tool_choice": named}, {"tool_choice": allowed},
                       {"parallel_tool_calls": False}, {"tools": [tool("f", strict=True, a={"type": "integer"})]},
                       {"tools": [*TOOLS, {"type": "web_search"}]}, {"tool_choice": None, "parallel_tool_calls": None}):
            with self.subTest(fields=fields):
                self.assertEqual(whole(self.ask("only 0 ", **fields))[3], "tool_calls")

    def test_fields_that_are_wrong(self):
        bad = tool("f", a={"not": {}})
        for fields, message in (({"tools": 5}, "expected an array"), ({"tools": [5]}, "tools[0]"), ({"tools": [{"type": "function"}]}, "tools[0].function"),
                                ({"tools": [tool("a b")]}, "tools[0].function.name"), ({"tools": [tool("x" * 65)]}, "tools[0].function.name"),
                                ({"tools": [tool("f", strict=5)]}, "tools[0].function.strict"),
                                ({"tool_choice": "maybe"}, "'maybe' is not"), ({"tool_choice": 5}, "tool_choice"),
                                ({"tool_choice": {"type": "function", "function": {"name": "x"}}}, "'x' is not one of the tools"),
                                ({"tool_choice": {"type": "allowed_tools"}}, "allowed_tools"),
                                ({"tools": [], "tool_choice": "required"}, "needs tools"),
                                ({"tools": [bad], "tool_choice": "required"}, "the tool 'f': JSON schema, #/properties/a/not"),
                                ({"parallel_tool_calls": "x"}, "parallel_tool_calls")):
            with self.subTest(fields=fields):
                body = {"model": "script", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS, **fields}
                status, answer = self.server.post("/v1/chat/completions", body)
                self.assertEqual(status, 400, answer)
                self.assertIn(message, answer["error"]["message"])

    # A call of an earlier turn whose arguments are broken does not end the conversation.
    def test_turns_after_calls(self):
        for arguments in ('{"city": "Rome"}', "{broken", "", "5", {"city": "Rome"}, None):
            messages = [{"role": "user", "content": "calls 0 "},
                        {"role": "assistant", "content": None, "tool_calls": [
                            {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": arguments}}]},
                        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}]
            status, answer = self.server.post("/v1/chat/completions", {"model": "script", "messages": messages, "tools": TOOLS})
            self.assertEqual(status, 200, (arguments, answer))
            status, prompt = self.server.post("/apply-template", {"model": "script", "messages": messages})
            self.assertEqual(status, 200, prompt)

    def test_a_form_of_the_answer_besides_calls(self):
        schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}}
        for fields in ({"response_format": {"type": "json_object"}}, {"response_format": schema}, {"guided_regex": "a+"}):
            self.assertEqual(whole(self.ask("only 0 ", **fields))[3], "tool_calls")
            self.assertEqual(whole(self.ask("only 0 ", tool_choice="required", **fields))[3], "tool_calls")
        bad = [tool("f", a={"not": {}})]
        self.refused(self.server.chat("x", tools=bad, response_format=schema), 400, "the tool 'f'")

    def test_the_old_form(self):
        """functions and function_call, which tools replaced."""
        functions = [tool["function"] for tool in TOOLS]
        fields = {"tools": None, "functions": functions}
        call = {"name": "count", "arguments": '{"n": 3}'}
        for choice in ({}, {"function_call": "auto"}, {"function_call": {"name": "count"}}):
            [answer] = self.ask("only 0 ", **fields, **choice)["choices"]
            self.assertEqual((answer["message"]["function_call"], answer["message"]["content"], answer["finish_reason"]), (call, None, "function_call"))
            self.assertNotIn("tool_calls", answer["message"])
        self.assertEqual(self.ask("only 0 ", **fields, function_call="none")["choices"][0]["message"]["content"], ANSWERS["only"])
        body = {"model": "script", "messages": [{"role": "user", "content": "calls 3 "}], **fields, "stream": True}
        choices = [event["choices"][0] for event in self.server.events("/v1/chat/completions", body) if event != "[DONE]"]
        pieces = [choice["delta"]["function_call"] for choice in choices if "function_call" in choice["delta"]]
        self.assertEqual((pieces[0], "".join(piece["arguments"] for piece in pieces)), ({"name": "look", "arguments": ""}, EXPECTED[0][1]))
        self.assertEqual(choices[-1]["finish_reason"], "function_call")
        messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "function_call": call},
                    {"role": "function", "name": "count", "content": "5"}]
        prompt = self.server.post("/apply-template", {"model": "script", "messages": messages})[1]["prompt"]
        self.assertIn('<tool_call>count {"n": 3}</tool_call>', prompt)
        for bad, says in (({"tools": TOOLS}, "does not go with"), ({"function_call": {"name": "x"}}, "'x' is not one"), ({"functions": [{}]}, "functions[0].name"),
                          ({"function_call": "maybe"}, "function_call")):
            self.refused(self.server.chat("x", **{**fields, **bad}), 400, says)

    def test_tokens_of_a_conversation(self):
        body = {"model": "script", "messages": [{"role": "user", "content": "only 0 "}]}
        for fields in ({}, {"tools": TOOLS}):
            count = self.server.post("/v1/chat/completions/input_tokens", {**body, **fields})
            used = self.server.post("/v1/chat/completions", {**body, **fields})[1]["usage"]["prompt_tokens"]
            self.assertEqual(count, (200, {"object": "response.input_tokens", "input_tokens": used}))

    def test_calls_by_the_client_library(self):
        try:
            import openai
        except ImportError:
            self.skipTest("openai is not installed")
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none")
        messages = [{"role": "user", "content": "calls 7 "}]
        message = client.chat.completions.create(model="script", messages=messages, tools=TOOLS).choices[0].message
        self.assertEqual([(c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls],
                         [(name, json.loads(arguments)) for name, arguments in EXPECTED])
        with client.chat.completions.stream(model="script", messages=messages, tools=TOOLS) as stream:
            final = stream.get_final_completion().choices[0]
        self.assertEqual([(c.function.name, c.function.arguments) for c in final.message.tool_calls], EXPECTED)


if __name__ == "__main__":
    server_support.main()

"""Calls and thoughts of each family of models in chat, on scripted models: whole and cut at random."""
import json

import server_support
from server_support import TestCase
from test_tools import TOOLS, cut_at_random, joined, whole

TEMPLATE = ("{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}{% for call in m.tool_calls or [] %}"
            "[{{ call.id }}]{{ call.function.arguments | tojson }}{% endfor %}{% if m.tool_call_id %}({{ m.tool_call_id }}){% endif %}\n{% endfor %}assistant: ")
# A family has text that its template contains, a text with the calls look(city="Rome", at=[1, 2]) and count(), and, if it thinks, its thoughts.
LIST = '[{"name": "look", "arguments": {"city": "Rome", "at": [1, 2]}}, {"name": "count", "arguments": {}}]'
FAMILIES = {
    "hermes": ("<tool_call>", '<tool_call>\n{"name": "look", "arguments": {"city": "Rome", "at": [1, 2]}}\n</tool_call>\n<tool_call>\n{"name": "count"}\n</tool_call>'),
    "mistral_list": ("[TOOL_CALLS]", "[TOOL_CALLS]" + LIST),
    "mistral": ("[TOOL_CALLS][ARGS][THINK]", '[TOOL_CALLS]look[ARGS]{"city": "Rome", "at": [1, 2]}[TOOL_CALLS]count[ARGS]{}', "[THINK]hm[/THINK]"),
    "command": ("<|START_ACTION|><|START_THINKING|>", '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "look", "parameters": {"city": "Rome", "at": [1, 2]}},'
                '{"tool_call_id": "1", "tool_name": "count", "parameters": {}}]<|END_ACTION|>', "<|START_THINKING|>hm<|END_THINKING|>"),
    "phi4": ("functools[", "functools" + LIST),
    "granite": ("<|tool_call|>", "<|tool_call|>" + LIST),
    "deepseek3": ("<｜tool▁call▁begin｜><think>", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n"
                  '{"city": "Rome", "at": [1, 2]}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>count\n```json\n{}\n```<｜tool▁call▁end｜>'
                  "<｜tool▁calls▁end｜>", "<think>hm</think>"),
    "deepseek31": ("<｜tool▁call▁begin｜>", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>{"city": "Rome", "at": [1, 2]}<｜tool▁call▁end｜>'
                   "<｜tool▁call▁begin｜>count<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
    "kimi": ("<|tool_call_begin|>", '<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{"city": "Rome", "at": [1, 2]}'
             "<|tool_call_end|><|tool_call_begin|>functions.count:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"),
    "llama3": ('"parameters": ipython', '{"name": "look", "parameters": {"city": "Rome", "at": [1, 2]}}; {"name": "count", "parameters": {}}'),
    "generic": ("nothing", '{"tool_calls": ' + LIST + "}"),
    "granite31": ("<tool_call> granite", "<tool_call>" + LIST + "</tool_call>"),
    "mistral_ids": ("[TOOL_CALLS][ARGS]", '[TOOL_CALLS]look[CALL_ID]abcdefgh1[ARGS]{"city": "Rome", "at": [1, 2]}[TOOL_CALLS]count[CALL_ID]abcdefgh2[ARGS]{}'),
    "deepseek32": ("｜DSML｜<think>", '<｜DSML｜function_calls>\n<｜DSML｜invoke name="look">\n<｜DSML｜parameter name="city" string="true">Rome</｜DSML｜parameter>\n'
                   '<｜DSML｜parameter name="at" string="false">[1, 2]</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name="count">\n</｜DSML｜invoke>\n'
                   "</｜DSML｜function_calls>", "<think>hm</think>"),
    "deepseek4": ("｜DSML｜", '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="look">\n<｜DSML｜parameter name="city" string="true">Rome</｜DSML｜parameter>\n'
                  '<｜DSML｜parameter name="at" string="false">[1, 2]</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name="count">\n</｜DSML｜invoke>\n'
                  "</｜DSML｜tool_calls>"),
    "olmo3": ("<function_calls>", "<function_calls>look(city='Rome', at=[1, 2])\ncount()\n</function_calls>"),
    "qwen_coder": ("<function=<parameter=", "<tool_call>\n<function=look>\n<parameter=city>\nRome\n</parameter>\n<parameter=at>\n[1, 2]\n</parameter>\n</function>\n"
                   "</tool_call>\n<tool_call>\n<function=count>\n</function>\n</tool_call>"),
    "glm": ("<arg_key><think>", "<tool_call>look\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n<arg_key>at</arg_key>\n<arg_value>[1, 2]</arg_value>\n</tool_call>\n"
            "<tool_call>count</tool_call>", "<think>hm</think>"),
    "minimax": ("<minimax:tool_call>", '<minimax:tool_call>\n<invoke name="look">\n<parameter name="city">Rome</parameter>\n<parameter name="at">[1, 2]</parameter>\n'
                '</invoke>\n<invoke name="count">\n</invoke>\n</minimax:tool_call>'),
    "pythonic": ("[func_name1(params_name1=params_value1", "[look(city='Rome', at=[1, 2]), count()]"),
    "llama4": ("<|python_start|>", "<|python_start|>[look(city='Rome', at=[1, 2]), count()]<|python_end|>"),
    "lfm2": ("<|tool_call_start|>", "<|tool_call_start|>[look(city='Rome', at=[1, 2]), count()]<|tool_call_end|>"),
    "gemma": ("<start_function_call>", "<start_function_call>call:look{city:<escape>Rome<escape>,at:[1, 2]}<end_function_call>"
              "<start_function_call>call:count{}<end_function_call>"),
    "gemma4": ("<|tool_call>call:<|channel>thought", '<|tool_call>call:look{city:<|"|>Rome<|"|>,at:[1, 2]}<tool_call|><|tool_call>call:count{}<tool_call|>',
               "<|channel>thought\nhm<channel|>"),
    "harmony": ("<|channel|><|message|>to=functions.", '<|start|>assistant<|channel|>commentary to=functions.look <|constrain|>json<|message|>{"city": "Rome", "at": [1, 2]}'
                "<|call|><|start|>assistant<|channel|>commentary to=functions.count<|message|>{}<|call|>", "<|channel|>analysis<|message|>hm<|end|>"),
}
SEEDS = 25


def script(sign, calls, thought=""):
    answers = [{"if": f"calls {seed} ", "tokens": [thought + calls] if seed == 0 else cut_at_random(thought + calls, seed)} for seed in range(SEEDS)]
    return {"model": {"template": TEMPLATE + "{# " + sign + " #}", "context": 8192}, "answers": [*answers, {"tokens": ["so"]}]}


class Families(TestCase):
    config = {"models": {name: script(*family) for name, family in FAMILIES.items()}}

    def body(self, model, text, **fields):
        return {"model": model, "messages": [{"role": "user", "content": text}], "tools": TOOLS, **fields}

    def ask(self, model, text, **fields):
        status, answer = self.server.post("/v1/chat/completions", self.body(model, text, **fields))
        self.assertEqual(status, 200, (model, answer))
        return whole(answer)

    def test_calls(self):
        for model, (_, _, *thought) in FAMILIES.items():
            text, thinking, calls, reason = self.ask(model, "calls 0 ")
            self.assertEqual((text, thinking, reason), ("", "hm" if thought else "", "tool_calls"), model)
            self.assertEqual([(name, json.loads(arguments)) for name, arguments in calls], [("look", {"city": "Rome", "at": [1, 2]}), ("count", {})], model)
            for seed in range(1, SEEDS):
                streamed = joined(self.server.events("/v1/chat/completions", self.body(model, f"calls {seed} ", stream=True)))
                self.assertEqual(streamed, (text, thinking, calls, reason), (model, seed))

    def test_one_call_at_a_time(self):
        for model in FAMILIES:
            self.assertEqual([name for name, _ in self.ask(model, "calls 3 ", parallel_tool_calls=False)[2]], ["look"], model)

    def test_other_answers_are_text(self):
        for model in FAMILIES:
            self.assertEqual(self.ask(model, "talk"), ("so", "", [], "stop"), model)

    def test_required_calls(self):
        for model in FAMILIES:
            for fields in ({"tool_choice": "required"}, {"tool_choice": {"type": "function", "function": {"name": "look"}}},
                           {"tools": [{**t, "function": {**t["function"], "strict": True}} for t in TOOLS]}):
                self.assertEqual(self.ask(model, "calls 0 ", **fields)[3], "tool_calls", (model, fields))

    def test_schemas_that_a_form_cannot_obey(self):
        """Alternatives of whole objects, where each parameter is in its own tags."""
        either = [{"type": "function", "function": {"name": "f", "parameters": {"anyOf": [
            {"type": "object", "properties": {"a": {}}, "required": ["a"]}, {"type": "object", "properties": {"b": {}}, "required": ["b"]}]}}}]
        for model in ("glm", "pythonic", "gemma"):
            self.refused(self.server.post("/v1/chat/completions", self.body(model, "x", tools=either, tool_choice="required")), 400, "the tool 'f'")
            self.assertEqual(self.ask(model, "x", tools=either)[0], "so")
            self.assertEqual(self.ask(model, "x", tools=either, parallel_tool_calls=False)[0], "so")
        self.assertEqual(self.ask("hermes", "calls 0 ", tools=either, tool_choice="required")[3], "tool_calls")

    def test_ids_of_mistral(self):
        """Its templates refuse other ids than nine letters and digits."""
        messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "", "tool_calls": [
            {"id": f"call_{i}", "type": "function", "function": {"name": "look", "arguments": "{}"}} for i in range(2)]},
            {"role": "tool", "tool_call_id": "call_1", "content": "sun"}, {"role": "tool", "tool_call_id": "abcdefgh9", "content": "rain"}]
        for model in ("mistral", "mistral_list"):
            prompt = self.server.post("/apply-template", {"model": model, "messages": messages})[1]["prompt"]
            self.assertRegex(prompt, r"\[[A-Za-z0-9]{9}\]\{\}\[([A-Za-z0-9]{9})\]\{\}tool: sun\(\1\)tool: rain\(abcdefgh9\)")
            self.assertIn("[call_0]{}", self.server.post("/apply-template", {"model": "hermes", "messages": messages})[1]["prompt"])


if __name__ == "__main__":
    server_support.main()

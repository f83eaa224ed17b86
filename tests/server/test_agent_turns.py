"""The second turn of an agent finds its first one cached, in each dialect: on a model file whose answer is known."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import scripted_model  # noqa: E402
import server_support  # noqa: E402
from support import TestCase  # noqa: E402
from test_program import Program  # noqa: E402

CALL = '<tool_call>\n{"name": "look", "arguments": {"city": "Rome"}}\n</tool_call>'
CHAT = """{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}
{%- for c in m['tool_calls'] or [] %}<tool_call>{{ c['function'] | tojson }}</tool_call>{% endfor %}
{% endfor %}{{ 'b' if messages[-1]['role'] == 'tool' else 'a' }}"""
LONG = " ".join(f"rule {i} of this agent is {i * i}." for i in range(450))  # a token is a character
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
LEAST = 0.95  # of the second prompt


class Turns(TestCase):
    def setUp(self):
        super().setUp()
        model = scripted_model.write(self.folder / "model.gguf", [CALL], context=20_000, chains=[("b", ["sunny"])], chat=CHAT,
                                     alphabet=bytes(range(32, 127)) + b"\n")
        self.program = Program(model, "--ctx", "20000")
        self.addCleanup(lambda: self.program.process.poll() is None and self.program.end(9))

    def post(self, path, body):
        status, answer = self.program.ask("POST", path, {"temperature": 0, **body})
        self.assertEqual(status, 200, answer)
        return answer

    def check(self, cached, prompt):
        self.assertGreater(prompt, 12_000)
        self.assertGreater(cached, LEAST * prompt)

    def test_chat(self):
        tools = [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}]
        messages = [{"role": "system", "content": LONG}, {"role": "user", "content": "go"}]
        first = self.post("/v1/chat/completions", {"messages": messages, "tools": tools})["choices"][0]["message"]
        messages += [first, {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "sun"}]
        second = self.post("/v1/chat/completions", {"messages": messages, "tools": tools})
        self.assertEqual(second["choices"][0]["message"]["content"], "sunny")
        self.check(second["usage"]["prompt_tokens_details"]["cached_tokens"], second["usage"]["prompt_tokens"])

    def test_responses(self):
        body = {"instructions": LONG, "tools": [{"type": "function", "name": "look", "parameters": PARAMETERS}]}
        items = [{"role": "user", "content": "go"}]
        items += (first := self.post("/v1/responses", {**body, "input": items})["output"])
        items.append({"type": "function_call_output", "call_id": first[0]["call_id"], "output": "sun"})
        second = self.post("/v1/responses", {**body, "input": items})
        self.assertEqual(second["output"][0]["content"][0]["text"], "sunny")
        self.check(second["usage"]["input_tokens_details"]["cached_tokens"], second["usage"]["input_tokens"])

    def test_messages(self):
        """With a billing header that changes."""
        def turn(number, messages):
            billing = {"type": "text", "text": f"x-anthropic-billing-header: cch={number};"}
            return self.post("/v1/messages", {"max_tokens": 50, "system": [billing, {"type": "text", "text": LONG}], "messages": messages,
                                              "tools": [{"name": "look", "input_schema": PARAMETERS}]})
        messages = [{"role": "user", "content": "go"}]
        first = turn(1, messages)["content"]
        messages += [{"role": "assistant", "content": first},
                     {"role": "user", "content": [{"type": "tool_result", "tool_use_id": first[0]["id"], "content": "sun"}]}]
        second = turn(2, messages)
        self.assertEqual(second["content"][0]["text"], "sunny")
        usage = second["usage"]
        self.check(usage["cache_read_input_tokens"], usage["cache_read_input_tokens"] + usage["input_tokens"])


if __name__ == "__main__":
    server_support.main()

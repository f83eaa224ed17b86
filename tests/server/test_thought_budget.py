"""Limits of thoughts, on a model file whose tokens are known: thoughts are closed when their tokens are spent."""
import http.client
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import scripted_model  # noqa: E402
import server_support  # noqa: E402
from support import TestCase  # noqa: E402
from test_program import Program  # noqa: E402

ASCII = bytes(range(32, 127)) + b"\n"
THOUGHTS = [f"thought {i}. " for i in range(20)]
# The last letter of the prompt chooses the answer; after the closing text, which ends with a line break, comes "done".
CHAT = """{%- for m in messages %}{{ m['content'] }}{% endfor %}{% if enable_thinking is defined and not enable_thinking %}q
{%- elif messages[0]['content'] == 'open' %}<think> {% elif messages[0]['content'] == 'talk' %}p{% else %}a{% endif %}"""
CHAINS = [("\n", ["done"]), ("p", ["just text"]), ("q", ["no thoughts"])]


class ThoughtBudget(TestCase):
    def start(self, chat=CHAT, *arguments):
        chains = [*CHAINS, (" ", ["so ", "it ", "goes ", "on ", "and on", "</think>\n!", "end"])]
        model = scripted_model.write(self.folder / "model.gguf", ["<think>", *THOUGHTS, "</think>", "answer"], context=4096, chains=chains, chat=chat,
                                     alphabet=ASCII)
        program = Program(model, *arguments)
        self.addCleanup(lambda: program.process.poll() is None and program.end(9))
        return program

    def chat(self, program, text="hello", path="/v1/chat/completions", **fields):
        status, answer = program.ask("POST", path, {"messages": [{"role": "user", "content": text}], "temperature": 0, **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def message(self, program, text="hello", **fields):
        message = self.chat(program, text, **fields)["choices"][0]["message"]
        return message.get("reasoning_content", ""), message["content"]

    def test_thoughts_are_closed(self):
        program = self.start()
        everything = "".join(THOUGHTS).strip()
        self.assertEqual(self.message(program), (everything, "answer"))
        for budget in (1, 2, 5, 19):
            for fields in ({"thinking_budget": budget}, {"thinking_budget_tokens": budget}, {"chat_template_kwargs": {"thinking_budget": budget}},
                           {"thinking_budget": budget, "temperature": 1, "top_k": 1}, {"thinking_budget": budget, "logprobs": True}):
                self.assertEqual(self.message(program, **fields), ("".join(THOUGHTS[:budget]).strip(), "done"), fields)
        for budget in (21, 100, -1):
            kwargs = {"chat_template_kwargs": {"thinking_budget": budget}}
            self.assertEqual(self.message(program, **kwargs), (everything, "answer"), budget)
        self.assertEqual(self.message(program, thinking_budget=0), ("", "done"))
        self.assertEqual(self.message(program, "talk", thinking_budget=0), ("", "just text"))

    def test_thoughts_that_the_prompt_opens(self):
        program = self.start()
        self.assertEqual(self.message(program, "open"), ("so it goes on and on", "!end"))
        self.assertEqual(self.message(program, "open", thinking_budget=3), ("so it goes", "done"))
        self.assertEqual(self.message(program, "open", thinking_budget=0), ("", "done"))

    def test_streams_and_dialects(self):
        program = self.start()
        body = {"messages": [{"role": "user", "content": "hello"}], "temperature": 0, "stream": True, "thinking_budget": 4}
        connection = http.client.HTTPConnection("127.0.0.1", program.port, timeout=60)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        events = server_support.events_of(connection.getresponse().read())
        connection.close()
        deltas = [event["choices"][0]["delta"] for event in events if event != "[DONE]" and event["choices"]]
        self.assertEqual("".join(d.get("reasoning_content") or "" for d in deltas), "".join(THOUGHTS[:4]).strip())
        self.assertEqual("".join(d.get("content") or "" for d in deltas), "done")
        answer = program.ask("POST", "/v1/responses", {"input": "hello", "temperature": 0, "thinking_budget": 2})[1]
        self.assertEqual([item["content"][0]["text"] for item in answer["output"]], ["thought 0. thought 1.", "done"])
        answer = self.chat(program, path="/v1/messages", max_tokens=100, thinking={"type": "enabled", "budget_tokens": 1024})
        self.assertEqual(answer["content"][-1]["text"], "answer")

    def test_calls_after_closed_thoughts(self):
        """gpt-oss may call a tool when its thoughts are closed; thoughts that it begins again are closed at once."""
        chat = ("{#<|channel|><|message|> to=functions. #}{% for m in messages %}{{ m['content'] }}{% endfor %}"
                "{{ 'a' if messages[0]['content'] == 'think' else 'b' }}")
        tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
        call = ["<|channel|>commentary ", "to=functions.f <|constrain|>json<|message|>", '{"x": 1}', "<|call|>"]
        for again, said, calls in ((call, "", [("f", '{"x": 1}')]), (["<|channel|>", "analysis<|message|>", "more"], "done", [])):
            texts = ["<|channel|>analysis<|message|>", *THOUGHTS, "<|end|><|start|>", "assistant<|channel|>final<|message|>", "answer"]
            chains = [("b", ["<|channel|>final", "<|message|>hi"]), ("t", again), (">", ["done"])]
            model = scripted_model.write(self.folder / "model.gguf", texts, context=4096, chains=chains, chat=chat, alphabet=ASCII)
            program = Program(model)
            self.addCleanup(lambda program=program: program.process.poll() is None and program.end(9))
            self.assertEqual(self.message(program, "think", tools=tools), ("".join(THOUGHTS), "answer"))
            self.assertEqual(self.message(program, "talk", tools=tools, thinking_budget=3), ("", "hi"))
            self.assertEqual(self.message(program, "think", thinking_budget=3), ("".join(THOUGHTS[:3]), "done"))
            message = self.chat(program, "think", tools=tools, thinking_budget=3)["choices"][0]["message"]
            found = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", [])]
            self.assertEqual((message["reasoning_content"], message["content"] or "", found), ("".join(THOUGHTS[:3]), said, calls))
            program.end()

    def test_together_with_a_form(self):
        program = self.start()
        form = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["done"]}}}}
        answer = self.chat(program, "open", thinking_budget=2, **form)
        self.assertEqual(answer["choices"][0]["message"]["reasoning_content"], "so it")
        self.assertEqual(json.loads(answer["choices"][0]["message"]["content"]), "done")

    def test_efforts(self):
        """A limit where the template does not read the effort; 2048 tokens for "low"."""
        program = self.start()
        for effort in ("minimal", "low", "medium", "high"):
            self.assertEqual(self.message(program, reasoning_effort=effort)[1], "answer", effort)

    def test_bad_fields(self):
        program = self.start()
        for fields, says in (({"thinking_budget": -1}, "thinking_budget"), ({"thinking_budget": "x"}, "thinking_budget"),
                             ({"chat_template_kwargs": {"thinking_budget": "x"}}, "thinking_budget"), ({"thinking_budget_tokens": 1 << 40}, "thinking_budget_tokens")):
            status, answer = program.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], **fields})
            self.assertEqual(status, 400, answer)
            self.assertIn(says, answer["error"]["message"])


if __name__ == "__main__":
    server_support.main()

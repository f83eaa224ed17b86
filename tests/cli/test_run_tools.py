"""run --tools: calls that a scripted model makes are run, refused or printed."""
import json
import os
import re
import sys
import time

import scripted_model
import support
from pseudo_terminal import Terminal
from support import TestCase, gabbro

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
THOUGHT = 'I may <tool_call>\n{"name": "print", "arguments": {}}\n</tool_call> it.'
OTHER = '<tool_call>\n{"name": "print", "arguments": {"text": "hi"}}\n</tool_call>'
# The last letter of the prompt chooses what the model says: by the last message.
CHAT = """{%- if tools %}<tool_call>{{ tools | tojson }}{% endif %}
{%- for m in messages %}{{ m['role'] + m['content'] }}{% for c in m['tool_calls'] or [] %}{{ c | tojson }}{% endfor %}{% endfor %}
{%- set last = messages[-1] %}
{%- if last['role'] != 'tool' %}{{ 'd' if 'both' in last['content'] else 'g' if 'think' in last['content'] else 'f' if 'broken' in last['content'] else 'a' }}
{%- elif last['content'] == 'sunny in Rome' %}b
{%- elif 'again' in last['content'] %}a
{%- else %}{{ 'ce'['left out' in last['content']] }}{% endif %}"""
ASCII = bytes(range(32, 127)) + b"\n"


class Tools(TestCase):
    def setUp(self):
        super().setUp()
        chains = [("b", ["It is sunny."]), ("c", ["That failed."]), ("d", ["Two. ", CALL + "\n", OTHER]), ("e", ["That was long."]),
                  ("f", ['<tool_call>\n{"name": "weather", "arguments": {"city": "Ro']), ("g", ["<think>\n", THOUGHT, "\n</think>\n\n", "No call."])]
        self.model = scripted_model.write(self.folder / "model.gguf", [CALL], context=4096, chains=chains, chat=CHAT, alphabet=ASCII)

    def tools(self, *command, **members):
        tool = {"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}}}}, **members}
        if command:
            tool["command"] = list(command)
        plain = {"name": "print", "parameters": {"type": "object"}}
        return self.file("tools.json", json.dumps([tool, plain]))

    def python(self, program):
        return self.tools(sys.executable, "-c", program)

    def run_with(self, tools, *arguments, prompt="hello", **options):
        return gabbro("run", self.model, prompt, "--tools", tools, *arguments, **options)

    SUNNY = "import json, sys; print('sunny in ' + json.load(sys.stdin)['city'])"

    def test_results_go_into_the_next_turn(self):
        result = self.run_with(self.python(self.SUNNY), "--yes")
        self.assertEqual((result.code, result.text), (0, "It is sunny.\n"), result)
        self.assertIn('{"city": "Rome"}', result.err.decode())
        document = json.loads(self.run_with(self.python(self.SUNNY), "--yes", "--json").out)
        self.assertEqual((document["text"], document["calls"]), ("It is sunny.", []))

    def test_calls_without_a_command_are_printed(self):
        result = self.run_with(self.tools())
        self.assertEqual((result.code, result.text, result.err), (0, '{"name":"weather","arguments":{"city":"Rome"}}\n', b""))
        both = self.run_with(self.python("open('ran', 'w')"), "--yes", prompt="both", cwd=self.folder)
        lines = both.text.splitlines()
        self.assertEqual((both.code, lines[0], [json.loads(line)["name"] for line in lines[1:]]), (0, "Two.", ["weather", "print"]), both)
        self.assertFalse((self.folder / "ran").exists())
        document = json.loads(self.run_with(self.tools(), "--json").out)
        self.assertEqual((document["text"], document["calls"]), ("", [{"name": "weather", "arguments": {"city": "Rome"}}]))

    def test_a_call_that_the_end_cuts_is_left_out(self):
        result = self.run_with(self.python(self.SUNNY), "--yes", prompt="broken")
        self.assertEqual((result.code, result.text.strip()), (0, ""), result)

    def test_a_call_within_thoughts_is_no_call(self):
        result = self.run_with(self.tools(), prompt="think")
        self.assertEqual((result.code, result.text), (0, f"<think>\n{THOUGHT}\n</think>\n\nNo call.\n"), result)
        document = json.loads(self.run_with(self.tools(), "--json", prompt="think").out)
        self.assertEqual((document["text"], document["calls"]), ("No call.", []))
        # The prompt opens the thoughts.
        opened = scripted_model.write(self.folder / "open.gguf", [THOUGHT + "</think>", CALL + " "], context=4096, alphabet=ASCII,
                                      chains=[(" ", [THOUGHT + " </think>", "\n" + CALL])],
                                      chat="{%- if tools %}<tool_call>{{ tools | tojson }}{% endif %}{{ messages[0]['content'] }}<think> ")
        result = gabbro("run", opened, "hello", "--tools", self.tools())
        self.assertEqual((result.code, result.text), (0, f'<think>\n{THOUGHT}\n</think>\n\n{{"name":"weather","arguments":{{"city":"Rome"}}}}\n'), result)

    def test_calls_of_gpt_oss(self):
        chat = "{#<|channel|><|message|> to=functions. #}{% for m in messages %}{{ m['content'] }}{% endfor %}a"
        said = ["<|channel|>analysis<|message|>", "Look.<|end|>", "<|start|>assistant to=functions.weather", "<|channel|>commentary json<|message|>",
                '{"city": "Rome"}', "<|call|>"]
        model = scripted_model.write(self.folder / "oss.gguf", said, context=4096, chat=chat, alphabet=ASCII)
        result = gabbro("run", model, "hello", "--tools", self.tools())
        self.assertEqual((result.code, result.text), (0, '[analysis] Look.\n\n{"name":"weather","arguments":{"city":"Rome"}}\n'), result)

    def test_a_template_without_a_form_of_calls(self):
        said = '{"tool_calls": [{"name": "weather", "arguments": {"city": "Rome"}}]}'
        model = scripted_model.write(self.folder / "plain.gguf", [said], context=4096, alphabet=ASCII, chains=[("b", ["It is sunny."])],
                                     chat="{% for m in messages %}{{ m['content'] }}{% endfor %}{{ 'b' if 'sunny' in messages[-1]['content'] else 'a' }}")
        result = gabbro("run", model, "hello", "--tools", self.tools())
        self.assertEqual((result.code, result.text, result.err), (0, '{"name":"weather","arguments":{"city":"Rome"}}\n', b""))
        result = gabbro("run", model, "hello", "--tools", self.python(self.SUNNY), "--yes")
        self.assertEqual((result.code, result.text), (0, "It is sunny.\n"), result)

    def test_refused_without_a_terminal(self):
        self.fails(2, "run", self.model, "hello", "--tools", self.python(self.SUNNY), says=["no terminal", "--yes"])

    def test_tools_that_fail(self):
        for command, says in ((("sh", "-c", "echo oh; exit 3"), "exit code 3"), (("/no/such/program",), "No such file"),
                              (("no-such-program-anywhere",), "No such file"), (("sh", "-c", "kill -9 $$"), "signal 9")):
            result = self.run_with(self.tools(*command), "--yes")
            self.assertEqual((result.code, result.text), (0, "That failed.\n"), result)
            self.assertIn(f"gabbro: warning: the tool weather: ", result.err.decode())
            self.assertIn(says, result.err.decode())

    def test_a_tool_that_writes_a_lot(self):
        result = gabbro("run", self.model, "hello", "--tools", self.python("print('x' * 3_000_000)"), "--yes")
        self.assertEqual(result.code, 2, result)  # 64 KiB are more than this context
        self.assertIn("more than the context", result.err.decode())
        big = scripted_model.write(self.folder / "big.gguf", [CALL], context=100_000, chains=[("e", ["That was long."])], chat=CHAT,
                                   alphabet=ASCII)
        result = gabbro("run", big, "hello", "--tools", self.python("print('x' * 3_000_000)"), "--yes", "--ctx", "100000")
        self.assertEqual((result.code, result.text), (0, "That was long.\n"), result)

    def test_a_tool_that_hangs(self):
        start = time.monotonic()
        result = self.run_with(self.tools("sh", "-c", "sleep 1000 & sleep 1000"), "--yes")
        self.assertEqual((result.code, result.text), (0, "That failed.\n"), result)
        self.assertIn("30 s", result.err.decode())
        self.assertTrue(30 <= time.monotonic() - start < 60)

    def test_calls_without_end(self):
        result = self.run_with(self.tools("echo", "again"), "--yes", "--ctx", "100000")
        self.assertEqual(result.code, 0, result)
        self.assertIn("50 answers in a row", result.err.decode())

    def start(self, *arguments, tools=None):
        terminal = Terminal("run", self.model, *arguments, "--tools", str(tools or self.python(self.SUNNY)),
                            environment={"GABBRO_HOME": str(self.folder)})
        self.addCleanup(terminal.close)
        return terminal

    def test_asks_on_a_terminal(self):
        for answer, says in (("y", rb"It is sunny\."), ("n", rb"That failed\."), ("", rb"That failed\.")):
            terminal = self.start("hello")
            shown = terminal.wait_for(rb"run it\? \[y/N\] ")
            self.assertIn(b'{"city": "Rome"}', shown)
            self.assertIn(os.fsencode(sys.executable), shown)
            terminal.type(answer + "\n")
            terminal.wait_for(says)
            self.assertEqual(terminal.leave(), 0)

    def test_the_end_of_input_runs_nothing(self):
        for key in ("\x04", "\x03"):
            terminal = self.start("hello", tools=self.python(f"open({str(self.folder / 'ran')!r}, 'w')"))
            terminal.wait_for(rb"run it\? \[y/N\] ")
            terminal.type(key)
            terminal.wait_for(rb'"name":"weather"')
            self.assertEqual(terminal.leave(), 0)
            self.assertFalse((self.folder / "ran").exists())

    def test_in_a_chat(self):
        path = self.folder / "chat.json"
        terminal = self.start()
        terminal.wait_for(rb"> ")
        terminal.type("hello\n")
        terminal.wait_for(rb"run it\? \[y/N\] ")
        terminal.type("y\n")
        terminal.wait_for(rb"It is sunny\.")
        terminal.wait_for(rb"> ")
        terminal.type(f"/save {path}\n")
        terminal.wait_for(rb"saved to .*\n")
        messages = json.loads(path.read_text())
        self.assertEqual([m["role"] for m in messages], ["user", "assistant", "tool", "assistant"])
        call = messages[1]["tool_calls"][0]
        self.assertEqual(call["function"], {"name": "weather", "arguments": {"city": "Rome"}})
        self.assertTrue(re.fullmatch("[A-Za-z0-9]{9}", call["id"]))
        self.assertEqual((messages[2]["tool_call_id"], messages[2]["name"], messages[2]["content"]), (call["id"], "weather", "sunny in Rome"))
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_bad_files(self):
        good = {"name": "f"}
        for content, says in (("", "tools.json"), ("{", "tools.json"), ("5", "list of tools"), ("[]", "empty"), ("[5]", "tool 1"), ("[{}]", "name"),
                              (json.dumps([good, good]), "another tool"), (json.dumps([{"name": 5}]), "name"), (json.dumps([{"name": "a b"}]), "name"),
                              (json.dumps([{"type": "custom", "name": "f"}]), "type"), (json.dumps([{"type": "function", "function": 5}]), "function"),
                              (json.dumps([{"name": "f", "parameters": 5}]), "parameters"), (json.dumps([{"name": "f", "command": "ls -l"}]), "command"),
                              (json.dumps([{"name": "f", "command": []}]), "command"), (json.dumps([{"name": "f", "command": ["a", 5]}]), "command"),
                              (json.dumps([{"name": "f", "command": [""]}]), "command"), (json.dumps([{"name": "f", "command": ["a\0b"]}]), "command")):
            self.fails(2, "run", self.model, "hello", "--tools", self.file("tools.json", content), "--yes", says=says)
        self.fails(2, "run", self.model, "hello", "--tools", self.folder / "nothing.json", says="nothing.json")
        tools = self.tools()
        self.fails(2, "run", self.model, "hello", "--tools", tools, "--schema", "{}", says="--schema")
        self.fails(2, "run", self.model, "hello", "--tools", tools, "--raw", says="--raw")
        self.fails(2, "run", self.model, "--prompts", self.file("p.txt", "hello\n"), "--tools", tools, says="--prompts")
        self.fails(2, "run", self.model, "hello", "--yes", says="--tools")


if __name__ == "__main__":
    support.main()

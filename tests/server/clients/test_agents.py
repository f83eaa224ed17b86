#!/usr/bin/env python3
"""Agents of PyPI on a scripted model: each lists a folder, reads a file of it by calls of tools, and gives the answer.

`./test agents` installs what agents_requirements.txt, llama_index_requirements.txt and aider_requirements.txt list, and runs
this file in each environment. An agent whose package is not installed is skipped; at least one has to run.
"""
import asyncio
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (1, 2)] + [str(pathlib.Path(__file__).resolve().parents[2] / "cli")]
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", OPENAI_AGENTS_DISABLE_TRACING="1", LANGSMITH_TRACING="false", DO_NOT_TRACK="1")
for proxy in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
    os.environ.pop(proxy, None)
from server_support import Server  # noqa: E402
from test_tools import HERMES  # noqa: E402

NOTE = "the number in this note is 4711"
TASK = "Which number is in the note of this folder?"
finished = []


def call(name, **arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


def needs(package):
    return unittest.skipUnless(importlib.util.find_spec(package), f"{package} is not installed")


class Agent(unittest.TestCase):
    """A folder with a note, and a model that lists the folder, reads the note and answers."""
    answer = "It is 4711."
    listing, reading = call("list_files"), call("read_file", path="note.txt")
    context = 200_000
    kind = ""  # of the run

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "note.txt").write_text(NOTE)
        answers = [{"if": NOTE, "tokens": [self.answer]}, {"if": "files: note.txt", "tokens": [self.reading]}, {"tokens": [self.listing]}]
        self.start(answers)
        self.calls = []

    def start(self, answers, template=HERMES):
        self.server = Server(models={"script": {"model": {"template": template, "context": self.context}, "answers": answers}})
        self.addCleanup(self.server.stop)
        self.base = f"http://127.0.0.1:{self.server.port}"

    def list_files(self):
        self.calls.append("list_files")
        return "files: " + ", ".join(sorted(path.name for path in self.folder.iterdir()))

    def read_file(self, path):
        self.calls.append(f"read_file {path}")
        return (self.folder / path).read_text()

    def done(self, text, name):
        self.assertEqual(self.calls, ["list_files", "read_file note.txt"])
        self.assertIn("4711", str(text))
        finished.append(name + self.kind)


@needs("agents")
class OpenAiAgents(Agent):
    def run_agent(self, make_model, **fields):
        import agents
        from openai import AsyncOpenAI

        @agents.function_tool
        def list_files() -> str:
            """Lists the files of the folder."""
            return self.list_files()

        @agents.function_tool
        def read_file(path: str) -> str:
            """Reads a file of the folder."""
            return self.read_file(path)

        async def run():
            async with AsyncOpenAI(base_url=self.base + "/v1", api_key="none", max_retries=0) as client:
                agent = agents.Agent(name="reader", instructions="Use the tools.", tools=[list_files, read_file],
                                     model=make_model(model="script", openai_client=client), **fields)
                return (await agents.Runner.run(agent, TASK)).final_output
        return asyncio.run(run())

    def test_responses(self):
        import agents
        self.done(self.run_agent(agents.OpenAIResponsesModel), "openai-agents, Responses")

    def test_chat(self):
        import agents
        self.done(self.run_agent(agents.OpenAIChatCompletionsModel), "openai-agents, chat")


@needs("agents")
class OpenAiAgentsWithAForm(OpenAiAgents):
    """An answer with a schema next to tools."""
    answer = '{"number": 4711}'
    kind = " with a form"

    def run_agent(self, make_model, **fields):
        import pydantic

        class Found(pydantic.BaseModel):
            number: int

        return super().run_agent(make_model, output_type=Found).number


@needs("langchain")
class LangChain(Agent):
    def test_chat(self):
        from langchain.agents import create_agent
        from langchain.tools import tool
        from langchain_openai import ChatOpenAI

        @tool
        def list_files() -> str:
            """Lists the files of the folder."""
            return self.list_files()

        @tool
        def read_file(path: str) -> str:
            """Reads a file of the folder."""
            return self.read_file(path)

        model = ChatOpenAI(model="script", base_url=self.base + "/v1", api_key="none", max_retries=0)
        agent = create_agent(model, [list_files, read_file])
        state = agent.invoke({"messages": [{"role": "user", "content": TASK}]})
        self.done(state["messages"][-1].content, "langchain")


@needs("llama_index")
class LlamaIndex(Agent):
    def test_chat(self):
        from llama_index.core.agent.workflow import FunctionAgent
        from llama_index.llms.openai_like import OpenAILike

        def list_files() -> str:
            """Lists the files of the folder."""
            return self.list_files()

        def read_file(path: str) -> str:
            """Reads a file of the folder."""
            return self.read_file(path)

        model = OpenAILike(model="script", api_base=self.base + "/v1", api_key="none", is_chat_model=True, is_function_calling_model=True,
                           context_window=self.context, max_retries=0)

        async def run():
            return await FunctionAgent(tools=[list_files, read_file], llm=model, system_prompt="Use the tools.").run(TASK)
        self.done(asyncio.run(run()), "llama-index")


@needs("pydantic_ai")
class PydanticAi(Agent):
    def run_agent(self, model):
        import pydantic_ai
        agent = pydantic_ai.Agent(model, system_prompt="Use the tools.")

        @agent.tool_plain
        def list_files() -> str:
            """Lists the files of the folder."""
            return self.list_files()

        @agent.tool_plain
        def read_file(path: str) -> str:
            """Reads a file of the folder."""
            return self.read_file(path)

        return agent.run_sync(TASK).output

    def test_chat(self):
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
        self.done(self.run_agent(OpenAIChatModel("script", provider=OpenAIProvider(base_url=self.base + "/v1", api_key="none"))), "pydantic-ai, chat")

    def test_responses(self):
        from pydantic_ai.models.openai import OpenAIResponsesModel
        from pydantic_ai.providers.openai import OpenAIProvider
        self.done(self.run_agent(OpenAIResponsesModel("script", provider=OpenAIProvider(base_url=self.base + "/v1", api_key="none"))),
                  "pydantic-ai, Responses")

    @needs("anthropic")
    def test_messages(self):
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider
        client = AsyncAnthropic(base_url=self.base, api_key="none", max_retries=0)
        self.done(self.run_agent(AnthropicModel("script", provider=AnthropicProvider(anthropic_client=client))), "pydantic-ai, Messages")


@needs("instructor")
class Instructor(Agent):
    """Calls as objects: a step of the task each."""
    def test_tools(self):
        import instructor
        import openai
        import pydantic

        class list_files(pydantic.BaseModel):
            """Lists the files of the folder."""

        class read_file(pydantic.BaseModel):
            """Reads a file of the folder."""
            path: str

        client = instructor.from_openai(openai.OpenAI(base_url=self.base + "/v1", api_key="none", max_retries=0), mode=instructor.Mode.TOOLS)
        messages = [{"role": "user", "content": TASK}]
        for kind in (list_files, read_file):
            step = client.chat.completions.create(model="script", response_model=kind, messages=messages)
            result = self.list_files() if kind is list_files else self.read_file(step.path)
            messages.append({"role": "user", "content": result})
        self.done(messages[-1]["content"], "instructor")


@needs("smolagents")
class Smolagents(Agent):
    answer = call("final_answer", answer="4711")

    def test_calls(self):
        import smolagents

        @smolagents.tool
        def list_files() -> str:
            """Lists the files of the folder."""
            return self.list_files()

        @smolagents.tool
        def read_file(path: str) -> str:
            """Reads a file of the folder.

            Args:
                path: The name of the file.
            """
            return self.read_file(path)

        model = smolagents.OpenAIServerModel(model_id="script", api_base=self.base + "/v1", api_key="none")
        agent = smolagents.ToolCallingAgent(tools=[list_files, read_file], model=model, verbosity_level=0)
        self.done(agent.run(TASK), "smolagents")


@needs("aider")
class Aider(Agent):
    """Edits as text: two files, in two turns."""
    def test_edits(self):
        edit = "{0}\n```\n<<<<<<< SEARCH\nold {1}\n=======\nnew {1}\n>>>>>>> REPLACE\n```\n"
        self.start([{"if": "now the second", "tokens": ["Edited.\n\n" + edit.format("second.py", "two")]},
                    {"if": "change the first", "tokens": ["Edited.\n\n" + edit.format("first.py", "one")]}, {"tokens": ["hm"]}])
        for name, word in (("first.py", "one"), ("second.py", "two")):
            (self.folder / name).write_text(f"old {word}\n")
        environment = {**os.environ, "OPENAI_API_BASE": self.base + "/v1", "OPENAI_API_KEY": "none", "HOME": str(self.folder), "AIDER_ANALYTICS": "false"}
        for message in ("change the first", "now the second"):
            done = subprocess.run([sys.executable, "-m", "aider", "--model", "openai/script", "--edit-format", "diff", "--yes-always", "--no-git",
                                   "--no-check-update", "--no-show-model-warnings", "--no-pretty", "--no-auto-commits", "--map-tokens", "0", "--message", message,
                                   "first.py", "second.py"], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300,
                                  stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
        self.assertEqual([(self.folder / name).read_text() for name in ("first.py", "second.py")], ["new one\n", "new two\n"], done.stdout[-2000:])
        finished.append("aider")


def program_of(*names):
    """The first of these programs of the environment, or of a package in it."""
    for name in names:
        for path in [pathlib.Path(sys.prefix, "bin", name), *pathlib.Path(sys.prefix).glob(f"lib/python*/site-packages/*/**/{name}")]:
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
    return None


class Programs(Agent):
    """Agents that are programs: they list the folder and read the note in a shell of theirs."""
    def run_program(self, arguments, environment):
        done = subprocess.run(arguments, cwd=self.folder, env={**os.environ, "HOME": str(self.folder / ".home"), **environment}, capture_output=True,
                              text=True, timeout=300, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-3000:])
        answers = re.search(r"gabbro_answers_total{.*} ([0-9]+)", self.server.ask("GET", "/metrics")[2].decode())
        self.assertGreaterEqual(int(answers[1]), 3)  # two with a call, and the last one
        return done.stdout

    def shell(self, name, key, wrap=lambda text: text):
        """A model that calls this tool of a shell twice."""
        ls, cat = (call(name, **{key: wrap(text)}) for text in ("echo files: *.txt", "cat note.txt"))
        self.start([{"if": NOTE, "tokens": [self.answer]}, {"if": "files: note.txt", "tokens": [cat]}, {"tokens": [ls]}])
        (self.folder / ".home").mkdir()

    @unittest.skipUnless(program_of("codex"), "openai-codex-cli-bin is not installed")
    def test_codex(self):
        self.shell("exec_command", "cmd")
        provider = f'model_providers.local={{name="local", base_url="{self.base}/v1", wire_api="responses"}}'
        out = self.run_program([program_of("codex"), "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-c", "model_provider=local",
                                "-c", provider, "-m", "script", TASK], {"CODEX_HOME": str(self.folder / ".home")})
        self.assertIn("4711", out)
        finished.append("codex")

    @unittest.skipUnless(program_of("claude"), "claude-agent-sdk is not installed")
    def test_claude(self):
        self.shell("Bash", "command")
        out = self.run_program([program_of("claude"), "-p", TASK, "--model", "script", "--allowedTools", "Bash", "Read"],
                               {"ANTHROPIC_BASE_URL": self.base, "ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"})
        self.assertIn("4711", out)
        finished.append("claude")


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=2)
    print(f"{len(finished)} runs of agents ended with their task done: {'; '.join(sorted(finished))}")
    sys.exit(0 if program.result.wasSuccessful() and finished else 1)

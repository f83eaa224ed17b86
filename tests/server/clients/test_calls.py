#!/usr/bin/env python3
"""Calls of the clients openai, ollama, litellm and langchain-openai to scripted models, and to an encoder for vectors.

`./test clients` installs what requirements.txt lists and runs it. It counts the calls: at least 80.
"""
import asyncio
import os
import pathlib
import sys
import threading
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (1, 2)] + [str(pathlib.Path(__file__).resolve().parents[2] / "cli")]
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_LOG="ERROR")  # no request for a list of prices
import langchain_openai  # noqa: E402
import litellm  # noqa: E402
import ollama  # noqa: E402
import openai  # noqa: E402
from server_support import SCRIPT, TEXT, Server  # noqa: E402
from test_program import ENCODERS, Program  # noqa: E402

LEAST = 80
counts = {}


def user(text="hi"):
    return [{"role": "user", "content": text}]


class Calls(unittest.TestCase):
    client = ""
    settings = {"parallel": 4}
    queue = 256

    @classmethod
    def setUpClass(cls):
        cls.server = Server(models={"script": {"model": cls.settings, **SCRIPT}}, queue=cls.queue)
        cls.base = f"http://127.0.0.1:{cls.server.port}"

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def call(self, function, *arguments, **fields):
        counts[self.client] = counts.get(self.client, 0) + 1
        return function(*arguments, **fields)

    def fails(self, kind, function, *arguments, **fields):
        with self.assertRaises(kind) as caught:
            self.call(function, *arguments, **fields)
        return caught.exception

    def wait_idle(self):
        """Until a canceled request has left the only place."""
        self.server.wait_until(0)


class OpenAi(Calls):
    client = "openai"

    def setUp(self):
        self.api = openai.OpenAI(base_url=self.base + "/v1", api_key="none", max_retries=0, timeout=30)

    def chat(self, text="hi", **fields):
        return self.call(self.api.chat.completions.create, model="script", messages=user(text), **fields)

    def test_fields(self):
        for fields in ({}, {"temperature": 0}, {"seed": 5}, {"seed": 0}, {"top_p": 0.5}, {"frequency_penalty": 1}, {"presence_penalty": -1}, {"max_tokens": 50},
                       {"max_completion_tokens": 50}, {"logit_bias": {"5": 1}}, {"user": "x"}, {"n": 1}, {"stop": ["#"]}, {"stop": "#"},
                       {"response_format": {"type": "text"}}, {"store": True}, {"metadata": {"a": "b"}}, {"extra_body": {"top_k": 5, "min_p": 0.1}},
                       {"extra_body": {"repetition_penalty": 1.1}}, {"service_tier": "auto"}, {"reasoning_effort": "low"}, {"parallel_tool_calls": True}):
            answer = self.chat(**fields)
            self.assertEqual((answer.choices[0].message.content, answer.choices[0].finish_reason), (TEXT, "stop"), fields)
            self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)

    def test_choices_and_stops(self):
        self.assertEqual([choice.message.content for choice in self.chat(n=3).choices], [TEXT] * 3)
        self.assertEqual(self.chat(stop=[" wor"]).choices[0].message.content, "Hello")
        cut = self.chat(max_tokens=2).choices[0]
        self.assertEqual((cut.message.content, cut.finish_reason), ("Hello", "length"))
        self.assertEqual(self.chat("ponder").choices[0].message.reasoning_content, "hmm")

    def test_streams(self):
        for fields in ({}, {"n": 2}, {"stop": ["ld"]}, {"max_tokens": 1}):
            texts = {}
            for chunk in self.chat(stream=True, stream_options={"include_usage": True}, **fields):
                for choice in chunk.choices:
                    texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
            expected = {"stop": "Hello wor", "max_tokens": "Hel"}.get(next(iter(fields), ""), TEXT)
            self.assertEqual(texts, {i: expected for i in range(fields.get("n", 1))})
            self.assertGreater(chunk.usage.completion_tokens, 0)
        with self.call(self.api.chat.completions.stream, model="script", messages=user()) as stream:
            self.assertEqual(stream.get_final_completion().choices[0].message.content, TEXT)

    def test_completions(self):
        for prompt, count in (("hi", 1), (["a"], 1), (["a", "b"], 2), ([104, 105], 1), ([[104], [105]], 2)):
            answer = self.call(self.api.completions.create, model="script", prompt=prompt)
            self.assertEqual([choice.text for choice in answer.choices], [TEXT] * count)
        chunks = self.call(self.api.completions.create, model="script", prompt="hi", stream=True)
        self.assertEqual("".join(chunk.choices[0].text for chunk in chunks), TEXT)
        self.assertEqual(self.call(self.api.completions.create, model="script", prompt="hi", echo=True).choices[0].text, "hi" + TEXT)

    def test_models(self):
        self.assertEqual([model.id for model in self.call(self.api.models.list)], ["script"])
        self.assertEqual(self.call(self.api.models.retrieve, "script").id, "script")
        self.fails(openai.NotFoundError, self.api.models.retrieve, "nothing")

    def test_errors(self):
        create = self.api.chat.completions.create
        for fields in ({"temperature": 5}, {"n": 0}, {"top_p": 2}, {"stop": ["x"] * 99}, {"messages": []}):
            with self.subTest(fields):
                self.fails(openai.BadRequestError, create, **{"model": "script", "messages": user(), **fields})
        self.fails(openai.NotFoundError, create, model="nothing", messages=user())
        self.fails(openai.BadRequestError, create, model="script", messages=user("x" * 5000))
        self.fails(openai.InternalServerError, create, model="script", messages=user("broken"))
        self.fails(openai.APIError, lambda: list(create(model="script", messages=user("broken"), stream=True)))

    def test_async(self):
        async def run():
            client = openai.AsyncOpenAI(base_url=self.base + "/v1", api_key="none", max_retries=8, timeout=30)
            answers = await asyncio.gather(*[client.chat.completions.create(model="script", messages=user()) for _ in range(4)])
            await client.close()
            return [answer.choices[0].message.content for answer in answers]
        counts[self.client] = counts.get(self.client, 0) + 4
        self.assertEqual(asyncio.run(run()), [TEXT] * 4)


class OpenAiRetries(Calls):
    """One request at a time, and no queue."""
    client = "openai"
    settings = {"parallel": 1}
    queue = 0

    def test_cancel_and_retries(self):
        self.api = openai.OpenAI(base_url=self.base + "/v1", api_key="none", max_retries=0, timeout=30)
        stream = self.call(self.api.chat.completions.create, model="script", messages=user("slow"), stream=True)
        next(iter(stream))
        self.fails(openai.InternalServerError, self.api.chat.completions.create, model="script", messages=user())
        threading.Timer(0.5, stream.close).start()
        start = time.monotonic()
        answer = self.call(self.api.with_options(max_retries=5).chat.completions.create, model="script", messages=user())
        self.assertEqual(answer.choices[0].message.content, TEXT)
        self.assertLess(time.monotonic() - start, 10)


class Ollama(Calls):
    client = "ollama"

    def setUp(self):
        self.api = ollama.Client(host=self.base)

    def test_texts(self):
        self.assertEqual(self.call(self.api.chat, model="script", messages=user()).message.content, TEXT)
        self.assertEqual("".join(part.message.content for part in self.call(self.api.chat, model="script", messages=user(), stream=True)), TEXT)
        self.assertEqual(self.call(self.api.generate, model="script", prompt="hi").response, TEXT)
        self.assertEqual("".join(part.response for part in self.call(self.api.generate, model="script", prompt="hi", stream=True)), TEXT)
        thought = self.call(self.api.chat, model="script", messages=user("ponder"), think=True).message
        self.assertEqual((thought.thinking, thought.content), ("hmm", "yes"))

    def test_options(self):
        for options in ({"temperature": 0}, {"seed": 1}, {"num_ctx": 2048}, {"top_k": 5, "top_p": 0.5}, {"stop": ["#"]}, {"repeat_penalty": 1.1}, {"min_p": 0.1}):
            self.assertEqual(self.call(self.api.generate, model="script", prompt="hi", options=options, keep_alive="5m").response, TEXT)
        self.assertEqual(self.call(self.api.generate, model="script", prompt="hi", options={"num_predict": 2}).response, "Hello")
        self.assertEqual(self.call(self.api.chat, model="script", messages=user(), options={"stop": ["lo"]}).message.content, "Hel")

    def test_lists(self):
        self.assertEqual([model.model for model in self.call(self.api.list).models], ["script"])
        self.assertEqual([model.model for model in self.call(self.api.ps).models], ["script"])
        self.assertIn("completion", self.call(self.api.show, "script").capabilities)

    def test_errors(self):
        self.fails(ollama.ResponseError, self.api.chat, model="nothing", messages=user())
        self.fails(ollama.ResponseError, self.api.pull, "x")
        self.fails(ollama.ResponseError, self.api.embed, model="script", input="x")
        self.fails(ollama.ResponseError, lambda: list(self.api.chat(model="script", messages=user("broken"), stream=True)))

    def test_cancel(self):
        stream = self.call(self.api.chat, model="script", messages=user("slow"), stream=True)
        next(stream)
        stream.close()
        self.wait_idle()
        self.assertEqual(self.call(self.api.generate, model="script", prompt="hi").response, TEXT)


class LiteLlm(Calls):
    client = "litellm"

    def chat(self, text="hi", kind="openai", **fields):
        base = self.base + ("/v1" if kind == "openai" else "")
        return self.call(litellm.completion, model=f"{kind}/script", api_base=base, api_key="none", messages=user(text), **fields)

    def test_texts(self):
        for kind in ("openai", "ollama_chat", "ollama"):
            answer = self.chat(kind=kind)
            self.assertEqual((answer.choices[0].message.content, answer.choices[0].finish_reason), (TEXT, "stop"), kind)
            self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in self.chat(kind=kind, stream=True)), TEXT, kind)
        for fields in ({"temperature": 0.5, "top_p": 0.9}, {"seed": 3}, {"stop": ["#"]}, {"max_tokens": 50}, {"extra_body": {"top_k": 4}}):
            self.assertEqual(self.chat(**fields).choices[0].message.content, TEXT)
        self.assertEqual(len(self.chat(n=2).choices), 2)
        self.assertEqual(self.chat("ponder").choices[0].message.reasoning_content, "hmm")
        text = self.call(litellm.text_completion, model="text-completion-openai/script", api_base=self.base + "/v1", api_key="none", prompt="hi")
        self.assertEqual(text.choices[0].text, TEXT)

    def test_async(self):
        answer = asyncio.run(self.call(litellm.acompletion, model="openai/script", api_base=self.base + "/v1", api_key="none", messages=user()))
        self.assertEqual(answer.choices[0].message.content, TEXT)

    def test_errors(self):
        complete = dict(api_base=self.base + "/v1", api_key="none", messages=user(), max_retries=0)
        self.fails(litellm.NotFoundError, litellm.completion, model="openai/nothing", **complete)
        self.fails(litellm.BadRequestError, litellm.completion, model="openai/script", temperature=5, **complete)
        self.fails(litellm.InternalServerError, litellm.completion, model="openai/script", **{**complete, "messages": user("broken")})


class LangChain(Calls):
    client = "langchain-openai"

    def model(self, **fields):
        return langchain_openai.ChatOpenAI(model="script", base_url=self.base + "/v1", api_key="none", **{"max_retries": 0, **fields})

    def test_texts(self):
        answer = self.call(self.model().invoke, "hi")
        self.assertEqual((answer.content, answer.response_metadata["finish_reason"], answer.usage_metadata["output_tokens"]), (TEXT, "stop", 5))
        self.assertEqual("".join(chunk.content for chunk in self.call(self.model().stream, "hi")), TEXT)
        self.assertEqual("".join(chunk.content for chunk in self.call(self.model(stream_usage=True).stream, "hi")), TEXT)
        self.assertEqual([one.content for one in self.call(self.model(max_retries=8).batch, ["a", "b"])], [TEXT] * 2)
        self.assertEqual(asyncio.run(self.call(self.model().ainvoke, "hi")).content, TEXT)
        for fields in ({"temperature": 0}, {"seed": 4}, {"stop": ["#"]}, {"max_tokens": 30}, {"top_p": 0.4}):
            self.assertEqual(self.call(self.model(**fields).invoke, [("system", "be brief"), ("user", "hi")]).content, TEXT)
        plain = langchain_openai.OpenAI(model="script", base_url=self.base + "/v1", api_key="none", max_retries=0)
        self.assertEqual(self.call(plain.invoke, "hi"), TEXT)

    def test_errors(self):
        self.fails(openai.BadRequestError, self.model(temperature=5).invoke, "hi")
        self.fails(openai.InternalServerError, self.model().invoke, "broken")


class Vectors(unittest.TestCase):
    """The same vectors by each client."""

    def test_vectors(self):
        program = Program(ENCODERS / "bert")
        try:
            base, texts = f"http://127.0.0.1:{program.port}", ["one", "two words"]
            api = openai.OpenAI(base_url=base + "/v1", api_key="none")
            found = {
                "openai": [row.embedding for row in api.embeddings.create(model="bert", input=texts).data],  # as base64
                "openai, floats": [row.embedding for row in api.embeddings.create(model="bert", input=texts, encoding_format="float").data],
                "ollama": ollama.Client(host=base).embed(model="bert", input=texts).embeddings,
                "litellm": [row["embedding"] for row in litellm.embedding(model="openai/bert", input=texts, api_base=base + "/v1", api_key="none").data],
                "langchain-openai": langchain_openai.OpenAIEmbeddings(model="bert", base_url=base + "/v1", api_key="none",
                                                                      check_embedding_ctx_length=False).embed_documents(texts)}
            for name, vectors in found.items():
                counts[name.split(",")[0]] = counts.get(name.split(",")[0], 0) + 1
                self.assertEqual(len(vectors), 2)
                for vector, expected in zip(vectors, found["openai"]):
                    self.assertLess(max(abs(a - b) for a, b in zip(vector, expected)), 1e-6, name)
        finally:
            program.end()


class ZCount(unittest.TestCase):
    """Runs last: tests are sorted by name of their class."""

    def test_count(self):
        print(counts, file=sys.stderr)
        self.assertGreaterEqual(sum(counts.values()), LEAST)


if __name__ == "__main__":
    unittest.main()

"""The clients `openai` and `ollama` of PyPI, where they are installed, against scripted models."""
import asyncio
import importlib.util
import time
import unittest

import server_support
from server_support import SCRIPT, TEXT, TestCase
from support import within

KEY = "a-key-of-tests-1"
USER = [{"role": "user", "content": "hi"}]


@unittest.skipUnless(importlib.util.find_spec("openai"), "the package openai is not installed")
class OpenAi(TestCase):
    config = {"keys": KEY, "models": {"script": {"model": {"parallel": 1}, **SCRIPT}}, "queue": 0}

    def setUp(self):
        import openai
        self.openai = openai
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key=KEY, max_retries=0, timeout=30)

    def chat(self, text="hi", **fields):
        return self.client.chat.completions.create(model="script", messages=[{"role": "user", "content": text}], **fields)

    def test_chat(self):
        answer = self.chat()
        self.assertEqual(answer.choices[0].message.content, TEXT)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + 5)
        for fields in ({"temperature": 0}, {"seed": 5}, {"top_p": 0.5}, {"frequency_penalty": 1}, {"presence_penalty": 1}, {"max_tokens": 50},
                       {"max_completion_tokens": 50}, {"logit_bias": {"5": 1}}, {"user": "x"}, {"n": 1}, {"stop": ["#"]},
                       {"response_format": {"type": "text"}}, {"store": True}, {"metadata": {"a": "b"}}, {"extra_body": {"top_k": 5}},
                       {"extra_body": {"min_p": 0.1}}, {"extra_body": {"repetition_penalty": 1.1}}, {"service_tier": "auto"},
                       {"reasoning_effort": "low"}, {"parallel_tool_calls": True}):
            self.assertEqual(self.chat(**fields).choices[0].message.content, TEXT, fields)

    def test_streams(self):
        for _ in range(5):
            chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
            self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), TEXT)
            self.assertEqual(chunks[-1].usage.completion_tokens, 5)
        with self.client.chat.completions.stream(model="script", messages=USER) as stream:
            self.assertEqual(stream.get_final_completion().choices[0].message.content, TEXT)

    def test_async(self):
        async def run():
            client = self.openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key=KEY, max_retries=5, timeout=30)
            stream = await client.chat.completions.create(model="script", messages=USER, stream=True)
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
            whole = await client.chat.completions.create(model="script", messages=USER)
            await client.close()
            return text, whole.choices[0].message.content
        self.assertEqual(asyncio.run(run()), (TEXT, TEXT))

    def test_completions_and_models(self):
        for prompt, count in (("hi", 1), (["a"], 1), ([104, 105], 1)):
            self.assertEqual(len(self.client.completions.create(model="script", prompt=prompt).choices), count)
        chunks = list(self.client.completions.create(model="script", prompt="hi", stream=True))
        self.assertEqual("".join(c.choices[0].text for c in chunks), TEXT)
        self.assertEqual([model.id for model in self.client.models.list()], ["script"])
        self.assertEqual(self.client.models.retrieve("script").id, "script")

    def test_errors(self):
        openai = self.openai
        for call, kind in ((lambda: self.chat(temperature=5), openai.BadRequestError), (lambda: self.chat(n=0), openai.BadRequestError),
                           (lambda: self.chat(top_logprobs=2), openai.BadRequestError), (lambda: self.chat("x" * 5000), openai.BadRequestError),
                           (lambda: self.client.models.retrieve("nothing"), openai.NotFoundError),
                           (lambda: self.client.with_options(api_key="wrong").models.list(), openai.AuthenticationError),
                           (lambda: self.chat("broken"), openai.InternalServerError),
                           (lambda: self.client.moderations.create(model="script", input="x"), openai.InternalServerError),
                           (lambda: self.client.embeddings.create(model="script", input="x"), openai.BadRequestError)):
            with self.assertRaises(kind):
                call()
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(tools=[{"type": "function", "function": {"name": "a b", "parameters": {}}}])
        self.assertEqual(caught.exception.param, "tools[0].function.name")
        with self.assertRaises(openai.APIError):
            list(self.chat("broken", stream=True))

    def test_a_failure_that_would_come_again_is_not_retried(self):
        def attempt():
            start = time.monotonic()
            with self.assertRaises(self.openai.InternalServerError):
                self.client.with_options(max_retries=3).chat.completions.create(model="script", messages=[{"role": "user", "content": "broken"}])
            return time.monotonic() - start
        within(1, attempt)

    def test_retries_when_the_queue_is_full(self):
        stream = self.chat("slow", stream=True, max_tokens=100)
        next(iter(stream))
        with self.assertRaises(self.openai.InternalServerError):
            self.chat()
        answer = self.client.with_options(max_retries=5).chat.completions.create(model="script", messages=USER)
        self.assertEqual(answer.choices[0].message.content, TEXT)
        stream.close()

    def test_cancel(self):
        stream = self.chat("slow", stream=True)
        next(iter(stream))
        stream.close()
        for _ in range(100):
            try:
                self.assertEqual(self.chat().choices[0].message.content, TEXT)
                return
            except self.openai.InternalServerError:
                time.sleep(0.02)
        self.fail("the canceled request goes on")


@unittest.skipUnless(importlib.util.find_spec("ollama"), "the package ollama is not installed")
class Ollama(TestCase):
    def setUp(self):
        import ollama
        self.ollama = ollama
        self.client = ollama.Client(host=f"http://127.0.0.1:{self.server.port}")

    def test_calls(self):
        self.assertEqual(self.client.chat(model="script", messages=USER).message.content, TEXT)
        self.assertEqual("".join(part.message.content for part in self.client.chat(model="script", messages=USER, stream=True)), TEXT)
        self.assertEqual(self.client.generate(model="script", prompt="hi").response, TEXT)
        self.assertEqual("".join(part.response for part in self.client.generate(model="script", prompt="hi", stream=True)), TEXT)
        thought = self.client.chat(model="script", messages=[{"role": "user", "content": "ponder"}], think=True).message
        self.assertEqual((thought.thinking, thought.content), ("hmm", "yes"))
        for options in ({"temperature": 0}, {"seed": 1}, {"num_ctx": 2048}, {"top_k": 5, "top_p": 0.5}, {"stop": ["#"]}, {"repeat_penalty": 1.1}):
            self.assertEqual(self.client.generate(model="script", prompt="hi", options=options, keep_alive="5m").response, TEXT)

    def test_lists(self):
        self.assertEqual([model.model for model in self.client.list().models], ["script"])
        self.client.generate(model="script", prompt="hi")
        self.assertEqual([model.model for model in self.client.ps().models], ["script"])
        self.assertIn("completion", self.client.show("script").capabilities)

    def test_errors(self):
        for call in (lambda: self.client.chat(model="nothing", messages=USER), lambda: self.client.pull("x"),
                     lambda: self.client.embed(model="script", input="x"), lambda: self.client.chat(model="script", messages=USER, format={"not": {}}),
                     lambda: list(self.client.chat(model="script", messages=[{"role": "user", "content": "broken"}], stream=True))):
            with self.assertRaises(self.ollama.ResponseError):
                call()


if __name__ == "__main__":
    server_support.main()

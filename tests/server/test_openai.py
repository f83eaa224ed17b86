"""Chat, completions, models and errors in OpenAI's dialect, on a scripted model."""
import http.client
import json
import math
import unittest

import server_support
from server_support import TEXT, TestCase


def user(text="hi"):
    return [{"role": "user", "content": text}]


class Chat(TestCase):
    def test_answer(self):
        status, answer = self.server.chat()
        self.assertEqual(status, 200)
        self.assertRegex(answer["id"], "^chatcmpl-[A-Za-z0-9]{24,}$")
        self.assertEqual(answer["object"], "chat.completion")
        self.assertEqual(answer["model"], "script")
        choice = answer["choices"][0]
        self.assertEqual(choice["message"], {"role": "assistant", "content": TEXT, "refusal": None})
        self.assertEqual((choice["index"], choice["finish_reason"], choice["logprobs"]), (0, "stop", None))
        usage = answer["usage"]
        self.assertEqual(usage["completion_tokens"], 5)
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + 5)
        self.assertEqual(usage["prompt_tokens_details"], {"cached_tokens": 0})
        self.assertEqual(answer["timings"]["predicted_n"], 5)

    def test_stream(self):
        events = self.server.events("/v1/chat/completions", {"model": "script", "messages": user(), "stream": True})
        self.assertEqual(events[-1], "[DONE]")
        chunks = events[:-1]
        self.assertEqual(len({(c["id"], c["created"], c["model"], c["object"]) for c in chunks}), 1)
        self.assertEqual(chunks[0]["object"], "chat.completion.chunk")
        self.assertEqual(chunks[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        self.assertEqual("".join(c["choices"][0]["delta"].get("content", "") for c in chunks), TEXT)
        self.assertEqual(chunks[-1]["choices"][0]["delta"], {})
        self.assertEqual([c["choices"][0]["finish_reason"] for c in chunks], [None] * (len(chunks) - 1) + ["stop"])
        self.assertNotIn("usage", chunks[0])

    def test_stream_with_usage(self):
        events = self.server.events("/v1/chat/completions", {"model": "script", "messages": user(), "stream": True,
                                                             "stream_options": {"include_usage": True}})
        self.assertEqual(events[-2]["choices"], [])
        self.assertEqual(events[-2]["usage"]["completion_tokens"], 5)
        self.assertTrue(all(event["usage"] is None for event in events[:-2]))

    def test_several_choices(self):
        _, answer = self.server.chat(n=3, seed=1)
        self.assertEqual([c["index"] for c in answer["choices"]], [0, 1, 2])
        self.assertEqual([c["message"]["content"] for c in answer["choices"]], [TEXT] * 3)
        self.assertEqual(answer["usage"]["completion_tokens"], 15)
        events = self.server.events("/v1/chat/completions", {"model": "script", "messages": user(), "stream": True, "n": 2})
        texts = {0: "", 1: ""}
        for event in events[:-1]:
            for choice in event["choices"]:
                texts[choice["index"]] += choice["delta"].get("content", "")
        self.assertEqual(texts, {0: TEXT, 1: TEXT})

    def test_thoughts(self):
        _, answer = self.server.chat("ponder")
        self.assertEqual(answer["choices"][0]["message"]["reasoning_content"], "hmm")
        self.assertEqual(answer["choices"][0]["message"]["content"], "yes")
        events = self.server.events("/v1/chat/completions", {"model": "script", "messages": user("ponder"), "stream": True})
        deltas = [event["choices"][0]["delta"] for event in events[:-1]]
        self.assertEqual("".join(d.get("reasoning_content", "") for d in deltas), "hmm")
        self.assertEqual("".join(d.get("content", "") for d in deltas), "yes")

    def test_open_thoughts(self):
        _, answer = self.server.chat("hi", chat_template_kwargs={"open_thoughts": True})
        self.assertEqual(answer["choices"][0]["message"]["reasoning_content"], TEXT)

    def test_characters_are_whole(self):
        events = self.server.events("/v1/chat/completions", {"model": "script", "messages": user("bytes"), "stream": True})
        self.assertEqual("".join(e["choices"][0]["delta"].get("content", "") for e in events[:-1]), "€uro")

    def test_stop_and_length(self):
        _, answer = self.server.chat(stop=" world")
        self.assertEqual((answer["choices"][0]["message"]["content"], answer["choices"][0]["finish_reason"]), ("Hello", "stop"))
        _, answer = self.server.chat(max_tokens=2)
        self.assertEqual((answer["choices"][0]["message"]["content"], answer["choices"][0]["finish_reason"]), ("Hello", "length"))
        _, answer = self.server.chat(max_completion_tokens=1, max_tokens=2)
        self.assertEqual(answer["choices"][0]["message"]["content"], "Hel")
        _, answer = self.server.chat(max_tokens=0)
        self.assertEqual((answer["choices"][0]["message"]["content"], answer["choices"][0]["finish_reason"]), ("", "length"))

    def test_content_parts_and_roles(self):
        status, answer = self.server.post("/apply-template", {"model": "script", "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "user", "content": "c"}, {"role": "assistant", "content": None, "tool_calls": []}]})
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["prompt"], "<|im_start|>system\nab<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
                                           "<|im_start|>assistant\n<|im_end|>\n<|im_start|>assistant\n")

    def test_null_is_absent(self):
        status, answer = self.server.chat(stop=None, temperature=None, tools=None, stream=None, n=None, max_tokens=None,
                                          logit_bias=None, response_format=None, seed=None, user=None)
        self.assertEqual(status, 200, answer)

    def test_fields_without_effect(self):
        status, answer = self.server.chat(store=True, user="x", metadata={"a": "b"}, service_tier="auto", wholly_unknown=1,
                                          response_format={"type": "text"}, modalities=["text"], tools=[], tool_choice="none")
        self.assertEqual(status, 200, answer)

    def test_range_of_each_field(self):
        wrong = {"temperature": [-0.1, 2.1, "1", True], "top_p": [-1, 1.1], "n": [0, 129, 1.5, "2"], "max_tokens": [-2, 1 << 40, "5"],
                 "frequency_penalty": [2.1, -2.1], "presence_penalty": [3], "seed": ["1", 0.5, 1 << 70], "stream": ["true", 1],
                 "stop": [5, [5], ["a"] * 17, ["a" * 257], [""]], "logit_bias": [{"x": 1}, {"0": 101}, {"9999": 1}, 5, [[1]]],
                 "top_k": [-2, 1.5], "min_p": [2], "repeat_penalty": [0], "chat_template_kwargs": [5, {"a": []}],
                 "stream_options": [5], "stop_token_ids": [[-1], ["a"]], "mirostat": [3], "dry_allowed_length": [0],
                 "priority": [9, -9, "high"]}
        for name, values in wrong.items():
            for value in values:
                with self.subTest(name=name, value=value):
                    error = self.refused(self.server.chat(**{name: value}), 400)
                    self.assertTrue(error["param"].startswith(name), error)
                    self.assertEqual(error["type"], "invalid_request_error")

    def test_fields_in_range(self):
        right = {"temperature": [0, 2], "top_p": [0, 1], "seed": [0, -1, 1 << 62], "stop": ["x", ["x", "y"]],
                 "logit_bias": [{"5": -100}, [[5, False]], [["ab", 1.5]]], "top_k": [-1, 0, 40], "xtc_probability": [0.5],
                 "dry_multiplier": [0.8], "typical_p": [0.9], "repeat_penalty": [0.01, 100], "penalty_window": [5], "repeat_last_n": [-1], "max_tokens": [5.0], "ignore_eos": [True], "mirostat": [2],
                 "priority": [-8, 0, 8]}
        for name, values in right.items():
            for value in values:
                with self.subTest(name=name, value=value):
                    status, answer = self.server.chat(**{name: value})
                    self.assertEqual(status, 200, answer)

    def test_messages(self):
        for messages, param in ((None, "messages"), ([], "messages"), ([5], "messages[0]"), ([{"role": "user"}], "messages[0].content"),
                                ([{"content": "a"}], "messages[0].role"), ([{"role": "king", "content": "a"}], "messages[0].role"),
                                ([{"role": "user", "content": 5}], "messages[0].content"),
                                ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0].type")):
            with self.subTest(messages=messages):
                self.refused(self.server.post("/v1/chat/completions", {"model": "script", "messages": messages}), 400, param=param)

    def test_unsupported_by_name(self):
        tool = {"type": "function", "function": {"name": "f"}}
        for fields in ({"response_format": {"type": "xml"}}, {"guided_whitespace_pattern": "x"}, {"audio": {}},
                       {"modalities": ["audio"]}, {"chat_template": "x"}, {"structured_outputs": {"structural_tag": "a"}}):
            with self.subTest(fields=fields):
                self.refused(self.server.chat(**fields), 400, code="unsupported_parameter", param=next(iter(fields)))
        status, _ = self.server.chat(tools=[tool], tool_choice="none")
        self.assertEqual(status, 200)

    # The scripted model chooses its own tokens: what is tested here is which formats are taken.
    def test_output_formats(self):
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
        for fields in ({"response_format": {"type": "text"}}, {"response_format": {"type": "json_object"}},
                       {"response_format": {"type": "json_object", "schema": schema}},
                       {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}}},
                       {"response_format": {"type": "json_schema", "schema": schema}},
                       {"guided_json": schema}, {"guided_json": json.dumps(schema)}, {"guided_regex": "a+"}, {"guided_choice": ["a", "b"]},
                       {"guided_grammar": 'root ::= "a"'}, {"grammar": 'root ::= "a"'}, {"json_schema": schema}, {"grammar": ""},
                       {"structured_outputs": {"json": schema}}, {"structured_outputs": {"json_object": True}},
                       {"structured_outputs": {"regex": "a"}}, {"structured_outputs": {"choice": ["a"]}},
                       {"structured_outputs": {"grammar": 'root ::= "a"'}}):
            with self.subTest(fields=fields):
                status, answer = self.server.chat(**fields)
                self.assertEqual(status, 200, answer)

    def test_output_formats_that_are_wrong(self):
        for fields, message in (({"response_format": {"type": "json_schema", "json_schema": {"schema": {"properties": {"a": {"not": {}}}}}}},
                                 "#/properties/a/not: the keyword is not supported"),
                                ({"response_format": {"type": "json_schema"}}, "needs a member"),
                                ({"response_format": {"type": "json_schema", "json_schema": {"schema": 5}}}, "expected a schema"),
                                ({"guided_json": "{"}, "is not JSON"), ({"guided_regex": "a("}, "position 3: missing )"),
                                ({"guided_choice": []}, "not a list"), ({"guided_choice": "a"}, "expected an array"),
                                ({"grammar": "root ::= x"}, "the rule 'x' is not defined"), ({"grammar": 5}, "expected a string"),
                                ({"json_schema": {"type": "text"}}, "#/type: 'text' is not a type"),
                                ({"structured_outputs": {"regex": "("}}, "missing )"),
                                ({"guided_regex": "a", "grammar": 'root ::= "a"'}, "has a format already, by guided_regex")):
            with self.subTest(fields=fields):
                status, answer = self.server.chat(**fields)
                self.assertEqual(status, 400, answer)
                self.assertIn(message, answer["error"]["message"])
                self.assertIn(answer["error"]["param"].split(".")[0], fields)

    def test_context(self):
        error = self.refused(self.server.chat("x" * 5000), 400, code="context_length_exceeded")
        self.assertGreater(error["n_prompt_tokens"], error["n_ctx"])

    def test_model_names(self):
        self.refused(self.server.chat(model="nothing"), 404, "nothing", code="model_not_found")
        status, _ = self.server.chat(model="script:latest")
        self.assertEqual(status, 200)
        status, answer = self.server.post("/v1/chat/completions", {"messages": user()})  # one is loaded
        self.assertEqual((status, answer["model"]), (200, "script"))
        for name in ("../script", "/etc/passwd", "a" * 10_000, "script\n", "", 5):
            with self.subTest(name=name[:20] if isinstance(name, str) else name):
                self.assertIn(self.server.chat(model=name)[0], (400, 404) if name != "" else (200,))

    def test_failure_of_the_engine(self):
        error = self.refused(self.server.chat("broken"), 500, "the script fails")
        self.assertEqual(error["type"], "server_error")
        events = self.server.events("/v1/chat/completions", {"model": "script", "messages": user("broken"), "stream": True})
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual(events[-2]["error"]["message"], "the script fails")
        self.assertEqual("".join(e["choices"][0]["delta"].get("content", "") for e in events[:-2]), "so far")
        self.assertEqual(self.server.chat()[0], 200)


class Json(TestCase):
    def post(self, body):
        status, _, content = self.server.ask("POST", "/v1/chat/completions", body)
        return status, json.loads(content)

    def test_what_is_no_json(self):
        for body in (b"", b"{", b"[]", b"5", b"{\"a\":1,}", b"nul", b"\xff\xfe", b"{\"model\": \"\xff\"}", b"{\"a\": \"\\ud800\"}",
                     b"{\"a\": \"\\u0000\"}", b"[" * 100_000, b"{\"a\":" * 100 + b"1" + b"}" * 100,
                     b"{" + b",".join(b"\"%d\":1" % i for i in range(20_000)) + b"}"):
            with self.subTest(body=body[:40]):
                self.refused(self.post(body), 400)

    def test_last_of_duplicate_keys_counts(self):
        status, answer = self.post(b'{"model": "nothing", "model": "script", "messages": [{"role": "user", "content": "hi"}]}')
        self.assertEqual((status, answer["model"]), (200, "script"))


class Completions(TestCase):
    def complete(self, **fields):
        return self.server.post("/v1/completions", {"model": "script", "prompt": "hi", **fields})

    def test_answer(self):
        status, answer = self.complete()
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["object"], "text_completion")
        self.assertEqual(answer["choices"], [{"index": 0, "text": TEXT, "logprobs": None, "finish_reason": "stop"}])
        self.assertEqual(answer["usage"]["prompt_tokens"], 2)

    def test_prompts(self):
        for prompt, count in (("hi", 1), (["hi", "slo"], 2), ([104, 105], 1), ([[104, 105], [104]], 2), ([1, 257], 1)):
            with self.subTest(prompt=prompt):
                status, answer = self.complete(prompt=prompt)
                self.assertEqual(status, 200, answer)
                self.assertEqual([c["index"] for c in answer["choices"]], list(range(count)))
        for prompt in (None, "", [], [[]], 5, [5, "a"], [-1], [259], [1 << 40], [1.5], {}):
            with self.subTest(prompt=prompt):
                self.refused(self.complete(prompt=prompt), 400, param="prompt")

    def test_several_texts(self):
        status, answer = self.complete(prompt=["a", "b"], n=2, echo=True)
        self.assertEqual(status, 200)
        self.assertEqual([c["text"] for c in answer["choices"]], ["a" + TEXT] * 2 + ["b" + TEXT] * 2)
        self.assertEqual(answer["usage"]["prompt_tokens"], 2)
        self.assertEqual(answer["usage"]["completion_tokens"], 20)

    def test_stream(self):
        events = self.server.events("/v1/completions", {"model": "script", "prompt": "hi", "stream": True, "echo": True,
                                                        "stream_options": {"include_usage": True}})
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual("".join(e["choices"][0]["text"] for e in events[:-2]), "hi" + TEXT)
        self.assertEqual(events[-2]["usage"]["completion_tokens"], 5)

    def test_thoughts_are_text(self):
        _, answer = self.complete(prompt="ponder")
        self.assertEqual(answer["choices"][0]["text"], "<think>hmm\n</think>\n\nyes")

    def test_default_length(self):
        _, answer = self.complete(prompt="slow")
        self.assertEqual(answer["usage"]["completion_tokens"], 16)

    def test_unsupported(self):
        for fields in ({"suffix": "x"}, {"best_of": 3}, {"stream": True, "echo": True, "logprobs": 1}):
            self.refused(self.complete(**fields), 400, code="unsupported_parameter", param=next(iter(fields)))


HALF = math.log(0.5)


class Scores(TestCase):
    def row(self, text, top):
        """The score of a scripted token: its first byte's, and the scores of the bytes after it."""
        byte = text[0] if isinstance(text, list) else text.encode()[0]
        rows = [{"token": chr(b) if b < 128 else "\ufffd", "logprob": HALF * (i + 1), "bytes": [b]} for i, b in enumerate(range(byte, byte + max(top, 1)))]
        return {**rows[0], "top_logprobs": rows[:top]}

    def near(self, got, expected):
        self.assertEqual([r["token"] for r in got], [r["token"] for r in expected])
        self.assertEqual([r["bytes"] for r in got], [r["bytes"] for r in expected])
        for a, b in zip(got, expected):
            self.assertAlmostEqual(a["logprob"], b["logprob"], 5)
            if "top_logprobs" in b:
                self.near(a["top_logprobs"], b["top_logprobs"])

    def test_chat(self):
        for top in (0, 1, 20):
            with self.subTest(top=top):
                status, answer = self.server.chat(logprobs=True, top_logprobs=top, n=2)
                self.assertEqual(status, 200, answer)
                for choice in answer["choices"]:
                    self.near(choice["logprobs"]["content"], [self.row(w, top) for w in server_support.WORDS])
                    self.assertIsNone(choice["logprobs"]["refusal"])
        self.assertEqual(self.server.chat(logprobs=True)[1]["choices"][0]["logprobs"]["content"][0]["top_logprobs"], [])
        self.assertIsNone(self.server.chat(logprobs=False)[1]["choices"][0]["logprobs"])

    def test_bytes_of_a_cut_character(self):
        content = self.server.chat("bytes", logprobs=True)[1]["choices"][0]["logprobs"]["content"]
        self.assertEqual([row["bytes"] for row in content], [[0xE2], [0xAC], [ord("u")]])
        self.assertEqual(content[0]["token"], "\ufffd")

    def test_streams_have_all_scores_once(self):
        for text, fields in (("hi", {}), ("bytes", {}), ("ponder", {}), ("hi", {"n": 3}), ("hi", {"max_tokens": 2})):
            with self.subTest(text=text, **fields):
                body = {"model": "script", "messages": user(text), "logprobs": True, "top_logprobs": 2, **fields}
                whole = self.server.post("/v1/chat/completions", body)[1]["choices"]
                got = [[] for _ in whole]
                for event in self.server.events("/v1/chat/completions", {**body, "stream": True})[:-1]:
                    for choice in event["choices"]:
                        if choice["delta"].get("content"):
                            self.assertTrue(choice["logprobs"]["content"], "scores come with their text")
                        got[choice["index"]] += (choice["logprobs"] or {"content": []})["content"]
                self.assertEqual(got, [choice["logprobs"]["content"] for choice in whole])

    def test_completions(self):
        body = {"model": "script", "prompt": "hi", "logprobs": 2}
        status, answer = self.server.post("/v1/completions", body)
        self.assertEqual(status, 200, answer)
        table = answer["choices"][0]["logprobs"]
        self.assertEqual(table["tokens"], ["H", "l", " ", "l", "!"])
        self.assertEqual(table["text_offset"], [0, 1, 2, 3, 4])
        self.assertEqual(list(table["top_logprobs"][0]), ["H", "I"])
        self.assertAlmostEqual(table["token_logprobs"][0], HALF, 5)
        joined = {name: [] for name in table}
        for event in self.server.events("/v1/completions", {**body, "stream": True})[:-1]:
            for name, values in (event["choices"][0]["logprobs"] or {}).items():
                joined[name] += values
        self.assertEqual(joined, table)
        table = self.server.post("/v1/completions", {**body, "prompt": "bytes", "logprobs": 0})[1]["choices"][0]["logprobs"]
        self.assertEqual(table["tokens"], ["bytes:\\xe2", "bytes:\\xac", "u"])

    def test_echo(self):
        status, answer = self.server.post("/v1/completions", {"model": "script", "prompt": ["hi", [104]], "logprobs": 1, "echo": True, "max_tokens": 0})
        self.assertEqual(status, 200, answer)
        first, second = answer["choices"]
        self.assertEqual((first["text"], second["text"]), ("hi", "h"))
        self.assertEqual(first["logprobs"]["tokens"], ["h", "i"])
        self.assertEqual(first["logprobs"]["text_offset"], [0, 1])
        self.assertIsNone(first["logprobs"]["token_logprobs"][0])
        self.assertIsNone(first["logprobs"]["top_logprobs"][0])
        self.assertEqual(list(first["logprobs"]["top_logprobs"][1]), ["i"])
        table = self.server.post("/v1/completions", {"model": "script", "prompt": "hi", "logprobs": 1, "echo": True, "max_tokens": 1})[1]["choices"][0]["logprobs"]
        self.assertEqual(table["tokens"], ["h", "i", "H"])

    def test_refused(self):
        self.refused(self.server.chat(top_logprobs=2), 400, param="top_logprobs", says="logprobs")
        self.refused(self.server.chat(logprobs=True, top_logprobs=21), 400, param="top_logprobs")
        self.refused(self.server.chat(logprobs=3), 400, param="logprobs")
        self.refused(self.server.post("/v1/completions", {"model": "script", "prompt": "hi", "logprobs": 6}), 400, param="logprobs")
        self.refused(self.server.chat(min_tokens=9, max_tokens=8), 400, param="min_tokens")
        self.assertEqual(self.server.chat(min_tokens=2)[0], 200)


class Others(TestCase):
    def test_models(self):
        status, answer = self.server.get("/v1/models")
        self.assertEqual(status, 200)
        self.assertEqual(answer["object"], "list")
        row = answer["data"][0]
        self.assertEqual((row["id"], row["object"], row["loaded"], row["max_model_len"]), ("script", "model", True, 4096))
        self.assertEqual(self.server.get("/v1/models/script"), (200, row))
        self.refused(self.server.get("/v1/models/nothing"), 404, code="model_not_found")

    def test_operations(self):
        self.assertEqual(self.server.get("/health"), (200, {"status": "ok"}))
        self.assertEqual(self.server.get("/ready"), (200, {"status": "ready"}))
        self.assertEqual(self.server.get("/version"), (200, {"version": "test"}))
        self.server.chat()
        metrics = self.server.ask("GET", "/metrics")[2].decode()
        self.assertIn('gabbro_generated_tokens_total{model="script"} ', metrics)
        self.assertIn('gabbro_http_requests_total{handler="/v1/chat/completions",method="POST",status="200"}', metrics)
        for line in metrics.splitlines():
            self.assertRegex(line, r"^(# (HELP|TYPE) \w+ .+|\w+(\{(\w+=\"[^\"]*\",?)+\})? [0-9.e+-]+)$")

    def test_description(self):
        document = self.server.get("/openapi.json")[1]
        schemas = document["components"]["schemas"]

        def required(schema):
            if "$ref" in schema:
                kind, _, name = schema["$ref"].rpartition("/")
                self.assertEqual(kind, "#/components/schemas")
                return required(schemas[name])
            return schema.get("required", []) + [name for part in schema.get("allOf", []) for name in required(part)]

        described = 0
        for path, methods in document["paths"].items():
            if "post" not in methods:
                continue
            status, answer = self.server.post(path, {})
            self.assertNotEqual(status, 501, f"{path} is not served, and must not be described")
            names = required(methods["post"]["requestBody"]["content"]["application/json"]["schema"])
            if names:
                described += 1
                self.assertEqual(status, 400, path)
                message = answer["error"] if isinstance(answer["error"], str) else answer["error"]["message"]
                self.assertTrue(any(message.startswith(f"{name}: ") for name in names), (path, message))
        self.assertGreater(described, 20)
        self.assertNotIn("/api/pull", document["paths"])

    def test_tokens(self):
        post = self.server.post
        self.assertEqual(post("/tokenize", {"content": "hi<|im_end|>"}), (200, {"tokens": [104, 105, 257]}))
        self.assertEqual(post("/tokenize", {"content": "hi<|im_end|>", "parse_special": False})[1]["tokens"][:2], [104, 105])
        self.assertEqual(post("/tokenize", {"content": "é", "with_pieces": True})[1]["tokens"][0], {"id": 195, "piece": [195]})
        self.assertEqual(post("/tokenize", {"model": "script", "prompt": "hi"})[1], {"count": 2, "max_model_len": 4096, "tokens": [104, 105]})
        counted = post("/tokenize", {"model": "script", "messages": user()})[1]["count"]
        self.assertEqual(counted, self.server.chat()[1]["usage"]["prompt_tokens"])
        self.assertEqual(post("/detokenize", {"tokens": [104, 105, 257]})[1]["content"], "hi<|im_end|>")
        self.refused(post("/detokenize", {"tokens": [300]}), 400, param="tokens")
        self.assertEqual(self.server.get("/props")[1]["default_generation_settings"]["n_ctx"], 4096)

    def test_routes(self):
        self.refused(self.server.get("/nothing"), 404)
        for path in ("/v1/images/generations", "/v1/audio/speech"):
            self.refused(self.server.post(path, {}), 501)
        status, headers, _ = self.server.ask("GET", "/v1/chat/completions")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        status, headers, content = self.server.ask("HEAD", "/health")
        self.assertEqual((status, content, headers["Content-Length"]), (200, b"", "15"))

    def test_request_ids(self):
        _, headers, _ = self.server.ask("GET", "/health", headers={"X-Request-Id": "my-id_1"})
        self.assertEqual((headers["x-request-id"], headers["request-id"]), ("my-id_1", "my-id_1"))
        _, headers, _ = self.server.ask("GET", "/health", headers={"X-Request-Id": "bad id"})
        self.assertRegex(headers["x-request-id"], "^req_[A-Za-z0-9]{24}$")

    def test_connection_is_kept(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        for _ in range(3):
            connection.request("POST", "/v1/completions", json.dumps({"model": "script", "prompt": "hi", "stream": True}),
                               {"Content-Type": "application/json"})
            self.assertTrue(connection.getresponse().read().endswith(b"data: [DONE]\n\n"))
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().read(), b'{"status":"ok"}')
        connection.close()


class Strict(TestCase):
    config = {"strict": True, "any_model": True, "aliases": {"gpt-4": "script"}}

    def test_unknown_fields_are_refused(self):
        self.refused(self.server.chat(wholly_unknown=1), 400, code="unknown_parameter", param="wholly_unknown")
        status, answer = self.server.chat(user="x", store=False, temperature=1, seed=5, parallel_tool_calls=True)
        self.assertEqual(status, 200, answer)

    def test_names(self):
        self.assertEqual(self.server.chat(model="gpt-4")[1]["model"], "script")
        self.assertEqual(self.server.chat(model="anything")[1]["model"], "script")


if __name__ == "__main__":
    server_support.main()

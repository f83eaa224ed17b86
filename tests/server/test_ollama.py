"""Ollama's dialect, on a scripted model."""
import re
import unittest

import server_support
from server_support import TEXT, TestCase

RFC3339 = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$"


class Ollama(TestCase):
    def request(self, text="hi", **fields):
        return {"model": "script", "messages": [{"role": "user", "content": text}], **fields}

    def test_a_request_that_only_loads_is_checked(self):
        for path, fields in (("/api/chat", {"messages": []}), ("/api/generate", {})):
            self.assertEqual(self.server.post(path, {"model": "script", **fields})[1]["done_reason"], "load")
            wrong = [("messages", {})] if fields else [("raw", {}), ("system", 5), ("context", "x")]
            for name, value in (*wrong, ("think", {}), ("options", 5), ("options", {"stop": 5})):
                status, answer = self.server.post(path, {"model": "script", **fields, name: value})
                self.assertEqual(status, 400, (path, name))
                self.assertIn("stop" if value == {"stop": 5} else name, answer["error"])

    def test_chat_streams(self):
        lines = self.server.lines("/api/chat", self.request())
        self.assertEqual("".join(line["message"]["content"] for line in lines), TEXT)
        self.assertEqual([line["done"] for line in lines], [False] * (len(lines) - 1) + [True])
        for line in lines:
            self.assertEqual((line["model"], line["message"]["role"]), ("script", "assistant"))
            self.assertRegex(line["created_at"], RFC3339)
        last = lines[-1]
        self.assertEqual((last["message"]["content"], last["done_reason"], last["eval_count"]), ("", "stop", 5))
        for name in ("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_duration"):
            self.assertIsInstance(last[name], int)

    def test_chat_whole(self):
        status, answer = self.server.post("/api/chat", self.request(stream=False, options={"num_predict": 2}))
        self.assertEqual(status, 200)
        self.assertEqual((answer["message"]["content"], answer["done"], answer["done_reason"]), ("Hello", True, "length"))

    def test_thoughts(self):
        _, answer = self.server.post("/api/chat", self.request("ponder", stream=False))
        self.assertEqual(answer["message"], {"role": "assistant", "content": "yes", "thinking": "hmm"})
        lines = self.server.lines("/api/chat", self.request("ponder"))
        self.assertEqual("".join(line["message"].get("thinking", "") for line in lines), "hmm")
        self.assertEqual("".join(line["message"]["content"] for line in lines), "yes")

    def test_generate(self):
        lines = self.server.lines("/api/generate", {"model": "script", "prompt": "hi"})
        self.assertEqual("".join(line["response"] for line in lines), TEXT)
        _, whole = self.server.post("/api/generate", {"model": "script", "prompt": "hi", "stream": False, "system": "be"})
        self.assertEqual(whole["response"], TEXT)
        self.assertEqual(len(whole["context"]), whole["prompt_eval_count"] + whole["eval_count"])
        _, again = self.server.post("/api/generate", {"model": "script", "prompt": "hi", "stream": False, "context": whole["context"]})
        self.assertGreater(again["prompt_eval_count"], len(whole["context"]))
        _, raw = self.server.post("/api/generate", {"model": "script", "prompt": "hi", "stream": False, "raw": True})
        self.assertEqual(raw["prompt_eval_count"], 2)

    def test_loading(self):
        for path, fields, reason in (("/api/chat", {"messages": []}, "load"), ("/api/generate", {}, "load"),
                                     ("/api/generate", {"keep_alive": 0}, "unload"), ("/api/generate", {"prompt": "", "keep_alive": "5m"}, "load")):
            status, answer = self.server.post(path, {"model": "script", **fields})
            self.assertEqual((status, answer["done"], answer["done_reason"]), (200, True, reason))
            self.assertEqual(len(self.server.get("/api/ps")[1]["models"]), 0 if reason == "unload" else 1)

    def test_keep_alive(self):
        for value, status in (("5m", 200), ("1h30m", 200), ("-1", 200), (-1, 200), (300, 200), ("1.5h", 200), ("300", 200), ("5 m", 400),
                              ("", 400), ("m", 400), (True, 400), ({}, 400)):
            self.assertEqual(self.server.post("/api/generate", {"model": "script", "keep_alive": value})[0], status, value)

    def test_lists(self):
        self.server.post("/api/generate", {"model": "script", "keep_alive": "5m"})
        tags = self.server.get("/api/tags")[1]["models"]
        self.assertEqual((tags[0]["name"], tags[0]["model"], tags[0]["size"]), ("script", "script", 1000))
        self.assertEqual(tags[0]["details"]["family"], "script")
        self.assertRegex(tags[0]["digest"], "^[0-9a-f]{64}$")
        loaded = self.server.get("/api/ps")[1]["models"][0]
        self.assertEqual((loaded["name"], loaded["context_length"], loaded["size_vram"]), ("script", 4096, 0))
        self.assertRegex(loaded["expires_at"], RFC3339)
        self.assertTrue(re.fullmatch(r"\d+\.\d+\.\d+", self.server.get("/api/version")[1]["version"]))
        self.assertEqual(self.server.ask("GET", "/")[2], b"Ollama is running")
        self.assertEqual(self.server.ask("HEAD", "/")[0], 200)

    def test_show(self):
        status, answer = self.server.post("/api/show", {"model": "script"})
        self.assertEqual(status, 200)
        self.assertIn("<|im_start|>", answer["template"])
        self.assertEqual(answer["capabilities"], ["completion"])
        self.assertEqual(answer["model_info"]["script.context_length"], 4096)

    def test_num_ctx_bounds_the_request(self):
        status, answer = self.server.post("/api/chat", self.request(stream=False, options={"num_ctx": 10}))
        self.assertEqual(status, 400)
        self.assertIn("more than the context of 10", answer["error"])
        prompt = self.server.post("/api/chat", self.request(stream=False))[1]["prompt_eval_count"]
        _, answer = self.server.post("/api/chat", self.request(stream=False, options={"num_ctx": prompt + 1}))
        self.assertEqual((answer["done_reason"], answer["eval_count"]), ("length", 2))

    def test_errors(self):
        for path, body, status in (("/api/chat", {"messages": []}, 400), ("/api/chat", self.request(model="nothing"), 404),
                                   ("/api/chat", self.request(tools=[{"type": "function"}]), 400), ("/api/chat", self.request(format="xml"), 400),
                                   ("/api/chat", self.request(format={"not": {}}), 400),
                                   ("/api/chat", self.request(stream="yes"), 400), ("/api/chat", self.request(options={"top_p": 2}), 400),
                                   ("/api/pull", {"model": "x"}, 501), ("/api/create", {}, 501), ("/api/nothing", {}, 404),
                                   ("/api/embed", {"model": "script", "input": "x"}, 400)):
            got, answer = self.server.post(path, body)
            self.assertEqual(got, status, answer)
            self.assertEqual(list(answer), ["error"])
            self.assertIsInstance(answer["error"], str)

    def test_format(self):
        for form in ("", "json", {"type": "object"}):
            for path, body in (("/api/chat", self.request()), ("/api/generate", {"model": "script", "prompt": "hi"})):
                status, answer = self.server.post(path, {**body, "stream": False, "format": form})
                self.assertEqual(status, 200, answer)

    def test_scores(self):
        for path, body in (("/api/chat", self.request()), ("/api/generate", {"model": "script", "prompt": "hi"})):
            whole = self.server.post(path, {**body, "stream": False, "logprobs": True, "top_logprobs": 2})[1]["logprobs"]
            self.assertEqual([row["token"] for row in whole], ["H", "l", " ", "l", "!"])
            self.assertEqual([top["token"] for top in whole[0]["top_logprobs"]], ["H", "I"])
            lines = self.server.lines(path, {**body, "logprobs": True, "top_logprobs": 2})
            self.assertEqual([row for line in lines for row in line.get("logprobs", [])], whole)
            self.assertNotIn("logprobs", self.server.post(path, {**body, "stream": False})[1])

    def test_failure_in_mid_stream(self):
        lines = self.server.lines("/api/chat", self.request("broken"))
        self.assertEqual(lines[-1], {"error": "the script fails"})

    def test_the_same_text_in_all_dialects(self):
        for text in ("hi", "bytes"):
            openai = self.server.chat(text)[1]["choices"][0]["message"]["content"]
            ollama = self.server.post("/api/chat", self.request(text, stream=False))[1]["message"]["content"]
            self.assertEqual(openai, ollama)


if __name__ == "__main__":
    server_support.main()

"""llama.cpp's /completion and /infill, on scripted models."""
import server_support
from server_support import TEXT, TestCase

FIM = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]
FILL = {"model": {"controls": [*FIM, "<|repo_name|>", "<|file_sep|>"]}, "answers": [
    {"if": "<|repo_name|>project\n<|file_sep|>b.py\nx = 1\n<|file_sep|>file\n<|fim_prefix|>def f(<|fim_suffix|>): pass<|fim_middle|>", "tokens": ["repo"]},
    {"if": "<|fim_prefix|>def f(<|fim_suffix|>): pass<|fim_middle|>", "tokens": ["a", "\n"]}, {"tokens": ["other"]}]}


class Completion(TestCase):
    config = {"models": {"script": server_support.SCRIPT, "fill": FILL}}

    def whole(self, prompt="hi", path="/completion", **fields):
        status, answer = self.server.post(path, {"model": "script", "prompt": prompt, **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def stream(self, prompt="hi", **fields):
        events = self.server.events("/completion", {"model": "script", "prompt": prompt, "stream": True, **fields})
        self.assertEqual([event["stop"] for event in events], [False] * (len(events) - 1) + [True])
        return "".join(event["content"] for event in events), events[-1]

    def test_whole(self):
        answer = self.whole()
        self.assertEqual((answer["content"], answer["stop"], answer["stop_type"], answer["stopping_word"]), (TEXT, True, "eos", ""))
        self.assertEqual((answer["tokens_predicted"], answer["tokens_evaluated"], answer["tokens"], answer["prompt"]), (5, 2, [], "hi"))
        settings = answer["generation_settings"]
        self.assertEqual((round(settings["temperature"], 3), settings["top_k"], round(settings["top_p"], 3), round(settings["min_p"], 3)), (0.8, 40, 0.95, 0.05))
        self.assertEqual(answer["timings"]["predicted_n"], 5)

    def test_ends(self):
        for fields, text, kind, word in (({"n_predict": 2}, "Hello", "limit", ""), ({"stop": [" wor"]}, "Hello", "word", " wor"), ({"n_predict": 0}, "", "limit", ""),
                                         ({"n_predict": -1}, TEXT, "eos", ""), ({"max_tokens": 1}, "Hel", "limit", "")):
            answer = self.whole(**fields)
            self.assertEqual((answer["content"], answer["stop_type"], answer["stopping_word"]), (text, kind, word), fields)
            streamed, last = self.stream(**fields)
            self.assertEqual((streamed, last["stop_type"], last["stopping_word"]), (text, kind, word), fields)

    def test_prompts(self):
        for prompt, tokens in (("hi", 2), ([104, 105], 2), ([104, "i!", 33], 4), ("<|im_end|>", 1), (["hi"], 2)):
            self.assertEqual(self.whole(prompt)["tokens_evaluated"], tokens, prompt)

    def test_fields(self):
        self.assertEqual(self.whole(response_fields=["content", "generation_settings/top_k", "nothing/here", "stop/x"]), {"content": TEXT, "top_k": 40})
        self.assertEqual(len(self.whole(return_tokens=True)["tokens"]), 5)
        rows = self.whole(n_probs=2)["completion_probabilities"]
        self.assertEqual([(row["id"], row["token"], len(row["top_logprobs"])) for row in rows], [(ord(c), c, 2) for c in "Hl l!"])
        events = self.server.events("/completion", {"model": "script", "prompt": "hi", "stream": True, "n_probs": 2})
        self.assertEqual([row for event in events for row in event.get("completion_probabilities", [])], rows)
        for fields in ({"cache_prompt": True}, {"id_slot": -1}, {"samplers": ["top_k"]}, {"t_max_predict_ms": 500}, {"grammar": 'root ::= "H"'}, {"json_schema": {}},
                       {"temperature": 0.5, "seed": 5, "repeat_penalty": 1.1}):
            self.assertEqual(self.whole(**fields)["content"], TEXT, fields)

    def test_fills_in(self):
        parts = {"model": "fill", "input_prefix": "def ", "prompt": "f(", "input_suffix": "): pass"}
        for fields in ({}, {"n_indent": 4, "samplers": ["top_k", "infill"], "t_max_prompt_ms": 500, "input_extra": []}):
            status, answer = self.server.post("/infill", {**parts, **fields})
            self.assertEqual((status, answer.get("content"), answer.get("has_new_line")), (200, "a\n", True), answer)
        extra = [{"filename": "b.py", "text": "x = 1\n"}]
        self.assertEqual(self.server.post("/infill", {**parts, "input_extra": extra})[1]["content"], "repo")
        # Texts of a request are never control tokens.
        self.assertEqual(self.server.post("/infill", {**parts, "input_suffix": "<|fim_middle|>"})[1]["tokens_evaluated"],
                         len("def f(") + len("<|fim_middle|>") + 3)
        self.assertEqual(self.server.post("/api/show", {"model": "fill"})[1]["capabilities"], ["completion", "insert"])

    def test_suffix_of_other_dialects(self):
        status, answer = self.server.post("/v1/completions", {"model": "fill", "prompt": "def f(", "suffix": "): pass"})
        self.assertEqual((status, answer["choices"][0]["text"]), (200, "a\n"), answer)
        several = self.server.post("/v1/completions", {"model": "fill", "prompt": ["def f(", "x"], "suffix": "): pass"})[1]["choices"]
        self.assertEqual([choice["text"] for choice in several], ["a\n", "other"])
        lines = self.server.lines("/api/generate", {"model": "fill", "prompt": "def f(", "suffix": "): pass", "options": {"temperature": 0}})
        self.assertEqual("".join(line["response"] for line in lines), "a\n")
        for model, prompt, says in (("script", "hi", "no tokens for text between"), ("fill", [104, 105], "needs a prompt of text")):
            self.refused(self.server.post("/v1/completions", {"model": model, "prompt": prompt, "suffix": "x"}), 400, says, param="suffix")
        self.assertEqual(self.server.post("/api/generate", {"model": "script", "prompt": "hi", "suffix": "x"})[0], 400)
        self.assertEqual(self.server.post("/v1/completions", {"model": "script", "prompt": "hi", "suffix": ""})[1]["choices"][0]["text"], TEXT)

    def test_errors(self):
        for fields, says in (({"prompt": None}, "prompt: is required"), ({"prompt": ""}, "prompt: is empty"), ({"prompt": []}, "prompt: is empty"), ({"prompt": 5}, "prompt"),
                             ({"prompt": ["a", "b"]}, "several prompts"), ({"prompt": [9999]}, "outside of the vocabulary"), ({"prompt": [[1]]}, "prompt: expected token ids"),
                             ({"n_predict": "x"}, "n_predict"), ({"n_probs": 50}, "n_probs"), ({"response_fields": [5]}, "response_fields[0]"), ({"stream": 5}, "stream"),
                             ({"grammar": "root ::= ("}, "grammar"), ({"prompt": "x" * 5000}, "more than the context"), ({"temperature": -1}, "temperature")):
            with self.subTest(fields=fields):
                self.refused(self.server.post("/completion", {"model": "script", "prompt": "hi", **fields}), 400, says)
        for fields, says in (({}, "no tokens for text between"), ({"model": "fill", "input_extra": [{}]}, "input_extra[0].text: is required"),
                             ({"model": "fill", "input_extra": 5}, "input_extra"), ({"model": "fill", "input_prefix": 5}, "input_prefix")):
            self.refused(self.server.post("/infill", {"model": "script", **fields}), 400, says)
        self.refused(self.server.post("/completion", {"model": "script", "prompt": "broken"}), 500, "the script fails")
        events = self.server.events("/completion", {"model": "script", "prompt": "broken", "stream": True})
        self.assertEqual(events[-1]["error"]["message"], "the script fails")


if __name__ == "__main__":
    server_support.main()

"""run, logits, perplexity and bench llm on the tiny model: their documents, their options, and bad input."""
import json
import math
import re
import struct

import support
from gguf_edit import Gguf
from support import TINY_F16, TINY_Q4_0, TINY_Q8_0, TestCase

CONTEXT = 512
END = 256 + 40 + 2  # <|im_end|>
CUT_OFF = "gabbro: note: the answer was cut off after %d tokens (--max-tokens)\n"


def read_npy(path):
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    length, = struct.unpack_from("<H", data, 8)
    header = eval(data[10:10 + length])
    assert header["descr"] == "<f4" and not header["fortran_order"]
    values = struct.unpack(f"<{(len(data) - 10 - length) // 4}f", data[10 + length:])
    rows, columns = header["shape"]
    return [values[i * columns:(i + 1) * columns] for i in range(rows)]


class Run(TestCase):
    def document(self, *arguments, model=TINY_F16, **options):
        return json.loads(self.succeeds("run", model, *arguments, "--json", **options).out)

    def test_document(self):
        d = self.document("Hello", "-n", "20", "--temperature", "0")
        for field in ("text", "token_ids", "prompt_tokens", "generated_tokens", "prefill_seconds", "decode_seconds",
                      "tokens_per_second", "stop_reason", "device", "model"):
            self.assertIn(field, d)
        self.assertEqual((len(d["token_ids"]), d["generated_tokens"], d["stop_reason"]), (20, 20, "length"))
        self.assertEqual((d["device"], d["model"]), ("cpu", "Tiny"))
        self.assertGreater(d["tokens_per_second"], 0)

    def test_text_is_what_the_document_says(self):
        arguments = ["Hello", "-n", "30", "--seed", "5"]
        result = self.succeeds("run", TINY_F16, *arguments)
        text = self.document(*arguments)["text"]
        self.assertEqual(result.text, text if text.endswith("\n") else text + "\n")
        self.assertEqual(result.err, CUT_OFF.encode() % 30)  # not a terminal: not another word

    def test_all_formats_run(self):
        for model in (TINY_F16, TINY_Q8_0, TINY_Q4_0):
            self.assertEqual(self.document("Hello", "-n", "5", "--temperature", "0", model=model)["generated_tokens"], 5)

    def test_seeds(self):
        ids = [self.document("Hi", "-n", "24", "--temperature", "1.5", "--seed", s)["token_ids"] for s in "778"]
        self.assertEqual(ids[0], ids[1])
        self.assertNotEqual(ids[0], ids[2])

    def test_greedy_equals_the_argmax_of_logits(self):
        prompt = json.loads(self.succeeds("tokenize", TINY_F16, "The", "--json").out)["token_ids"]
        answer = self.document("The", "-n", "6", "--temperature", "0", "--raw")["token_ids"]
        tokens = ",".join(map(str, prompt + answer))
        self.succeeds("logits", TINY_F16, "--tokens", tokens, "--out", self.folder / "l.npy")
        rows = read_npy(self.folder / "l.npy")
        self.assertEqual([max(range(300), key=row.__getitem__) for row in rows[len(prompt) - 1:-1]], answer)

    def test_prompt_from_pipe_argument_and_both(self):
        one = ["-n", "8", "--temperature", "0"]
        by_argument = self.document("a\n\nb", *one)
        self.assertEqual(self.document(*one, stdin=b"a\n\nb\n")["token_ids"], by_argument["token_ids"])
        self.assertEqual(self.document("a", *one, stdin=b"b\n")["prompt_tokens"], by_argument["prompt_tokens"])

    def test_template_system_and_raw(self):
        count = lambda *words: self.document("Hi", "-n", "1", *words)["prompt_tokens"]
        self.assertLess(count("--raw"), count())
        self.assertLess(count(), count("--system", "Be kind."))

    def test_bos_is_there_once(self):
        model = Gguf(TINY_F16)
        model.fields[b"tokenizer.ggml.add_bos_token"] = (7, True)
        model.write(self.folder / "adds.gguf")
        source = model.fields[b"tokenizer.chat_template"][1]
        model.fields[b"tokenizer.chat_template"] = (8, b"{{ bos_token }}" + source)
        model.write(self.folder / "both.gguf")
        counts = [self.document("Hi", "-n", "1", model=m)["prompt_tokens"]
                  for m in (TINY_F16, self.folder / "adds.gguf", self.folder / "both.gguf")]
        self.assertEqual(counts, [counts[0], counts[0] + 1, counts[0] + 1])

    def test_without_a_template(self):
        model = Gguf(TINY_F16)
        del model.fields[b"tokenizer.chat_template"]
        model.write(self.folder / "plain.gguf")
        result = self.succeeds("run", self.folder / "plain.gguf", "Hi", "-n", "4")
        self.assertRegex(result.err.decode(), r"^gabbro: note: .*no chat template.*\n" + re.escape(CUT_OFF % 4) + "$")

    def test_a_bad_template_stops_chats_alone(self):
        corpus = self.file("corpus.txt", "The quick brown fox jumps over the lazy dog. " * 8)
        raw = self.document("Hi", "-n", "8", "--temperature", "0", "--raw")["token_ids"]
        for field, says in (((8, b"hello\n{% if %}"), "chat template: line 2"), ((6, 1.5), "tokenizer.chat_template")):
            model = Gguf(TINY_F16)
            model.fields[b"tokenizer.chat_template"] = field
            path = self.folder / "bad.gguf"
            model.write(path)
            self.fails(2, "run", path, "Hi", says=says)
            self.assertEqual(self.document("Hi", "-n", "8", "--temperature", "0", "--raw", model=path)["token_ids"], raw)
            self.succeeds("tokenize", path, "Hi")
            self.succeeds("logits", path, "--tokens", "1,2", "--out", self.folder / "l.npy")
            self.succeeds("perplexity", path, "--file", corpus, "--ctx", "64")
            self.succeeds("bench", "llm", path, "-p", "8", "-n", "4", "--repetitions", "1")

    def test_stop_text_is_not_shown(self):
        arguments = ["Hello", "-n", "60", "--temperature", "0"]
        text = self.document(*arguments)["text"]
        stop = text[10:13]
        cut = self.document(*arguments, "--stop", stop, "--stop", "never appears")
        self.assertEqual((cut["text"], cut["stop_reason"]), (text[:text.index(stop)], "stop"))

    def test_end_of_generation(self):
        d = self.document("Hello", "--logit-bias", f"{END}=100")
        self.assertEqual((d["text"], d["stop_reason"], d["generated_tokens"]), ("", "eos", 0))

    def test_context_full(self):
        d = self.document("Hello", "--ctx", "64", "--temperature", "0", "--logit-bias", f"{END}=-inf")
        self.assertEqual((d["stop_reason"], d["prompt_tokens"] + d["generated_tokens"]), ("context", 65))
        # The last token needs no slot: nothing is computed from it.

    def test_no_tokens_asked_for(self):
        d = self.document("Hello", "-n", "0")
        self.assertEqual((d["text"], d["generated_tokens"], d["stop_reason"]), ("", 0, "length"))

    def test_output_is_valid_utf8(self):
        for seed in range(1, 6):  # random bytes, most of them broken
            self.succeeds("run", TINY_F16, "Hello", "-n", "200", "--temperature", "5", "--top-k", "0", "--top-p", "1",
                          "--min-p", "0", "--seed", str(seed)).out.decode()

    def test_every_sampling_option_is_accepted(self):
        self.document("Hi", "-n", "8", "--typical-p", "0.9", "--repeat-penalty", "1.1", "--frequency-penalty", "0.1",
                      "--presence-penalty", "0.1", "--penalty-window", "-1", "--dry-multiplier", "0.8", "--dry-base", "2",
                      "--dry-allowed-length", "3", "--xtc-probability", "0.5", "--xtc-threshold", "0.2", "--kv-type", "q8_0")
        for version in "12":
            self.document("Hi", "-n", "8", "--mirostat", version, "--mirostat-tau", "4", "--mirostat-eta", "0.2")

    def test_sequence_breakers(self):
        def tokens(*breakers):
            options = [word for breaker in breakers for word in ("--dry-sequence-breaker", breaker)]
            return self.document("aba aba", "-n", "60", "--repeat-penalty", "1", "--dry-multiplier", "9", *options)["token_ids"]
        none = tokens("none")
        self.assertNotEqual(none, self.document("aba aba", "-n", "60", "--repeat-penalty", "1")["token_ids"])
        everything = self.document("aba aba", "-n", "60", "--repeat-penalty", "1", "--dry-multiplier", "9",
                                   *(w for b in range(1, 128) for w in ("--dry-sequence-breaker", chr(b))))["token_ids"]
        self.assertNotEqual(none, everything)  # repetitions that every character ends are none
        self.assertEqual(tokens("a", "none"), none)
        self.assertEqual(tokens("none", "\n", ":", '"', "*"), tokens())
        self.fails(2, "run", TINY_F16, "Hi", "--dry-sequence-breaker", "", says="dry-sequence-breaker")
        self.fails(2, "run", TINY_F16, "Hi", "--dry-sequence-breaker", "x" * 41, says="dry-sequence-breaker")

    def test_threads_do_not_change_the_answer(self):
        ids = [self.document("Hi", "-n", "16", "--temperature", "0", "--threads", t)["token_ids"] for t in "123"]
        self.assertEqual(ids[1:], ids[:1] * 2)

    def test_stats(self):
        err = self.succeeds("run", TINY_F16, "Hi", "-n", "4", "--stats", "--seed", "9").err.decode()
        self.assertRegex(err, "^" + re.escape(CUT_OFF % 4) + r"prompt \d+ tokens .*tokens/s; generated 4 in .*; length, seed 9\n$")
        self.assertRegex(self.succeeds("run", TINY_F16, "Hi", "-n", "4", "--log-level", "info").err.decode(),
                         r"^cpu  .* weights \+ .* cache of .*\n")


class Formats(TestCase):
    SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}, "ok": {"type": "boolean"}},
              "required": ["name", "ok"], "additionalProperties": False}

    def answer(self, *arguments):
        return json.loads(self.succeeds("run", TINY_F16, "Hello", *arguments, "--json", "-n", "300", "--temperature", "1").out)

    def test_answers_have_the_form(self):
        schema, grammar = self.folder / "schema.json", self.folder / "ab.gbnf"
        schema.write_text(json.dumps(self.SCHEMA))
        grammar.write_text('root ::= "a" ("b" | "c"){2}')
        for seed in ("1", "2", "3"):
            for given in (schema, json.dumps(self.SCHEMA)):
                answer = self.answer("--schema", given, "--seed", seed)
                document = json.loads(answer["text"])
                self.assertEqual((sorted(document), answer["stop_reason"]), (["name", "ok"], "eos"))
                self.assertLessEqual(len(document["name"]), 5)
                self.assertIsInstance(document["ok"], bool)
            self.assertRegex(self.answer("--grammar", grammar, "--seed", seed)["text"], "^a[bc]{2}$")
            self.assertRegex(self.answer("--regex", "[0-9]{3}-é", "--seed", seed)["text"], "^[0-9]{3}-é$")

    def test_strict_schemas(self):
        schema = json.dumps({name: value for name, value in self.SCHEMA.items() if name != "additionalProperties"})
        for seed in "34":
            self.assertEqual(self.answer("--schema", schema, "--strict", "--seed", seed)["token_ids"],
                             self.answer("--schema", json.dumps(self.SCHEMA), "--seed", seed)["token_ids"])
        self.fails(2, "run", TINY_F16, "Hello", "--strict", says="--schema")

    def test_drafts_and_workers_change_nothing(self):
        arguments = ["--schema", json.dumps(self.SCHEMA), "--seed", "7"]
        expected = self.answer(*arguments)["token_ids"]
        self.assertEqual(self.answer(*arguments, "--lookup")["token_ids"], expected)
        self.assertEqual(self.answer(*arguments, "--deterministic")["token_ids"], expected)
        answer = self.succeeds("run", TINY_F16, "Hello", *arguments, "--json", "-n", "300", "--temperature", "1",
                               environment={"GABBRO_WORKER": "on"})
        self.assertEqual(json.loads(answer.out)["token_ids"], expected)

    def test_bad_formats(self):
        for arguments, message in ((("--schema", '{"not": {}}'), "--schema: JSON schema, #/not: the keyword is not supported"),
                                   (("--schema", self.folder / "none.json"), "none.json"),
                                   (("--regex", "a("), "--regex: regular expression 'a(', position 3: missing )"),
                                   (("--regex", "a", "--schema", "{}"), "exclude each other")):
            self.fails(2, "run", TINY_F16, "Hello", *arguments, says=message)


class BadInput(TestCase):
    def test_ranges_are_those_that_count(self):
        for arguments, says in ((["--seed", "18446744073709551616"], "out of range: expected 0 to 2^64 - 1"),
                                (["--seed", "-1"], "-1 must not be negative"), (["-n", "-2"], "expected -1 or more"),
                                (["--ctx", "99999999999"], "expected 0 to 1073741824"),
                                (["--threads", "5000"], "expected 0 to 1024"),
                                (["--ctx", "99999999999999999999"], "out of range: expected 0 to 1073741824")):
            self.fails(2, "run", TINY_F16, "hi", *arguments, says=[arguments[0], says])
        self.succeeds("run", TINY_F16, "hi", "-n", "2", "--seed", "18446744073709551615")

    def test_empty_prompts(self):
        self.fails(2, "run", TINY_F16, "", says="the prompt is empty")
        self.fails(2, "run", TINY_F16, says="the prompt is empty")
        self.fails(2, "run", TINY_F16, stdin=b"", says="the prompt is empty")
        self.fails(2, "run", TINY_F16, "--json", stdin=b"\n", says="the prompt is empty")

    def test_prompt_longer_than_the_context(self):
        self.fails(2, "run", TINY_F16, "x " * 3000, says=["context", str(CONTEXT)])
        self.fails(2, "run", TINY_F16, "hello there, dear", "--ctx", "8", says=["8", "--ctx"])

    def test_prompts_that_are_not_utf8(self):
        self.succeeds("run", TINY_F16, b"\xff\xfe\x80", "-n", "2", "--json").out.decode()
        self.succeeds("run", TINY_F16, "-n", "2", stdin=b"\xc0\xaf\xed\xa0\x80" + bytes(range(1, 256, 3)))

    def test_files_that_are_not_models(self):
        for command in (["run"], ["bench", "llm"], ["logits", "--tokens", "1", "--out", self.folder / "o.npy"],
                        ["perplexity", "--file", __file__]):
            tail = ["hi"] if command == ["run"] else []
            self.fails(2, *command, self.folder / "missing.gguf", *tail, says="missing.gguf")
            self.fails(2, *command, self.folder, *tail)
            self.fails(2, *command, self.file("empty.gguf", b""), *tail, says="empty.gguf")

    def test_devices_that_are_not_there(self):
        for device in ("rocm", "cuda:7", "gfx1100", "nonsense", ""):
            if device:
                self.fails(3, "run", TINY_F16, "hi", "--device", device)

    def test_json_and_chat_do_not_mix(self):
        self.fails(2, "logits", TINY_F16, "--tokens", "1,2,300", "--out", self.folder / "o.npy", says="300")
        self.fails(2, "logits", TINY_F16, "--tokens", "1,,2", "--out", self.folder / "o.npy", says="--tokens")
        self.fails(1, "logits", TINY_F16, "--tokens", "1", "--out", "/no/such/folder/o.npy", says="/no/such/folder")


class Perplexity(TestCase):
    def test_equals_its_definition(self):
        text = " ".join(f"The {n} dogs think that {n * n} is the answer." for n in range(30))
        path = self.file("text", text)
        d = json.loads(self.succeeds("perplexity", TINY_F16, "--file", path, "--ctx", "64", "--json").out)
        ids = json.loads(self.succeeds("tokenize", TINY_F16, "--file", path, "--json").out)["token_ids"]
        chunks = len(ids) // 64
        self.assertEqual((d["chunks"], d["tokens"]), (chunks, chunks * 31))
        total = 0
        for c in range(chunks):
            chunk = ids[c * 64:(c + 1) * 64]
            self.succeeds("logits", TINY_F16, "--tokens", ",".join(map(str, chunk)), "--out", self.folder / "l.npy")
            rows = read_npy(self.folder / "l.npy")
            for i in range(32, 63):
                top = max(rows[i])
                total += math.log(sum(math.exp(x - top) for x in rows[i])) - (rows[i][chunk[i + 1]] - top)
        # Two orders of f32 sums (half a chunk at a time, the chunk at once).
        self.assertAlmostEqual(math.log(d["perplexity"]), total / d["tokens"], delta=1e-3)

    def test_bad_input(self):
        self.fails(2, "perplexity", TINY_F16, "--file", self.file("short", "too short"), says="at least 1024")
        self.fails(2, "perplexity", TINY_F16, "--file", self.file("empty", ""), says="tokens")
        self.fails(2, "perplexity", TINY_F16, "--file", self.folder / "missing", says="missing")
        self.fails(2, "perplexity", TINY_F16, "--file", self.file("t", "x"), "--ctx", "1", says="--ctx")
        self.succeeds("perplexity", TINY_F16, "--file", self.file("bytes", bytes(range(256)) * 3), "--ctx", "64")


class Bench(TestCase):
    def test_document(self):
        d = json.loads(self.succeeds("bench", "llm", TINY_Q4_0, "-p", "40", "-n", "12", "--repetitions", "3", "--threads",
                                     "1", "--json").out)
        prompt, generation = d["results"]
        self.assertEqual([prompt["test"], generation["test"]], ["pp40", "tg12"])
        for row in d["results"]:
            speed = row["tokens_per_second"]
            self.assertTrue(0 < speed["min"] <= speed["median"] <= speed["max"])
            self.assertEqual((row["model"], row["quantisation"], row["device"], row["threads"]), ("Tiny", "q4_0", "cpu", 1))
        self.assertGreater(generation["bytes_per_token"], 30000)
        self.assertGreater(generation["bandwidth_share"], 0)

    def test_bench_of_several_sequences(self):
        d = json.loads(self.succeeds("bench", "llm", TINY_Q4_0, "-p", "20", "-n", "6", "--repetitions", "2", "--batch", "1,3",
                                     "--json").out)
        self.assertEqual([row["test"] for row in d["results"]], ["pp20", "tg6", "pp20 x3", "tg6 @ d20 x3"])
        for batch in ("0", "", "1,x", "2000"):
            self.fails(2, "bench", "llm", TINY_Q4_0, "--batch", batch, says="--batch")
        drawn = json.loads(self.succeeds("bench", "llm", TINY_Q4_0, "-p", "4", "-n", "6", "--repetitions", "1", "--batch", "3",
                                         "--temperature", "0.8", "--top-p", "0.95", "--json").out)
        self.assertEqual(d["temperature"], 0)
        self.assertAlmostEqual(drawn["temperature"], 0.8, 6)
        self.fails(2, "bench", "llm", TINY_Q4_0, "-p", "4", "-n", "4", "--batch", "2", "--top-p", "2", says="top-p must be")

    def test_table_and_left_out_tests(self):
        text = self.succeeds("bench", "llm", TINY_F16, "-p", "0", "-n", "4", "--repetitions", "1", "--no-warmup").text
        self.assertIn("tg4", text)
        self.assertNotIn("pp", text)

    def test_bad_input(self):
        for option, value in (("-p", "-1"), ("-n", "x"), ("--repetitions", "0"), ("--threads", "-3")):
            self.fails(2, "bench", "llm", TINY_F16, option, value)


if __name__ == "__main__":
    support.main()

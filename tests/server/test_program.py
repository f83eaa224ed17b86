"""`gabbro serve` with models of files: a tiny one, and encoders."""
import base64
import fcntl
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import support  # noqa: E402
from gguf_edit import Gguf  # noqa: E402
from server_support import raw_request  # noqa: E402
from support import ROOT, TINY_F16, TINY_Q8_0, TestCase  # noqa: E402

MEASURING = 0.1  # seconds that asking for the count takes
AFTER_A_HANG = 120 if support.SANITIZED else 15 + 5  # seconds, with an allowance for a busy machine
ENCODERS = ROOT / "tests" / "data" / "encoders"


class Program:
    def __init__(self, *arguments):
        self.process = subprocess.Popen([support.PROGRAM, "serve", *map(str, arguments), "--port", "0", "--threads", "1", "--host", "127.0.0.1"],
                                        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.notes = []
        for line in self.process.stderr:
            self.notes.append(line)
            if line.startswith(("listening on http://127.0.0.1:", "listening on https://127.0.0.1:")):
                self.port = int(line.rsplit(":", 1)[1])
                return
        raise AssertionError(self.notes)

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        content = json.loads(answer.read())
        connection.close()
        return answer.status, content

    def text(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("GET", path)
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.communicate(timeout=60)
        return self.process.returncode


class Serve(TestCase):
    def start(self, *arguments):
        program = Program(*arguments)
        self.addCleanup(lambda: program.process.poll() is None and program.end(signal.SIGKILL))
        return program

    def test_greedy_text_is_that_of_run(self):
        program = self.start(TINY_F16, "--chat-template", "chatml")
        prompt = "Once upon"
        expected = json.loads(self.succeeds("run", TINY_F16, "--raw", prompt, "-n", "12", "--temperature", "0", "--json").text)
        body = {"model": "tiny-f16", "prompt": prompt, "max_tokens": 12, "temperature": 0}
        status, answer = program.ask("POST", "/v1/completions", body)
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["choices"][0]["text"], expected["text"])
        self.assertEqual(answer["usage"]["completion_tokens"], len(expected["token_ids"]))
        self.assertEqual(answer["usage"]["prompt_tokens"], expected["prompt_tokens"])
        status, answer = program.ask("POST", "/api/generate", {"model": "tiny-f16", "prompt": prompt, "raw": True, "stream": False,
                                                               "options": {"temperature": 0, "num_predict": 12}})
        self.assertEqual(answer["response"], expected["text"])
        self.assertEqual(program.end(), 0)

    def test_same_seed_same_text(self):
        program = self.start(TINY_F16)
        body = {"model": "tiny-f16", "prompt": "Once", "max_tokens": 20, "seed": 7, "temperature": 1.5, "n": 2, "ignore_eos": True}
        first = program.ask("POST", "/v1/completions", body)[1]["choices"]
        self.assertEqual(first, program.ask("POST", "/v1/completions", body)[1]["choices"])
        self.assertNotEqual(first[0]["text"], first[1]["text"])
        other = program.ask("POST", "/api/generate", {"model": "tiny-f16", "prompt": "Once", "raw": True, "stream": False, "options": {
            "temperature": 1.5, "seed": 7, "num_predict": 20, "top_k": 0, "top_p": 1, "min_p": 0}})
        same = program.ask("POST", "/v1/completions", {"model": "tiny-f16", "prompt": "Once", "max_tokens": 20, "seed": 7, "temperature": 1.5})
        self.assertEqual(other[1]["response"], same[1]["choices"][0]["text"])

    def test_dialects_give_the_same_tokens(self):
        """For the same prompt and the same explicit options of sampling."""
        program = self.start(TINY_F16, "--chat-template", "chatml")
        messages, conversation = [{"role": "user", "content": "Once"}], "<|im_start|>user\nOnce<|im_end|>\n<|im_start|>assistant\n"
        options = [{"temperature": 0}, {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0, "seed": 5},
                   {"temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "seed": 6},
                   {"temperature": 1.5, "top_p": 1, "top_k": 20, "min_p": 0, "seed": 7, "repeat_penalty": 1.2, "repeat_last_n": 32},
                   {"temperature": 1.2, "top_p": 0.8, "top_k": 0, "min_p": 0.1, "seed": 8, "presence_penalty": 0.5, "frequency_penalty": 0.25}]
        routes = {
            "/v1/chat/completions": ({"messages": messages, "max_tokens": 24}, lambda a: a["choices"][0]["message"]["content"]),
            "/v1/completions": ({"prompt": conversation, "max_tokens": 24}, lambda a: a["choices"][0]["text"]),
            "/v1/responses": ({"input": "Once", "max_output_tokens": 24}, lambda a: a["output"][0]["content"][0]["text"]),
            "/v1/messages": ({"messages": messages, "max_tokens": 24}, lambda a: a["content"][0]["text"]),
            "/completion": ({"prompt": conversation, "n_predict": 24}, lambda a: a["content"]),
            "/api/chat": ({"messages": messages, "stream": False}, lambda a: a["message"]["content"]),
            "/api/generate": ({"prompt": conversation, "raw": True, "stream": False}, lambda a: a["response"])}
        for sampling in options:
            texts = {}
            for route, (fields, text_of) in routes.items():
                asked = {"options": {**sampling, "num_predict": 24}} if route.startswith("/api") else sampling
                status, answer = program.ask("POST", route, {"model": "tiny-f16", **fields, **asked})
                self.assertEqual(status, 200, (route, answer))
                texts[route] = text_of(answer)
            self.assertEqual(set(texts.values()), {texts["/v1/completions"]}, sampling)
            self.assertTrue(texts["/v1/completions"], sampling)
        self.assertEqual(program.end(), 0)

    def test_output_formats(self):
        program = self.start(TINY_F16, "--chat-template", "chatml")
        schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}, "s": {"enum": ["x", "y"]}},
                  "required": ["n", "s"], "additionalProperties": False}
        messages = [{"role": "user", "content": "hi"}]

        def check(text):
            document = json.loads(text)
            self.assertEqual(list(document), ["n", "s"])
            self.assertIn(document["s"], ("x", "y"))

        for fields in ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}},
                       {"guided_json": schema, "temperature": 0}):
            status, answer = program.ask("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": 200, "n": 3, "seed": 5, **fields})
            self.assertEqual(status, 200, answer)
            for choice in answer["choices"]:
                check(choice["message"]["content"])
                self.assertEqual(choice["finish_reason"], "stop")
        status, answer = program.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 9, "guided_regex": "[ab]{4}"})
        self.assertRegex(answer["choices"][0]["text"], "^[ab]{4}$")
        status, answer = program.ask("POST", "/api/chat", {"model": "tiny-f16", "messages": messages, "stream": False, "format": schema})
        self.assertEqual(status, 200, answer)
        check(answer["message"]["content"])
        # After a grammar that is refused, others are answered.
        status, answer = program.ask("POST", "/v1/completions", {"prompt": "a", "grammar": "root ::= root"})
        self.assertEqual((status, answer["error"]["param"]), (400, "grammar"))
        status, answer = program.ask("POST", "/v1/completions", {"prompt": "a", "grammar": 'root ::= "ok"'})
        self.assertEqual(answer["choices"][0]["text"], "ok")

    def test_no_template(self):
        model = Gguf(TINY_F16)
        model.fields.pop(b"tokenizer.chat_template")
        model.write(self.folder / "bare.gguf")
        program = self.start(self.folder / "bare.gguf")
        status, answer = program.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]})
        self.assertEqual(status, 400)
        self.assertIn("--chat-template", answer["error"]["message"])

    def test_keys_are_read_again(self):
        keys = self.file("keys", "first: a-key-of-tests-1\n")
        program = self.start("--keys", keys)
        status = lambda key: program.ask("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})[0]
        self.assertEqual((status("a-key-of-tests-1"), status("a-key-of-tests-2")), (200, 401))
        keys.write_text("second: a-key-of-tests-2\n")
        program.process.send_signal(signal.SIGHUP)
        while status("a-key-of-tests-2") != 200:
            time.sleep(0.05)
        self.assertEqual(status("a-key-of-tests-1"), 401)
        keys.write_text("short\n")
        program.process.send_signal(signal.SIGHUP)
        self.assertIn("are read again", program.process.stderr.readline())
        self.assertIn("the keys stay as they were", program.process.stderr.readline())
        self.assertEqual(status("a-key-of-tests-2"), 200)
        self.assertEqual(program.end(), 0)

    def test_a_log_that_nobody_reads_holds_nobody(self):
        home = self.folder / "home"
        (home / "models").mkdir(parents=True)
        for name in ("one", "two"):
            shutil.copy(TINY_F16, home / "models" / f"{name}.gguf")
        os.environ["GABBRO_HOME"] = str(home)
        self.addCleanup(os.environ.pop, "GABBRO_HOME")
        program = self.start("--models-memory", 1_200_000, "--ctx", 1024)  # room for one of them
        fcntl.fcntl(program.process.stderr, fcntl.F_SETPIPE_SZ, 4096)
        for _ in range(60):  # each answer has two notes, of 20 bytes and more
            for name in ("one", "two"):
                status, answer = program.ask("POST", "/v1/completions", {"model": name, "prompt": "a", "max_tokens": 1})
                self.assertEqual(status, 200, answer)
        self.assertEqual(program.end(), 0)

    def test_sockets_of_systemd(self):
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_server(("0.0.0.0", 0)) as public:
            script = 'exec 3<&"$1"; shift; export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@"'

            def start(from_socket, *arguments):
                return subprocess.Popen(["bash", "-c", script, "bash", str(from_socket.fileno()), support.PROGRAM, "serve", *arguments],
                                        pass_fds=[from_socket.fileno()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

            process = start(listener)
            port = listener.getsockname()[1]
            self.assertEqual(process.stderr.readline(), f"listening on http://127.0.0.1:{port}\n")
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().status, 200)
            connection.close()
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0)
            process = start(public)
            _, error = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 2)
            self.assertIn("can be reached by others, and no key is asked for", error)

    @unittest.skipUnless(shutil.which("openssl"), "no openssl")
    def test_certificates_are_read_again(self):
        certificate, key = self.folder / "server.crt", self.folder / "server.key"

        def make(name):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                            "-subj", f"/CN={name}", "-out", certificate, "-keyout", key], check=True, capture_output=True)

        def served():
            return ssl.get_server_certificate(("127.0.0.1", program.port))

        make("first")
        program = self.start("--tls-cert", certificate, "--tls-key", key)
        first = certificate.read_text()
        self.assertEqual(served().strip(), first.strip())
        certificate.write_text("no certificate")
        program.process.send_signal(signal.SIGHUP)
        self.assertIn("the certificate stays as it was", program.process.stderr.readline())
        self.assertEqual(served().strip(), first.strip())
        make("second")
        program.process.send_signal(signal.SIGHUP)
        self.assertIn("is read again", program.process.stderr.readline())
        self.assertEqual(served().strip(), certificate.read_text().strip())
        self.assertEqual(program.end(), 0)
        self.assertEqual(support.gabbro("serve", "--tls-cert", certificate).code, 2)

    def test_spellings_of_a_name_are_one_model(self):
        home = self.folder / "home"
        (home / "models").mkdir(parents=True)
        shutil.copy(TINY_F16, home / "models" / "Tiny.gguf")
        os.environ["GABBRO_HOME"] = str(home)
        self.addCleanup(os.environ.pop, "GABBRO_HOME")
        program = self.start()
        for name in ("Tiny", "tiny", "TINY"):
            status, answer = program.ask("POST", "/v1/completions", {"model": name, "prompt": "Once", "max_tokens": 2})
            self.assertEqual((status, answer.get("model")), (200, "Tiny"), answer)
        self.assertEqual(len(program.ask("GET", "/api/ps")[1]["models"]), 1)
        for name in ("models/Tiny.gguf", "../home/models/Tiny.gguf", str(home / "models" / "Tiny.gguf"), "./Tiny", "~/Tiny"):
            self.assertEqual(program.ask("POST", "/v1/completions", {"model": name, "prompt": "Once"})[0], 404, name)

    def test_a_device_that_hangs(self):
        """Those that run get an error, those that wait are served by the next engine, and the sockets stay."""
        for name, value in (("GABBRO_WORKER", "on"), ("GABBRO_DEVICE", "sim:0"), ("GABBRO_SIM_FAIL", "hang:400"), ("GABBRO_SIM_HANG", "300"),
                            ("GABBRO_SIM_FAIL_ONCE", str(self.folder / "failed"))):
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)
        program = self.start(TINY_F16, "--parallel", "2")
        body = {"model": "tiny-f16", "prompt": "Once", "temperature": 0, "ignore_eos": True}
        answers = {}

        def ask(name, tokens):
            answers[name] = (*program.ask("POST", "/v1/completions", {**body, "max_tokens": tokens}), time.monotonic())

        threads = [threading.Thread(target=ask, args=(f"running {i}", 200)) for i in range(2)]
        for thread in threads:
            thread.start()
        with socket.create_connection(("127.0.0.1", program.port)) as idle:
            idle.sendall(raw_request("GET", "/health"))
            self.assertTrue(idle.recv(65536).startswith(b"HTTP/1.1 200"))
            while not (self.folder / "failed").exists():
                time.sleep(0.02)
            start = time.monotonic()
            waiting = [threading.Thread(target=ask, args=(f"waiting {i}", 3)) for i in range(3)]
            for thread in waiting:
                thread.start()
            ready = set()
            while any(thread.is_alive() for thread in threads + waiting):
                ready.add(program.ask("GET", "/ready")[0])
                self.assertEqual(program.ask("GET", "/health")[0], 200)
                time.sleep(0.02)
            self.assertLess(max(at for _, _, at in answers.values()) - start, AFTER_A_HANG)
            idle.sendall(raw_request("GET", "/health", headers=["Connection: close"]))
            self.assertTrue(idle.recv(65536).startswith(b"HTTP/1.1 200"))
        for i in range(2):
            status, answer, _ = answers[f"running {i}"]
            self.assertEqual(status, 500, answer)
            # 10 s, and more on a busy machine.
            self.assertRegex(answer["error"]["message"], r"a step took longer than 1\d s: the device hangs")
        texts = {answer["choices"][0]["text"] for status, answer, _ in (answers[f"waiting {i}"] for i in range(3)) if status == 200}
        self.assertEqual(len(texts), 1, answers)
        self.assertLessEqual(ready, {200, 503})  # the restart may end between two questions
        self.assertEqual(program.ask("GET", "/ready")[0], 200)
        self.assertEqual(program.end(), 0)

    def test_two_models_and_a_worker(self):
        os.environ["GABBRO_WORKER"] = "on"
        self.addCleanup(os.environ.pop, "GABBRO_WORKER")
        program = self.start(TINY_F16, TINY_Q8_0)
        for name in ("tiny-f16", "tiny-q8_0"):
            status, answer = program.ask("POST", "/v1/completions", {"model": name, "prompt": "Once", "max_tokens": 4})
            self.assertEqual((status, answer["model"]), (200, name))
        status, _ = program.ask("POST", "/v1/completions", {"model": str(TINY_F16), "prompt": "Once", "max_tokens": 4})
        self.assertEqual(status, 404)  # a path is not a name
        self.assertEqual(program.end(signal.SIGINT), 0)

    def test_tokens_of_vectors_count_for_a_key(self):
        keys = self.file("keys", "small: a-key-of-tests-1 tokens=30\n")
        program = self.start(ENCODERS / "bert", "--keys", keys)
        statuses, headers = [], {"Authorization": "Bearer a-key-of-tests-1"}
        while 429 not in statuses and len(statuses) < 50:
            statuses.append(program.ask("POST", "/v1/embeddings", {"model": "bert", "input": "some words to count"}, headers)[0])
        self.assertEqual(set(statuses[:-1]), {200})
        self.assertEqual(statuses[-1], 429)
        self.assertLess(len(statuses), 12)
        self.assertEqual(program.end(), 0)

    def test_embeddings(self):
        expected = json.loads((ENCODERS / "bert" / "texts.json").read_text())
        texts = [text for text in expected["texts"] if text]
        vectors = json.loads(self.succeeds("embed", ENCODERS / "bert", *texts, "--json").text)["embeddings"]
        program = self.start(ENCODERS / "bert")
        status, answer = program.ask("POST", "/v1/embeddings", {"model": "bert", "input": texts})
        self.assertEqual(status, 200, answer)
        self.assertEqual([row["index"] for row in answer["data"]], list(range(len(texts))))
        for row, vector in zip(answer["data"], vectors):
            self.assertLess(max(abs(a - b) for a, b in zip(row["embedding"], vector)), 1e-5)
        status, packed = program.ask("POST", "/v1/embeddings", {"model": "bert", "input": texts, "encoding_format": "base64"})
        for row, vector in zip(packed["data"], answer["data"]):
            data = base64.b64decode(row["embedding"])
            self.assertEqual(len(data), 4 * len(vector["embedding"]))
            self.assertLess(max(abs(a - b) for a, b in zip(struct.unpack(f"<{len(data) // 4}f", data), vector["embedding"])), 1e-6)
        tokens = program.ask("POST", "/tokenize", {"model": "bert", "prompt": texts[0]})[1]["tokens"]
        status, by_ids = program.ask("POST", "/v1/embeddings", {"model": "bert", "input": tokens})
        self.assertEqual((status, by_ids["usage"]["prompt_tokens"]), (200, len(tokens)))
        # Alone its tokens are few and meet the f16 weights unrounded, among others they meet 16-bit codes of them.
        self.assertLess(max(abs(a - b) for a, b in zip(by_ids["data"][0]["embedding"], vectors[0])), 2e-4)
        status, ollama = program.ask("POST", "/api/embed", {"model": "bert", "input": texts})
        self.assertEqual(len(ollama["embeddings"]), len(texts))
        self.assertAlmostEqual(sum(x * x for x in ollama["embeddings"][0]), 1, places=4)
        status, old = program.ask("POST", "/api/embeddings", {"model": "bert", "prompt": texts[0]})
        self.assertLess(max(abs(a - b) for a, b in zip(old["embedding"], vectors[0])), 2e-4)
        for wrong in ({"input": ""}, {"input": []}, {"input": [""]}, {"input": 5}, {"input": "word " * 5000}, {"input": [-1]},
                      {"input": "a", "dimensions": 0}, {"input": "a", "encoding_format": "x"}, {"input": [1 << 40]}):
            self.assertEqual(program.ask("POST", "/v1/embeddings", {"model": "bert", **wrong})[0], 400, wrong)
        self.assertEqual(program.ask("POST", "/v1/completions", {"model": "bert", "prompt": "a"})[0], 400)
        self.assertEqual(program.ask("GET", "/api/tags")[1]["models"][0]["capabilities"], ["embedding"])


    def test_rerank_and_score(self):
        query, documents = "what is basalt", ["basalt is a rock", "the sea is deep", "a rock"]
        rows = json.loads(self.succeeds("rerank", ENCODERS / "bert_rerank", query, *documents, "--json").text)["results"]
        program = self.start(ENCODERS / "bert_rerank")
        for path in ("/v1/rerank", "/rerank", "/v1/reranking", "/reranking"):
            status, answer = program.ask("POST", path, {"model": "bert_rerank", "query": query, "documents": documents})
            self.assertEqual(status, 200, answer)
            self.assertEqual([row["index"] for row in answer["results"]], [row["index"] for row in rows])
        for row, expected in zip(answer["results"], rows):
            self.assertAlmostEqual(row["relevance_score"], expected["score"], places=5)
            self.assertEqual(row["document"], {"text": expected["document"]})
        best = {"query": query, "documents": [{"text": text} for text in documents], "top_n": 1, "return_documents": False}
        _, answer = program.ask("POST", "/v1/rerank", best)
        self.assertEqual([list(row) for row in answer["results"]], [["index", "relevance_score"]])
        _, tei = program.ask("POST", "/rerank", {"query": query, "texts": documents, "return_text": True})
        self.assertEqual([(row["index"], row["text"]) for row in tei], [(row["index"], row["document"]) for row in rows])
        scores = {row["index"]: row["score"] for row in rows}
        _, answer = program.ask("POST", "/v1/score", {"model": "bert_rerank", "text_1": query, "text_2": documents})
        for row in answer["data"]:
            self.assertAlmostEqual(row["score"], scores[row["index"]], places=5)
        _, answer = program.ask("POST", "/score", {"text_1": [query, query], "text_2": documents[:2]})
        # Two pairs have few tokens, which meet the f16 weights unrounded; three meet 16-bit codes of them.
        self.assertAlmostEqual(answer["data"][1]["score"], scores[1], delta=2e-4)
        for wrong in ({"query": query}, {"documents": documents}, {"query": query, "documents": []}, {"query": 5, "documents": documents},
                      {"query": query, "documents": [5]}, {"query": query, "documents": documents, "top_n": 0}):
            self.assertEqual(program.ask("POST", "/v1/rerank", wrong)[0], 400, wrong)
        for wrong in ({"text_1": query}, {"text_1": [query] * 2, "text_2": documents}):
            self.assertEqual(program.ask("POST", "/v1/score", wrong)[0], 400, wrong)


if __name__ == "__main__":
    support.main()

#!/usr/bin/env python3
"""Open WebUI of PyPI, offline, on scripted models and on an encoder of this repository: it lists the models, chats in both
dialects, makes a title, and searches documents by vectors of Gabbro. `./test open-webui` installs it and runs this file;
`open_webui.py --requirements` prints the packages that it needs for that."""
import http.client
import importlib.metadata
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

# Packages of gigabytes for local encoders, speech and scans. Open WebUI imports them only where they are used.
NOT_NEEDED = {"accelerate", "faster-whisper", "opencv-python-headless", "rapidocr", "sentence-transformers"}
START = 300  # seconds: the first start makes a data base
TITLE = "A short greeting"


def requirements():
    """The dependencies of the installed open-webui, with their versions."""
    for line in importlib.metadata.requires("open-webui"):
        if "extra ==" not in line and re.match(r"[\w.-]+", line)[0].lower() not in NOT_NEEDED:
            yield line


if "--requirements" in sys.argv:
    print("\n".join(requirements()))
    sys.exit()

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (1, 2)] + [str(pathlib.Path(__file__).resolve().parents[2] / "cli")]
from server_support import TEXT, WORDS, Server, events_of  # noqa: E402
from test_program import ENCODERS, Program  # noqa: E402

SCRIPT = {"answers": [{"if": "title", "tokens": ['{"title": ', f'"{TITLE}"}}']}, {"tokens": WORDS}]}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class OpenWebUi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.encoder = cls.process = None
        cls.addClassCleanup(cls.stop)
        cls.folder = tempfile.TemporaryDirectory()
        # Open WebUI sends the whole history and a long request for a title.
        cls.server = Server(models={"script": {"model": {"context": 32768}, **SCRIPT}})
        cls.encoder = Program(ENCODERS / "bert")
        cls.port = free_port()
        ours, vectors = f"http://127.0.0.1:{cls.server.port}", f"http://127.0.0.1:{cls.encoder.port}"
        cls.log = open(pathlib.Path(cls.folder.name) / "log", "w+")
        cls.process = subprocess.Popen(
            [pathlib.Path(sys.executable).parent / "open-webui", "serve", "--host", "127.0.0.1", "--port", str(cls.port)],
            stdout=cls.log, stderr=subprocess.STDOUT, cwd=cls.folder.name,
            env={"PATH": os.environ["PATH"], "HOME": cls.folder.name, "DATA_DIR": cls.folder.name, "WEBUI_SECRET_KEY": "of-a-test",
                 "STATIC_DIR": str(pathlib.Path(cls.folder.name) / "static"), "WEBUI_AUTH": "False", "OFFLINE_MODE": "True", "HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False",
                 "OLLAMA_BASE_URL": ours, "OPENAI_API_BASE_URL": ours + "/v1", "OPENAI_API_KEY": "none", "RAG_EMBEDDING_ENGINE": "openai",
                 "RAG_EMBEDDING_MODEL": "bert", "RAG_OPENAI_API_BASE_URL": vectors + "/v1", "RAG_OPENAI_API_KEY": "none"})
        cls.headers = {}
        cls.wait_until_ready()
        status, content = cls.ask("POST", "/api/v1/auths/signin", {"email": "", "password": ""})
        assert status == 200, content
        cls.headers = {"Authorization": f"Bearer {json.loads(content)['token']}"}

    @classmethod
    def stop(cls):
        if cls.process is not None:
            cls.process.terminate()
            cls.process.wait(timeout=60)
            cls.log.close()
        if cls.encoder is not None:
            cls.encoder.end()
        if cls.server is not None:
            cls.server.stop()
        cls.folder.cleanup()

    @classmethod
    def wait_until_ready(cls):
        end = time.monotonic() + START
        while True:
            try:
                if cls.ask("GET", "/health")[0] == 200:
                    return
            except OSError:
                pass
            if cls.process.poll() is not None or time.monotonic() > end:
                cls.log.seek(0)
                raise AssertionError(f"Open WebUI does not start:\n{cls.log.read()[-3000:]}")
            time.sleep(0.5)

    @classmethod
    def ask(cls, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", cls.port, timeout=120)
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json", **cls.headers})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, content

    def json(self, method, path, body=None):
        status, content = self.ask(method, path, body)
        self.assertEqual(status, 200, content[:500])
        return json.loads(content)

    def models(self):
        return {model["id"]: model for model in self.json("GET", "/api/models")["data"]}

    def test_models(self):
        """Both connections have the model, and Open WebUI shows it once."""
        self.assertIn("script", {name.removesuffix(":latest") for name in self.models()})
        self.assertEqual([model["model"] for model in self.json("GET", "/ollama/api/tags")["models"]], ["script"])
        self.assertEqual([model["id"] for model in self.json("GET", "/openai/models")["data"]], ["script"])
        self.assertIn("version", self.json("GET", "/ollama/api/version"))

    def test_chat(self):
        model = next(iter(self.models()))
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
        answer = self.json("POST", "/api/chat/completions", {**body, "stream": False})
        self.assertEqual(answer["choices"][0]["message"]["content"], TEXT)
        status, content = self.ask("POST", "/api/chat/completions", {**body, "stream": True})
        self.assertEqual(status, 200, content)
        texts = [choice["delta"].get("content") or "" for event in events_of(content) if event != "[DONE]" for choice in event.get("choices", [])]
        self.assertEqual("".join(texts), TEXT)

    def test_each_dialect(self):
        messages = [{"role": "user", "content": "hi"}]
        answer = self.json("POST", "/openai/chat/completions", {"model": "script", "messages": messages, "stream": False})
        self.assertEqual(answer["choices"][0]["message"]["content"], TEXT)
        answer = self.json("POST", "/ollama/api/chat", {"model": "script", "messages": messages, "stream": False})
        self.assertEqual(answer["message"]["content"], TEXT)

    def test_title(self):
        messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": TEXT}]
        answer = self.json("POST", "/api/v1/tasks/title/completions", {"model": next(iter(self.models())), "messages": messages})
        self.assertEqual(json.loads(answer["choices"][0]["message"]["content"])["title"], TITLE)

    def test_documents(self):
        """Vectors of texts come from the encoder, and the text that is asked for is the nearest."""
        texts = {"cats": "the cat sleeps", "rain": "it rains all day long"}
        for name, text in texts.items():
            answer = self.json("POST", "/api/v1/retrieval/process/text", {"name": name, "content": text, "collection_name": name})
            self.assertTrue(answer["status"], answer)
        found = self.json("POST", "/api/v1/retrieval/query/collection", {"collection_names": list(texts), "query": texts["rain"], "k": 1})
        self.assertEqual(found["documents"], [[texts["rain"]]])
        self.assertGreater(self.vectors_counted(), 2)

    def vectors_counted(self):
        """Requests for vectors that the encoder's server answered."""
        lines = self.encoder.text("/metrics").splitlines()
        return sum(int(line.split()[-1]) for line in lines if line.startswith("gabbro_http_requests_total") and "embeddings" in line)


if __name__ == "__main__":
    unittest.main()

"""Several models: loaded on demand, kept, unloaded, and bounded in memory."""
import threading
import time
import unittest

import server_support
from server_support import Server, TestCase, raw_request, status_of
from support import eventually, within


def model(text, **settings):
    return {"model": settings, "answers": [{"if": "slow", "tokens": [text], "repeat": 200, "token_ms": 10}, {"tokens": [text]}]}


class Models(TestCase):
    config = {"models": {"a": model("of a", bytes=600), "b": model("of b", bytes=600), "c": model("of c", bytes=300, load_ms=300),
                         "slow": model("of slow", bytes=600, load_ms=1500),
                         "large": model("x", bytes=5000), "broken": model("x", load_error="it cannot be loaded"),
                         "lost": {"model": {"restart_ms": 400, "bytes": 10}, "answers": [{"tokens": ["x"], "error": "the device hangs"}]}},
              "load": [], "memory": 1000, "keep_alive_ms": 60_000}

    def ask(self, name, text="hi"):
        status, answer = self.server.chat(text, model=name)
        return answer["choices"][0]["message"]["content"] if status == 200 else (status, answer["error"]["message"])

    def loaded(self):
        return {row["name"] for row in self.server.get("/api/ps")[1]["models"]}

    def test_on_demand_within_memory(self):
        self.assertEqual(self.ask("a"), "of a")
        self.assertEqual(self.loaded() - {"c"}, {"a"})
        self.assertEqual(self.ask("b"), "of b")  # takes the place of a
        self.assertNotIn("a", self.loaded())
        self.assertEqual(self.ask("c"), "of c")
        self.assertEqual(self.loaded(), {"b", "c"})

    def test_the_least_recently_used_leaves(self):
        for name in ("b", "c", "b", "a"):
            self.assertEqual(self.ask(name), "of " + name)
        self.assertIn("a", self.loaded())
        self.assertNotIn("b", self.loaded())

    def test_a_model_waits_for_room(self):
        """Requests of a busy model end before it leaves. New ones of both models are answered, after the one that waits."""
        self.ask("a")
        answers = []

        def ask(name, text="hi"):
            thread = threading.Thread(target=lambda: answers.append(self.ask(name, text)))
            thread.start()
            return thread

        busy = ask("a", "slow")
        self.server.wait_until(running=1)
        waiting = [ask("slow")]
        self.wait_for_ready(503, "a model is loading")
        waiting += [ask("a") for _ in range(3)]
        busy.join()
        self.assertEqual(answers, ["of a" * 200])  # the others come when the slow one is loaded
        for thread in waiting:
            thread.join()
        self.assertEqual(sorted(answers[1:]), ["of a"] * 3 + ["of slow"])

    def test_requests_share_a_load(self):
        def attempt():
            self.server.post("/api/generate", {"model": "c", "keep_alive": 0})
            answers = []
            threads = [threading.Thread(target=lambda: answers.append(self.ask("c"))) for _ in range(8)]
            start = time.monotonic()
            for thread in threads:
                thread.start()
            self.assertEqual(self.server.get("/health")[0], 200)
            for thread in threads:
                thread.join()
            self.assertEqual(answers, ["of c"] * 8)
            return time.monotonic() - start
        within(1.5, attempt)

    def test_what_cannot_be_loaded(self):
        self.assertEqual(self.ask("broken"), (500, "it cannot be loaded"))
        status, message = self.ask("large")
        self.assertEqual(status, 500)
        self.assertIn("5000 bytes, more than the limit of 1000", message)
        self.assertEqual(self.ask("c"), "of c")

    def test_readiness(self):
        """Not while a model loads, and not while an engine that was lost is started again."""
        self.server.post("/api/generate", {"model": "c", "keep_alive": 0})
        asks = threading.Thread(target=self.ask, args=("c",))
        asks.start()
        self.wait_for_ready(503, "a model is loading")
        asks.join()
        self.wait_for_ready(200)
        self.assertEqual(self.ask("lost"), (500, "the device hangs"))
        self.wait_for_ready(503, "an engine that was lost is started again")
        self.wait_for_ready(200)

    def wait_for_ready(self, expected, message=""):
        def answer():
            status, content = self.server.get("/ready")
            return str(content) if status == expected else None
        self.assertIn(message, eventually(answer))

    def test_a_client_leaves_while_its_model_loads(self):
        """It is not answered, the model is loaded all the same, and the next request has it at once."""
        for stream in (True, False):
            self.server.post("/api/generate", {"model": "c", "keep_alive": 0})
            with self.server.connect() as connection:
                body = {"model": "c", "stream": stream, "messages": [{"role": "user", "content": "slow"}]}
                connection.sendall(raw_request("POST", "/v1/chat/completions", body))
                self.wait_for_ready(503, "a model is loading")
            self.wait_for_ready(200)
            self.server.wait_until(running=0)
            self.assertEqual(self.ask("c"), "of c")

    def test_a_model_that_waits_in_vain(self):
        with Server(models=self.config["models"], memory=1000, load=["a"], room_ms=300) as server:
            chat = raw_request("POST", "/v1/chat/completions", {"model": "a", "messages": [{"role": "user", "content": "slow"}]})
            with server.connect() as busy:
                busy.sendall(chat)
                server.wait_until(running=1)
                answers = []
                waiting = threading.Thread(target=lambda: answers.append(server.chat(model="b")))
                waiting.start()
                eventually(lambda: server.get("/ready")[0] == 503)
                self.assertEqual(server.chat(model="a")[0], 200)  # held back for 0.3 s at most
                waiting.join()
                self.assertEqual(answers[0][0], 503)
                self.assertIn("no room", answers[0][1]["error"]["message"])
                self.assertEqual(status_of(busy.recv(1000)), 200)

    def test_unload(self):
        self.ask("c")
        self.server.post("/api/generate", {"model": "c", "keep_alive": 0})
        self.assertNotIn("c", self.loaded())


class Named(TestCase):
    """A model that the operator named, and requests that name none."""
    config = {"models": {"a": model("of a"), "b": model("of b")}, "load": ["a"]}

    def test_it_answers_after_a_request_has_unloaded_it(self):
        self.server.post("/api/generate", {"model": "a", "keep_alive": 0})
        self.assertEqual(self.server.get("/api/ps")[1]["models"], [])
        messages = [{"role": "user", "content": "hi"}]
        status, answer = self.server.post("/v1/chat/completions", {"messages": messages})
        self.assertEqual((status, answer["choices"][0]["message"]["content"]), (200, "of a"))
        self.assertEqual(self.server.post("/v1/chat/completions", {"model": "b", "messages": messages})[0], 200)
        # With two models loaded, it is still the one that was named.
        self.assertEqual(self.server.post("/v1/chat/completions", {"messages": messages})[1]["model"], "a")


class KeepAlive(TestCase):
    config = {"models": {"a": model("of a")}, "load": [], "keep_alive_ms": 300}

    def test_idle_models_leave(self):
        self.server.chat(model="a")
        self.assertEqual(len(self.server.get("/api/ps")[1]["models"]), 1)
        eventually(lambda: self.server.get("/api/ps")[1]["models"] == [])
        self.server.post("/api/generate", {"model": "a", "keep_alive": -1})
        time.sleep(1.5)
        self.assertEqual(len(self.server.get("/api/ps")[1]["models"]), 1)


if __name__ == "__main__":
    server_support.main()

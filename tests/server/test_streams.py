"""Requests that end early, wait or are read slowly."""
import concurrent.futures
import random
import re
import socket
import threading
import time
import unittest

import server_support
from server_support import SCRIPT, Server, TestCase, chat_request, read_all
from support import SANITIZED, within

LIMIT = 0.1  # seconds from a client's leaving to the end of its request
MEASURING = 0.1  # seconds that asking for the count takes


class Leaving(TestCase):
    config = {"models": {"script": {"model": {"parallel": 2}, **SCRIPT}}}

    def ends(self, text, stream=False, running=1, waiting=0, **fields):
        def attempt():
            with self.server.connect() as connection:
                connection.sendall(chat_request(text, stream=stream, **fields))
                self.server.wait_until(running=running, waiting=waiting)
            return self.server.wait_until(running=0)
        within(LIMIT + MEASURING, attempt)

    def test_in_generation(self):
        for stream in (True, False):
            with self.subTest(stream=stream):
                self.ends("slow", stream)

    def test_in_the_prompt(self):
        for stream in (True, False):
            with self.subTest(stream=stream):
                self.ends("prefill", stream)

    def test_in_the_queue(self):
        running = [self.server.connect() for _ in range(2)]
        for connection in running:
            connection.sendall(chat_request("slow", stream=True))
        self.server.wait_until(running=2)
        for stream in (True, False):
            def attempt(stream=stream):
                with self.server.connect() as waiting:
                    waiting.sendall(chat_request("slow", stream=stream))
                    self.server.wait_until(running=2, waiting=1)
                return self.server.wait_until(running=2, waiting=0)
            within(LIMIT + MEASURING, attempt)
        for connection in running:
            connection.close()
        self.server.wait_until(running=0)

    def test_half_closed(self):
        def attempt():
            with self.server.connect() as connection:
                connection.sendall(chat_request("slow"))
                self.server.wait_until(running=1)
                connection.shutdown(1)
                return self.server.wait_until(running=0)
        within(LIMIT + MEASURING, attempt)

    def test_several_choices(self):
        self.ends("slow", running=2, waiting=2, n=4)

    def test_at_random(self):
        source = random.Random(5)

        def visit():
            for _ in range(15):
                with self.server.connect() as connection:
                    connection.sendall(chat_request(source.choice(["hi", "slow", "ponder", "flood"]), stream=source.random() < 0.5))
                    time.sleep(source.random() * 0.05)

        threads = [threading.Thread(target=visit) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.server.wait_until(running=0)
        self.assertEqual(self.server.chat()[0], 200)


class Waiting(TestCase):
    config = {"models": {"script": {"model": {"parallel": 1}, **SCRIPT}}, "queue": 2, "first_ping_ms": 100, "ping_ms": 300}

    def test_queue_is_bounded_and_its_place_is_said(self):
        running = self.server.connect()
        running.sendall(chat_request("slow", stream=True))
        self.server.wait_until(running=1)
        waiting = [self.server.connect() for _ in range(2)]
        for i, connection in enumerate(waiting):
            connection.sendall(chat_request("hi", stream=True))
            self.server.wait_until(running=1, waiting=i + 1)

        def attempt():
            start = time.monotonic()
            status, headers, _ = self.server.ask("POST", "/v1/completions", {"model": "script", "prompt": "hi"})
            self.assertEqual((status, headers["Retry-After"]), (503, "1"))
            return time.monotonic() - start
        within(0.5, attempt)
        for place, connection in enumerate(waiting, 1):
            self.receive(connection, b": waiting, place %d\n\n" % place)
        running.close()
        for connection in waiting:
            connection.settimeout(10)
            content = b""
            while not content.endswith(b"0\r\n\r\n"):
                content += connection.recv(65536)
            self.assertIn(b"[DONE]", content)
            connection.close()

    def receive(self, connection, expected):
        content = b""
        while expected not in content:
            content += (piece := connection.recv(65536))
            self.assertNotEqual(piece, b"", content)

    def test_pings_in_the_prompt(self):
        connection = self.server.connect()
        connection.sendall(chat_request("prefill", stream=True))
        self.receive(connection, b": ping\n\n")
        connection.close()
        self.server.wait_until(running=0)


class Slow(TestCase):
    config = {"unsent_bytes": 100_000, "write_ms": 1000}

    def test_a_client_that_does_not_read(self):
        connection = self.server.connect()
        connection.sendall(chat_request("flood", stream=True))
        self.server.wait_until(running=1)
        start = time.monotonic()
        self.assertEqual(self.server.chat()[0], 200)  # others are served meanwhile
        self.server.wait_until(running=0, limit=20)
        self.assertLess(time.monotonic() - start, 20)
        self.assertNotIn(b"[DONE]", read_all(connection))
        connection.close()


class Paused(TestCase):
    config = {"pause_bytes": 20_000, "models": {"script": {"model": {"parallel": 1}, **SCRIPT}}}

    def test_a_slow_reader_holds_nobody_and_loses_nothing(self):
        connection = self.server.connect()
        connection.sendall(chat_request("torrent", stream=True, max_tokens=1000))
        self.server.wait_until(running=1)
        time.sleep(1.5)

        def attempt():
            start = time.monotonic()
            self.assertEqual(self.server.chat()[0], 200)
            return time.monotonic() - start
        within(2, attempt)
        self.assertEqual(self.server.running(), (1, 0))  # it has not ended
        pieces = [b""]
        while not pieces[-1].endswith(b"0\r\n\r\n"):
            pieces.append(connection.recv(1 << 20))
            self.assertNotEqual(pieces[-1], b"", "the connection ended before the answer")
        connection.close()
        content = b"".join(pieces)
        # Runs only: the names of answers have letters too.
        self.assertEqual(sum(map(len, re.findall(rb"z{100,}", content))), 12_000_000)
        self.assertIn(b"[DONE]", content)

    def test_it_ends_when_its_client_leaves(self):
        def attempt():
            with self.server.connect() as connection:
                connection.sendall(chat_request("flood", stream=True))
                self.server.wait_until(running=1)
                time.sleep(0.5)
            return self.server.wait_until(running=0)
        within(LIMIT + MEASURING, attempt)


class PausedTooLong(TestCase):
    config = {"pause_bytes": 20_000, "pause_ms": 500}

    def test_it_is_dropped(self):
        connection = self.server.connect()
        connection.sendall(chat_request("torrent", stream=True, max_tokens=1000))
        self.server.wait_until(running=1)
        self.server.wait_until(running=0, limit=20)
        self.assertNotIn(b"[DONE]", read_all(connection))
        connection.close()


class Owners(TestCase):
    config = {"keys": "ann: a-key-of-tests-1\nbob: a-key-of-tests-2\n", "cache_per_key": True}

    def test_keys_have_their_own_shares_and_trees(self):
        for name, key in (("ann", "a-key-of-tests-1"), ("bob", "a-key-of-tests-2")):
            for salt, fields in (("", {}), ("s", {"cache_salt": "s"})):
                status, answer = self.server.post("/v1/completions", {"model": "script", "prompt": "who", **fields}, Authorization=f"Bearer {key}")
                self.assertEqual(status, 200, answer)
                self.assertEqual(answer["choices"][0]["text"], f'owner {name}, tree "{name}\\n{salt}"')


class Addresses(TestCase):
    def test_without_keys_an_address_is_an_owner(self):
        post = lambda **fields: self.server.post("/v1/completions", {"model": "script", "prompt": "who", **fields})
        self.assertEqual(post()[1]["choices"][0]["text"], 'owner 127.0.0.1, tree ""')
        self.assertEqual(post(cache_salt="x")[1]["choices"][0]["text"], 'owner 127.0.0.1, tree "x"')
        self.refused(post(cache_salt="x" * 257), 400, param="cache_salt")
        self.refused(post(cache_salt=5), 400, param="cache_salt")


class TimeLimit(TestCase):
    config = {"request_ms": 700}

    def test_long_requests_end(self):
        self.refused(self.server.chat("slow"), 504, code="timeout")
        events = self.server.events("/v1/chat/completions", {"model": "script", "stream": True, "messages": [{"role": "user", "content": "slow"}]})
        self.assertEqual(events[-2]["error"]["code"], "timeout")


class Many(TestCase):
    config = {"models": {"script": {"model": {"parallel": 8}, "answers": [
        {"if": f"number {i}.", "tokens": [f"w{i} "], "repeat": 50, "token_ms": 1} for i in range(40)]}}, "connections_per_address": 200}

    def test_no_request_changes_another_text(self):
        wrong, lock = [], threading.Lock()

        def ask(i):
            if i % 3 == 0:
                answer = self.server.chat(f"number {i}.")[1]["choices"][0]["message"]["content"]
            elif i % 3 == 1:
                events = self.server.events("/v1/chat/completions", {"model": "script", "stream": True, "messages": [
                    {"role": "user", "content": f"number {i}."}]})
                answer = "".join(e["choices"][0]["delta"].get("content", "") for e in events[:-1])
            else:
                lines = self.server.lines("/api/chat", {"model": "script", "messages": [{"role": "user", "content": f"number {i}."}]})
                answer = "".join(line["message"]["content"] for line in lines)
            if answer != f"w{i} " * 50:
                with lock:
                    wrong.append((i, answer[:60]))

        threads = [threading.Thread(target=ask, args=(i % 40,)) for i in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Cuts(unittest.TestCase):
    """Random cuts of texts with thoughts, characters of several bytes and stop texts, between any two bytes."""
    COUNT = 100 if SANITIZED else 500
    TEXTS = ["<think>a<b</thi nk>\n\n</think>\n\n the €nd 😀 of <think>it</think>", "  <think></think>x", "<thinkx>y</think>",
             "<think>never closed </thin", "é<|stop|>é", "\n<think>\n", "<think>é<|stop|></think>x", "<|sto<|stop|p|>é<|stop|>"]

    def pieces(self, number, source):
        data = self.TEXTS[number % len(self.TEXTS)].encode()
        cuts = sorted(source.sample(range(1, len(data)), min(len(data) - 1, source.randrange(1, 12))))
        return [list(data[a:b]) for a, b in zip([0, *cuts], [*cuts, len(data)])]

    # Thought and text of an answer, whole and streamed.
    def openai_chat(self, text):
        body = {"model": "script", "messages": [{"role": "user", "content": text}], "stop": ["<|stop|>"]}
        message = self.server.post("/v1/chat/completions", body)[1]["choices"][0]["message"]
        deltas = [event["choices"][0]["delta"] for event in self.server.events("/v1/chat/completions", {**body, "stream": True})[:-1]]
        return [tuple("".join(part.get(name) or "" for part in parts) for name in ("reasoning_content", "content"))
                for parts in ([message], deltas)]

    def openai_completion(self, text):
        body = {"model": "script", "prompt": text, "stop": ["<|stop|>"], "max_tokens": 100}
        whole = self.server.post("/v1/completions", body)[1]["choices"]
        parts = [event["choices"][0] for event in self.server.events("/v1/completions", {**body, "stream": True})[:-1]]
        return [("", "".join(part["text"] for part in choices)) for choices in (whole, parts)]

    def ollama_chat(self, text):
        body = {"model": "script", "messages": [{"role": "user", "content": text}], "options": {"stop": ["<|stop|>"]}}
        found = [[self.server.post("/api/chat", {**body, "stream": False})[1]], self.server.lines("/api/chat", body)]
        return [tuple("".join(part["message"].get(name, "") for part in parts) for name in ("thinking", "content")) for parts in found]

    def ollama_generate(self, text):
        body = {"model": "script", "prompt": text, "options": {"stop": ["<|stop|>"]}}
        found = [[self.server.post("/api/generate", {**body, "stream": False})[1]], self.server.lines("/api/generate", body)]
        return [tuple("".join(part.get(name, "") for part in parts) for name in ("thinking", "response")) for parts in found]

    def anthropic_messages(self, text):
        body = {"model": "script", "messages": [{"role": "user", "content": text}], "stop_sequences": ["<|stop|>"], "max_tokens": 100}
        blocks = self.server.post("/v1/messages", body)[1]["content"]
        deltas = [event["delta"] for event in self.server.events("/v1/messages", {**body, "stream": True}) if event["type"] == "content_block_delta"]
        return [tuple("".join(part.get(name, "") for part in parts) for name in ("thinking", "text")) for parts in (blocks, deltas)]

    # Without stop texts, which the dialect does not have.
    def openai_responses(self, text):
        body = {"model": "script", "input": text}
        items = [(item["type"], item["content"][0]["text"]) for item in self.server.post("/v1/responses", body)[1]["output"]]
        events = self.server.events("/v1/responses", {**body, "stream": True})
        deltas = [({"reasoning_text": "reasoning"}.get(event["type"].split(".")[1], "message"), event["delta"])
                  for event in events if event["type"].endswith("_text.delta")]
        return [tuple("".join(part for kind, part in parts if kind == name) for name in ("reasoning", "message")) for parts in (items, deltas)]

    def llama_completion(self, text):
        body = {"prompt": text, "stop": ["<|stop|>"]}
        parts = [[self.server.post("/completion", body)[1]], self.server.events("/completion", {**body, "stream": True})]
        return [("", "".join(part["content"] for part in each)) for each in parts]

    ASKS = (openai_chat, openai_completion, ollama_chat, ollama_generate, anthropic_messages, openai_responses, llama_completion)

    def test_a_stream_is_the_whole_answer_for_every_cut(self):
        source, seen = random.Random(7), {}
        answers = [{"if": f"number {i}.", "tokens": self.pieces(i, source), "token_ms": source.choice([0, 0, 2])} for i in range(self.COUNT)]
        asks = [(i, ask) for i in range(self.COUNT) for ask in self.ASKS]
        with Server(models={"script": {"model": {"parallel": 8}, "answers": answers}}) as self.server:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                found = list(pool.map(lambda one: one[1](self, f"number {one[0]}."), asks))
        for (i, ask), (whole, streamed) in zip(asks, found):
            self.assertEqual(streamed, whole, (ask, answers[i]))
            self.assertEqual(seen.setdefault((ask, i % len(self.TEXTS)), whole), whole, (ask, answers[i]))  # however it is cut
        of = lambda ask, i: seen[getattr(Cuts, ask), i]
        self.assertEqual(of("openai_chat", 0), ("a<b</thi nk>", "the €nd 😀 of <think>it</think>"))
        self.assertEqual(of("openai_responses", 0), of("openai_chat", 0))
        self.assertEqual(of("openai_completion", 0)[1], self.TEXTS[0])
        for i in range(len(self.TEXTS)):
            for ask in ("ollama_chat", "anthropic_messages"):
                self.assertEqual(of(ask, i), of("openai_chat", i), self.TEXTS[i])
            self.assertEqual(of("llama_completion", i), of("openai_completion", i), self.TEXTS[i])
        for ask in self.ASKS:
            if ask is not Cuts.openai_responses:
                self.assertEqual(seen[ask, 4], ("", "é"))
                self.assertEqual(seen[ask, 7], ("", "<|sto<|stop|p|>é"))


if __name__ == "__main__":
    server_support.main()

"""More requests than the server can answer, for GABBRO_OVERLOAD_SECONDS (20): arrivals at 120 % of what it did before. The queue
is bounded, what is refused is refused at once, and all that is accepted ends. A client with 200 requests leaves another its share."""
import collections
import json
import os
import random
import statistics
import tempfile
import threading
import time
import unittest

import server_support
from server_support import SCRIPT, TEXT, Server, events_of
from support import SANITIZED, TINY_F16
from test_program import Program

SECONDS = float(os.environ.get("GABBRO_OVERLOAD_SECONDS", 20))
PARALLEL, QUEUE = 4, 6
TOKEN_MS = 15
REFUSED_WITHIN = 0.05  # seconds, the median
Answer = collections.namedtuple("Answer", "status seconds retry_after is_whole")


class Overload(unittest.TestCase):
    def ask(self, server, streams):
        start = time.monotonic()
        body = {"model": "script", "messages": [{"role": "user", "content": "hi"}], "stream": streams}
        status, headers, content = server.ask("POST", "/v1/chat/completions", body)
        seconds = time.monotonic() - start
        is_whole = False
        if status == 200 and streams:
            events = events_of(content)
            is_whole = events[-1] == "[DONE]" and "".join(e["choices"][0]["delta"].get("content", "") for e in events[:-1]) == TEXT
        elif status == 200:
            is_whole = json.loads(content)["choices"][0]["message"]["content"] == TEXT
        return Answer(status, seconds, headers["Retry-After"], is_whole)

    def capacity(self, server):
        """Answers a second of as many clients as the model answers together."""
        counts, end = [], time.monotonic() + 2

        def run():
            while time.monotonic() < end:
                self.assertEqual(self.ask(server, True).status, 200)
                counts.append(1)
        self.run_all([threading.Thread(target=run) for _ in range(PARALLEL)])
        return len(counts) / 2

    @staticmethod
    def run_all(threads):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def test_arrivals_beyond_capacity(self):
        script = {"model": {"parallel": PARALLEL}, "answers": [{**SCRIPT["answers"][-1], "token_ms": TOKEN_MS}]}
        with Server(models={"script": script}, queue=QUEUE, connections_per_address=1000) as server:
            rate = 1.2 * self.capacity(server)
            source, answers, most, done = random.Random(3), [], [0, 0], threading.Event()

            def watch():
                while not done.wait(0.05):
                    counts = server.running()
                    most[:] = map(max, zip(most, counts))

            watcher = threading.Thread(target=watch)
            watcher.start()
            threads, start = [], time.monotonic()
            at = start
            while at < start + SECONDS:  # a Poisson process, whether earlier requests have ended or not
                at += source.expovariate(rate)
                time.sleep(max(0.0, at - time.monotonic()))
                threads.append(threading.Thread(target=lambda: answers.append(self.ask(server, source.random() < 0.5))))
                threads[-1].start()
            for thread in threads:
                thread.join()
            elapsed = time.monotonic() - start
            done.set()
            watcher.join()
            server.wait_until(running=0)
        refused = [answer for answer in answers if answer.status == 503]
        accepted = [answer for answer in answers if answer.status == 200]
        print(f"{rate:.0f} arrivals/s: {len(accepted)} answered ({len(accepted) / elapsed:.0f}/s), {len(refused)} refused within "
              f"{1000 * statistics.median(a.seconds for a in refused):.1f} ms (median), {1000 * max(a.seconds for a in refused):.0f} ms (most); "
              f"longest answer {max(a.seconds for a in accepted):.2f} s; at most {most[0]} ran and {most[1]} waited")
        self.assertEqual(len(answers), len(threads))
        self.assertEqual(len(refused) + len(accepted), len(answers), {a.status for a in answers})
        self.assertEqual([a for a in accepted if not a.is_whole], [])
        self.assertEqual({a.retry_after for a in refused}, {"1"})
        self.assertGreater(len(accepted), 0.5 * rate / 1.2 * elapsed)  # it goes on at full speed, or nearly
        self.assertLessEqual(most[0], PARALLEL)
        self.assertLessEqual(most[1], QUEUE + PARALLEL)  # those that begin in this moment are counted too
        if not SANITIZED:
            self.assertLess(statistics.median(a.seconds for a in refused), REFUSED_WITHIN)


class Shares(unittest.TestCase):
    """On an engine: the scripted model has no shares."""

    def test_one_with_many_requests_does_not_hold_up_another(self):
        ended, lock = [], threading.Lock()
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as keys:
            keys.write("many: a-key-of-tests-1\nfew: a-key-of-tests-2\n")
            keys.flush()
            program = Program(TINY_F16, "--parallel", "2", "--queue", "400", "--keys", keys.name)

        def ask(name, key, number):
            body = {"prompt": f"{name} {number}", "max_tokens": 24, "ignore_eos": True, "temperature": 0}
            status, answer = program.ask("POST", "/v1/completions", body, {"Authorization": f"Bearer {key}"})
            with lock:
                ended.append((name, status, answer.get("usage", {}).get("completion_tokens")))

        try:
            numbers = iter(range(60 if SANITIZED else 200))
            # An address has 64 connections at most.
            many = [threading.Thread(target=lambda: [ask("many", "a-key-of-tests-1", i) for i in numbers]) for _ in range(50)]
            few = [threading.Thread(target=ask, args=("few", "a-key-of-tests-2", i)) for i in range(10)]
            for thread in many:
                thread.start()
            before = len(ended)
            for thread in few:
                thread.start()
            for thread in few + many:
                thread.join()
        finally:
            program.end()
        self.assertEqual({(status, tokens) for _, status, tokens in ended}, {(200, 24)})
        last = max(i for i, one in enumerate(ended) if one[0] == "few")
        others = sum(one[0] == "many" for one in ended[before:last])
        print(f"when the last of 10 ended, {others} of the {len(ended) - 10} of the other client had ended")
        # Equal shares are 10, and some that ended while the ten came. In order of arrival, 50 would go before them.
        self.assertLess(others, 40)


if __name__ == "__main__":
    server_support.main()

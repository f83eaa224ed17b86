"""Two replicas of a model on the CPU answer 200 requests by Ray Serve, one of them is killed in between: none is lost.

    check_ray.py MODEL

Needs ray[serve] and the package gabbro. Prints a line, and exits with 1 when a request got another answer than alone.
"""
import concurrent.futures
import json
import os
import signal
import sys
import time
import urllib.request

import ray
from gabbro import llm, ray_serve
from ray import serve
from ray.util import state

REQUESTS = 200
KILLED_AFTER = 60
OPTIONS = {"max_tokens": 6, "temperature": 0, "seed": 1}


def ask(number):
    body = json.dumps({"prompt": f"Request number {number}", **OPTIONS}).encode()
    request = urllib.request.Request("http://127.0.0.1:8000/", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["token_ids"]


def replicas():
    return [actor for actor in state.list_actors(filters=[("state", "=", "ALIVE")]) if "#model#" in (actor.name or "")]


def main():
    model = os.path.abspath(sys.argv[1])
    alone = llm.load(model, device="cpu", threads=1)
    expected = [alone.generate(f"Request number {number}", **OPTIONS).token_ids for number in range(REQUESTS)]
    ray.init(num_cpus=4, include_dashboard=True, log_to_driver=False, _node_ip_address="127.0.0.1")
    serve.start(http_options={"host": "127.0.0.1", "port": 8000})
    serve.run(ray_serve.app({"model": model, "replicas": "2", "sequences": "4"}), name="gabbro")
    before = replicas()
    assert len(before) == 2, before
    killed = None
    answers = [None] * REQUESTS
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        waiting = {pool.submit(ask, number): number for number in range(REQUESTS)}
        done = 0
        for future in concurrent.futures.as_completed(waiting):
            answers[waiting[future]] = future.result()
            done += 1
            if done == KILLED_AFTER:
                killed = before[0].pid
                os.kill(killed, signal.SIGKILL)
    wrong = sum(answer != right for answer, right in zip(answers, expected))
    end = time.monotonic() + 60
    while len(replicas()) < 2 and time.monotonic() < end:
        time.sleep(0.5)
    after = [actor.pid for actor in replicas()]
    restarted = len(after) == 2 and killed not in after
    print(f"{REQUESTS} requests, replica {killed} killed after {KILLED_AFTER}: {wrong} wrong or lost, "
          f"{len(after)} replicas {'after a restart' if restarted else 'left'}")
    serve.shutdown()
    ray.shutdown()
    return 1 if wrong or not restarted else 0


if __name__ == "__main__":
    sys.exit(main())

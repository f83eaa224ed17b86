"""Commands on a model whose tensors are cut for two devices (--split tensor): the tokens and figures of one device, or a
refusal by name; and faults in the middle of a request end it with the device's name."""
import array
import json
import math
import os
import signal
import subprocess
import threading
import time
import unittest
import urllib.request

from support import BUILD, PROGRAM, TINY_F16, TINY_Q4_0, TINY_Q8_0, TestCase, gabbro, main, within

SIM = {"GABBRO_SIM_WAVE": "32", "GABBRO_SIM_DEVICES": "3", "GABBRO_WORKER": "off"}
ONE = ["--device", "sim:0"]
TWO = ["--devices", "sim:0,sim:1", "--split", "tensor"]
COMMON = ["--raw", "--temperature", "0", "--ctx", "128"]
VOCABULARY = 300
PROMPT = "Two devices compute this."


@unittest.skipUnless((BUILD / "lib" / "libgabbro_sim.so").exists(), "no simulator")
class TensorSplit(TestCase):
    def answer(self, model, *options, environment=None):
        result = self.succeeds("run", model, PROMPT, *COMMON, "-n", "6", "--json", *options,
                               environment={**SIM, **(environment or {})})
        return json.loads(result.out)

    def test_tokens_are_those_of_one_device(self):
        for model in (TINY_F16, TINY_Q8_0, TINY_Q4_0):
            one, two = self.answer(model, *ONE), self.answer(model, *TWO)
            self.assertEqual(two["token_ids"], one["token_ids"], model)
            self.assertEqual(two["device"], "sim:0+sim:1")
        uneven = self.answer(TINY_F16, *TWO, "--tensor-split", "3,1")
        self.assertEqual(uneven["token_ids"], self.answer(TINY_F16, *ONE)["token_ids"])

    def test_sums_in_plans_and_a_device_that_hangs_between_them(self):
        in_plans = {"GABBRO_SIM_RANK_SUMS": "1"}
        one = self.answer(TINY_F16, *ONE)
        self.assertEqual(self.answer(TINY_F16, *TWO, environment=in_plans)["token_ids"], one["token_ids"])
        # Both devices hang, so that neither is late for the other.
        environment = {**SIM, **in_plans, "GABBRO_WORKER": "on", "GABBRO_SIM_FAIL": "hang:600", "GABBRO_SIM_HANG": "60"}
        result = gabbro("run", TINY_F16, PROMPT, *COMMON, "-n", "100", *TWO, environment=environment)
        self.assertIn(result.code, (1, 3), result)
        self.assertRegex(result.err, rb"error: .*(sim:[01]: the device does not answer|the device hangs)")

    def test_quantized_caches(self):
        for kv_type in ("q8_0", "q4_0"):
            one, two = (self.answer(TINY_F16, *where, "--kv-type", kv_type) for where in (ONE, TWO))
            self.assertEqual(two["token_ids"], one["token_ids"], kv_type)

    def test_in_a_worker_process(self):
        two = self.answer(TINY_F16, *TWO, environment={"GABBRO_WORKER": "on"})
        self.assertEqual(two["token_ids"], self.answer(TINY_F16, *ONE)["token_ids"])

    def test_prompts_in_batches_and_drafts(self):
        prompts = self.file("prompts.txt", "Hello there\nAnother prompt that is longer\na third one\n")

        def tokens_on(*device):
            document = json.loads(self.succeeds("run", TINY_F16, "--prompts", prompts, *COMMON, "-n", "4", "--json", "--parallel",
                                                "2", *device, environment=SIM).out)
            return [result["token_ids"] for result in document["results"]]

        self.assertEqual(tokens_on(*TWO), tokens_on(*ONE))
        drafted = self.answer(TINY_F16, *TWO, "--draft", TINY_Q4_0)
        self.assertGreater(drafted["drafted_tokens"], 0)
        self.assertEqual(drafted["token_ids"], self.answer(TINY_F16, *ONE)["token_ids"])

    def test_logits_and_perplexity(self):
        def logits(*device):
            out = self.folder / "logits.npy"
            self.succeeds("logits", TINY_F16, "--tokens", "1,5,9,13", "--out", out, *device, environment=SIM)
            return array.array("f", out.read_bytes()[-4 * VOCABULARY:])  # of the last token

        one, two = logits(*ONE), logits(*TWO)
        self.assertLess(max(abs(a - b) for a, b in zip(one, two)), 1e-2 * max(map(abs, one)))
        self.assertEqual(two.index(max(two)), one.index(max(one)))
        text = self.file("text.txt", "A text whose perplexity is computed on two devices. " * 8)

        def perplexity(*device):
            return json.loads(self.succeeds("perplexity", TINY_F16, "--file", text, "--ctx", "64", "--json", *device, environment=SIM).out)

        one, two = perplexity(*ONE)["perplexity"], perplexity(*TWO)["perplexity"]
        self.assertLess(abs(math.log(two / one)), 1e-3)

    def test_what_is_for_one_device_is_refused_by_name(self):
        self.fails(2, "embed", TINY_F16, PROMPT, *TWO, says="--devices", environment=SIM)
        for options, says in ((["--lora", "adapter"], "a model that is split over devices has no adapters"),
                              (["--memory", "1GiB"], "a model that is split over devices has no weights that are streamed")):
            self.fails(2, "run", TINY_F16, PROMPT, *COMMON, *TWO, *options, says=says, environment=SIM)
        self.fails(2, "run", TINY_F16, PROMPT, *COMMON, "--devices", "sim:0,sim:1,sim:2", "--split", "tensor",
                   says=("2 heads with 1 KV heads cannot be split over 3 devices", "these numbers of devices fit: 1, 2"),
                   environment=SIM)

    def serve(self, environment):
        process = subprocess.Popen([PROGRAM, "serve", TINY_F16, *TWO, "--ctx", "256", "--parallel", "2", "--port", "0", "--host",
                                    "127.0.0.1"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                                   env={**os.environ, **SIM, **environment})
        self.addCleanup(process.stderr.close)
        self.addCleanup(lambda: (process.kill(), process.wait()))
        for line in process.stderr:
            if line.startswith("listening on http://127.0.0.1:"):
                threading.Thread(target=process.stderr.read, daemon=True).start()
                return process, int(line.rsplit(":", 1)[1])
        raise AssertionError("the server has ended")

    def ask(self, port, tokens, prompt=PROMPT):
        body = {"model": "tiny-f16", "prompt": prompt, "temperature": 0, "ignore_eos": True, "max_tokens": tokens}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def test_a_server(self):
        text = self.succeeds("run", TINY_F16, PROMPT, *COMMON, "-n", "6", *ONE, environment=SIM).text.rstrip("\n")
        process, port = self.serve({})
        answers = {}

        def ask(i):
            answers[i] = self.ask(port, 6)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({(status, answer["choices"][0]["text"].rstrip("\n")) for status, answer in answers.values()}, {(200, text)})
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 0)

    def test_a_fault_in_a_request_names_the_device(self):
        """Launches of both devices are counted until the fault, which comes after loading and before the last token. A device
        that hangs has 4 s to answer; a loss at the same launch tells how long the launches before it take."""
        for worker in ("on", "off"):
            for fault in ("launch:600", "malloc:10", "lost:600"):
                with self.subTest(fault=fault, worker=worker):
                    self.seconds_of_a_fault(fault, worker)
            with self.subTest(fault="hang:600", worker=worker):
                hang = 20 if worker == "off" else 0  # in this process the end waits for the device
                within(5 + hang, lambda: self.seconds_of_a_fault("hang:600", worker) - self.seconds_of_a_fault("lost:600", worker))

    def seconds_of_a_fault(self, fault, worker):
        """From the start of the program until its end, whose error names the device."""
        start = time.monotonic()
        environment = {**SIM, "GABBRO_WORKER": worker, "GABBRO_SIM_FAIL": fault, "GABBRO_SIM_HANG": "20"}
        result = gabbro("run", TINY_F16, PROMPT, *COMMON, "-n", "100", *TWO, environment=environment)
        self.assertIn(result.code, (1, 3), result)
        self.assertRegex(result.err, rb"error: .*sim:[01]")
        self.assertNotIn(b"another device", result.err)
        return time.monotonic() - start

    def test_a_server_goes_on_after_a_fault(self):
        for fault in ("lost:900", "hang:900"):
            with self.subTest(fault=fault):
                _, port = self.serve({"GABBRO_WORKER": "on", "GABBRO_SIM_FAIL": fault, "GABBRO_SIM_HANG": "300",
                                      "GABBRO_SIM_FAIL_ONCE": str(self.folder / fault)})
                start = time.monotonic()
                status, answer = self.ask(port, 200)
                self.assertLess(time.monotonic() - start, 120)
                self.assertEqual(status, 500, answer)
                self.assertRegex(answer["error"]["message"], "sim:[01]")
                status, answer = self.ask(port, 5)
                self.assertEqual(status, 200, answer)


if __name__ == "__main__":
    main()

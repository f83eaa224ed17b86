"""One model on several devices: the tokens of one device, the options, and errors that name a device."""
import json
import unittest

from support import BUILD, TINY_F16, TINY_Q4_0, TINY_Q8_0, TestCase, main

SIM = {"GABBRO_SIM_WAVE": "32", "GABBRO_SIM_DEVICES": "3"}
COMMON = ["Two devices hold this.", "--raw", "--temperature", "0", "-n", "6", "--json", "--ctx", "128"]
LAYERS = ["--split", "layers"]


@unittest.skipUnless((BUILD / "lib" / "libgabbro_sim.so").exists(), "no simulator")
class ManyGpus(TestCase):
    def tokens(self, model, *options, environment=None):
        result = self.succeeds("run", model, *COMMON, *options, environment={**SIM, **(environment or {})})
        return json.loads(result.out)

    def test_tokens_are_those_of_one_device(self):
        for model in (TINY_F16, TINY_Q8_0, TINY_Q4_0):
            one = self.tokens(model, "--device", "sim:0")
            two = self.tokens(model, "--devices", "sim:0,sim:1", *LAYERS)
            self.assertEqual(two["token_ids"], one["token_ids"], model)
            self.assertEqual(two["device"], "sim:0+sim:1")

    def test_several_prompts_and_drafts(self):
        prompts = self.file("prompts.txt", "Hello there\nAnother prompt that is longer\na third one\n")
        options = ["--prompts", prompts, "--raw", "--temperature", "0", "-n", "4", "--json", "--ctx", "128"]

        def tokens_on(*device):
            document = json.loads(self.succeeds("run", TINY_F16, *options, *device, environment=SIM).out)
            return [result["token_ids"] for result in document["results"]]

        self.assertEqual(tokens_on("--devices", "sim:0,sim:1", *LAYERS), tokens_on("--device", "sim:0"))
        drafted = self.tokens(TINY_F16, "--devices", "sim:0,sim:1", *LAYERS, "--draft", TINY_Q4_0)
        self.assertGreater(drafted["drafted_tokens"], 0)
        self.assertEqual(drafted["token_ids"], self.tokens(TINY_F16, "--device", "sim:0")["token_ids"])

    def test_a_detour_of_the_copies_is_noted(self):
        result = self.succeeds("run", TINY_F16, *COMMON, "--devices", "sim:0,sim:1", *LAYERS,
                               environment={**SIM, "GABBRO_SIM_FAIL": "unreachable:1"})
        self.assertIn(b"note: copies from sim:0 to sim:1 go through the host's memory: sim: the devices do not reach "
                      b"each other's memory", result.err)

    def test_a_worker_process_gets_the_devices(self):
        one = self.tokens(TINY_F16, "--device", "sim:0")
        two = self.tokens(TINY_F16, "--devices", "2,0", "--device", "sim", "--tensor-split", "1,2", *LAYERS,
                          environment={"GABBRO_WORKER": "on"})
        self.assertEqual((two["token_ids"], two["device"]), (one["token_ids"], "sim:2+sim:0"))

    def test_devices_of_different_backends(self):
        one = self.tokens(TINY_F16, "--device", "cpu")
        for devices in ("sim:0,cpu", "cpu,sim:1"):
            self.assertEqual(self.tokens(TINY_F16, "--devices", devices, *LAYERS)["token_ids"], one["token_ids"], devices)

    def test_the_line_at_loading_says_who_has_which_layers(self):
        result = self.succeeds("run", TINY_F16, *COMMON, "--devices", "sim:0,sim:1", *LAYERS, "--log-level", "info", environment=SIM)
        self.assertIn(b"sim:0+sim:1  simulated GPU, waves of 32 lanes (layers 0-", result.err)

    def test_devices_lists_as_many_as_are_simulated(self):
        document = json.loads(self.succeeds("devices", "--json", environment=SIM).out)
        self.assertEqual([d["id"] for d in document["devices"] if d["backend"] == "sim"], ["sim:0", "sim:1", "sim:2"])
        document = json.loads(self.succeeds("devices", "--json", environment={"GABBRO_SIM_DEVICES": "none"}).out)
        self.assertEqual([d["reason"] for d in document["devices"] if d["backend"] == "sim"],
                         ["GABBRO_SIM_DEVICES: 'none' is not a number from 1 to 64"])

    def test_fit_says_who_would_hold_what(self):
        shape = ["--arch", "llama", "--params", "8B", "--ctx", "4096", "--devices", "0,1", "--device", "sim", *LAYERS]
        in_parts = [*shape[:-len(LAYERS)], "--split", "tensor"]
        whole = json.loads(self.succeeds("fit", *shape, "--json", environment=SIM).out)
        split = whole["split"]
        self.assertEqual((split["mode"], split["fits"], [d["id"] for d in split["devices"]]), ("layers", True, ["sim:0", "sim:1"]))
        self.assertEqual([d["first_layer"] for d in split["devices"]], [0, split["devices"][0]["layers"]])
        self.assertEqual(sum(d["layers"] for d in split["devices"]), 32)
        self.assertEqual(sum(d["cache_bytes"] for d in split["devices"]), whole["kv_bytes"])
        held = sum(d["weight_bytes"] for d in split["devices"])
        self.assertLessEqual(abs(held - whole["weight_bytes"]), whole["weight_bytes"] // 1000)  # norms outside of layers
        shares = json.loads(self.succeeds("fit", *shape, "--tensor-split", "7,1", "--json", environment=SIM).out)["split"]
        self.assertGreater(shares["devices"][0]["layers"], 24)
        large = json.loads(self.succeeds("fit", *shape[:3], "70B", *shape[4:], "--json", environment=SIM).out)["split"]
        self.assertEqual((large["fits"], [d["fits"] for d in large["devices"]]), (False, [False, False]))
        self.assertIn("split by layers", self.succeeds("fit", *shape, environment=SIM).text)
        tensor = json.loads(self.succeeds("fit", *in_parts, "--json", environment=SIM).out)["split"]
        self.assertEqual((tensor["mode"], tensor["fits"], [d["id"] for d in tensor["devices"]]),
                         ("tensor", True, ["sim:0", "sim:1"]))
        self.assertEqual(sum(d["cache_bytes"] for d in tensor["devices"]), whole["kv_bytes"])
        held = sum(d["weight_bytes"] for d in tensor["devices"])
        self.assertLessEqual(abs(held - whole["weight_bytes"]), whole["weight_bytes"] // 1000)
        uneven = json.loads(self.succeeds("fit", *in_parts, "--tensor-split", "3,1", "--json",
                                          environment=SIM).out)["split"]["devices"]
        self.assertAlmostEqual(uneven[0]["weight_bytes"] / held, 0.75, delta=0.02)
        self.assertEqual(uneven[0]["cache_bytes"], 3 * uneven[1]["cache_bytes"])
        self.assertIn("split by tensors", self.succeeds("fit", *in_parts, environment=SIM).text)
        self.fails(3, "fit", *shape[:6], "--devices", "sim:0,sim:7", says="there is no device 'sim:7'", environment=SIM)

    def test_fit_shows_each_way_and_the_choice(self):
        shape = ["--arch", "llama", "--params", "1B", "--ctx", "1024", "--devices", "0,1", "--device", "sim"]
        split = json.loads(self.succeeds("fit", *shape, "--json", environment=SIM).out)["split"]
        self.assertEqual((split["mode"], split["chosen"], split["device"]), ("auto", "one", "sim:0"))
        self.assertEqual(split["why"], "one device, sim:0: the memory bandwidth of sim:0 is not known; sim:0 holds the model")
        self.assertEqual([(way["mode"], way["possible"]) for way in split["splits"]],
                         [("one", True), ("layers", True), ("tensor", True)])
        self.assertGreater(split["sum_seconds"], 0)
        self.assertIn("auto: one device, sim:0", self.succeeds("fit", *shape, environment=SIM).text)
        large = json.loads(self.succeeds("fit", *shape[:3], "13B", *shape[4:], "--json", environment=SIM).out)["split"]
        self.assertEqual((large["chosen"], large["split"]["mode"]), ("layers", "layers"))
        self.assertEqual(large["splits"][0]["problem"], "no device holds all of it")

    def test_auto_is_the_default_and_says_why(self):
        result = self.succeeds("run", TINY_F16, *COMMON, "--devices", "sim:0,sim:1", environment=SIM)
        self.assertEqual(json.loads(result.out)["device"], "sim:0")
        self.assertIn(b"note: split: one device, sim:0: the memory bandwidth of sim:0 is not known; sim:0 holds the model",
                      result.err)
        shares = self.succeeds("run", TINY_F16, *COMMON, "--devices", "sim:0,sim:1", "--tensor-split", "1,1", environment=SIM)
        self.assertEqual(json.loads(shares.out)["device"], "sim:0+sim:1")
        self.assertIn(b"note: split: by layers: the memory bandwidth of sim:0 is not known; shares are given", shares.err)

    def test_wrong_options_are_named(self):
        for code, options, says in (
                (2, ["--devices", "sim:0,sim:0"], "--devices: sim:0 is there twice"),
                (2, ["--devices", "sim:0,,sim:1"], "--devices: 'sim:0,,sim:1' has an empty entry"),
                (2, ["--devices", "auto,cpu"], "--devices: 'auto' names no single device"),
                (3, ["--devices", "sim:0,sim:7"], "there is no device 'sim:7'"),
                (2, ["--devices", "sim:0,sim:1", "--split", "rows"], "--split"),
                (2, ["--tensor-split", "1,1"], "--tensor-split goes with --devices"),
                (2, ["--devices", "sim:0,sim:1", "--tensor-split", "1,1,1"], "--tensor-split: 3 shares for 2 devices"),
                (2, ["--devices", "sim:0,sim:1", "--tensor-split", "1,0"], "--tensor-split: '0' is not a number above 0"),
                (2, ["--devices", "sim:0,sim:1", "--memory", "1GiB"], "no weights that are streamed")):
            self.fails(code, "run", TINY_F16, *COMMON, *options, says=says, environment=SIM)

    def test_a_lost_device_is_named(self):
        for fault in ("lost:30", "launch:30"):
            result = self.fails(1, "run", TINY_F16, *COMMON, "--devices", "sim:0,sim:1", *LAYERS,
                                environment={**SIM, "GABBRO_SIM_FAIL": fault})
            self.assertRegex(result.err, rb"sim:[01]")


if __name__ == "__main__":
    main()

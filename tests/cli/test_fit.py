"""fit on recorded machines, and bench llm on random weights."""
import json
import os
import pathlib
import subprocess
import unittest

import support
from support import TINY_F16, TINY_Q4_0, TestCase
import test_devices

TINY = "layers=2,embedding=64,heads=4,kv-heads=2,vocabulary=300,feed-forward=96"
TYPES = ["q2_k_s", "q2_k", "q3_k_s", "q3_k_m", "q3_k_l", "iq4_xs", "q4_0", "iq4_nl", "q4_k_s", "q4_k_m", "q4_1", "q5_0",
         "q5_k_s", "q5_k_m", "q5_1", "q6_k", "q8_0", "f16", "bf16", "f32",
         "q1_0", "iq1_s", "tq1_0", "iq1_m", "iq2_xxs", "tq2_0", "q2_0", "iq2_xs", "iq2_s", "iq2_m", "iq3_xxs", "iq3_xs",
         "iq3_s", "iq3_m", "mxfp4", "nvfp4"]
LLAMA_70B = ["--arch", "llama", "--params", "70B", "--type", "q4_k_m"]
GIB = 1 << 30


class Fit(test_devices.Recorded):
    def fit(self, tree, *arguments):
        d = json.loads(self.succeeds("fit", *arguments, "--json", environment=self.on(tree)).out)
        self.assertEqual(d["total_bytes"], d["weight_bytes"] + d["kv_bytes"] + d["scratch_bytes"])
        return d, [device for device in d["devices"] if device["id"] != "cpu"]

    def test_document_of_a_shape(self):
        d, gpus = self.fit("no_gpu", *LLAMA_70B, "--ctx", "8192")
        self.assertEqual(gpus, [])
        self.assertEqual((d["model"], d["type"], d["context"], d["kv_type"]), ("llama-70b", "q4_k_m", 8192, "f16"))
        self.assertAlmostEqual(d["weight_bytes"] / GIB, 39.59, delta=0.005)  # llama-bench's figure
        self.assertEqual(d["kv_bytes"], 8192 * 80 * 2 * 8 * 128 * 2)  # layers, keys and values, heads, elements, bytes
        q8_0 = self.fit("no_gpu", *LLAMA_70B, "--ctx", "8192", "--kv-type", "q8_0")[0]
        self.assertEqual(q8_0["kv_bytes"], 8192 * 80 * 2 * 8 * 128 // 32 * 34)
        shape = self.fit("no_gpu", "--shape", "llama-70b", "--ctx", "8192")[0]
        self.assertEqual(shape["total_bytes"], d["total_bytes"])

    def test_any_size_of_the_family(self):
        # Parameters as the models' cards and papers have them.
        for size, parameters, delta in (("7b", 6.738e9, 0.001), ("3.5B", 3.5e9, 0.02)):
            d = self.fit("no_gpu", "--arch", "Llama", "--params", size)[0]
            self.assertAlmostEqual(d["parameters"] / parameters, 1, delta=delta)
            self.assertEqual(d["model"], f"llama-{size.lower()}")
        for size in ("8", "B", "0B", "1e9B", "-8B", "nanB", "5M", "3T", "8BB", "0x8B", "8 B"):
            self.fails(2, "fit", "--arch", "llama", f"--params={size}", says=f"--params: '{size}'")

    def test_a_file_has_the_bytes_of_its_tensors(self):
        tensors = json.loads(self.succeeds("inspect", TINY_Q4_0, "--tensors", "--json").out)["tensors"]
        d = self.fit("no_gpu", TINY_Q4_0)[0]
        self.assertEqual(d["weight_bytes"], sum(tensor["bytes"] for tensor in tensors))
        self.assertEqual(d["placement"], "cpu")
        cpu = d["devices"][0]
        self.assertEqual((cpu["fits"], cpu["bandwidth_source"], cpu["would_fit"]), (True, "measured", None))
        rate = cpu["share"] * cpu["bandwidth"] / d["bytes_per_token"]
        self.assertAlmostEqual(cpu["tokens_per_second"]["empty_cache"] / rate, 1)
        full = cpu["share"] * cpu["bandwidth"] / (d["bytes_per_token"] + d["context"] * d["kv_bytes_per_token"])
        self.assertAlmostEqual(cpu["tokens_per_second"]["full_cache"] / full, 1)

    def test_a_radeon_that_is_too_small_and_what_would_fit(self):
        d, (card,) = self.fit("rdna3", *LLAMA_70B)
        self.assertEqual((card["id"], card["fits"], card["usable"]), ("pci:0000:03:00.0", False, False))
        self.assertIn("libgabbro_rocm.so", card["reason"])
        self.assertEqual((card["bandwidth"], card["bandwidth_source"]), (960e9, "AMD's specifications"))
        self.assertEqual(card["would_fit"], {"context": None, "kv_type": None, "type": None})  # 26 GiB in q2_k
        card = self.fit("rdna3", "--arch", "llama", "--params", "8B", "--type", "q4_k_m")[1][0]
        self.assertTrue(card["fits"])
        self.assertIsNone(card["would_fit"])
        self.assertAlmostEqual(card["tokens_per_second"]["empty_cache"], 0.6 * 960e9 / 4.63e9, delta=2)
        card = self.fit("rdna3", "--shape", "llama-8b", "--type", "f32", "--ctx", "2048")[1][0]  # 30 GiB
        self.assertEqual(card["would_fit"]["type"], "bf16")
        card = self.fit("rdna3", "--shape", "llama-8b", "--type", "f16", "--ctx", "131072")[1][0]  # and 16 GiB of cache
        would = card["would_fit"]
        self.assertEqual(would["kv_type"], None)
        longest = self.fit("rdna3", "--shape", "llama-8b", "--type", "f16", "--ctx", str(would["context"]))
        self.assertTrue(longest[1][0]["fits"])
        longer = self.fit("rdna3", "--shape", "llama-8b", "--type", "f16", "--ctx", str(would["context"] + 64))
        self.assertFalse(longer[1][0]["fits"])

    def test_an_apu_is_judged_by_its_budget(self):
        apu = self.fit("apu", *LLAMA_70B)[1][0]
        self.assertEqual((apu["fits"], apu["bandwidth"]), (True, 256e9))
        self.assertFalse(self.fit("apu", "--shape", "llama-70b", "--type", "f16")[1][0]["fits"])
        small = self.fit("igpu_and_dgpu", "--shape", "llama-1b")[1]
        shared = next(device for device in small if device["architecture"] == "gfx1036")
        self.assertEqual(shared["bandwidth_source"], "measured by the CPU, whose memory it shares")

    def test_eight_cards(self):
        cards = self.fit("mi300x_8", "--shape", "llama-70b", "--type", "f16", "--ctx", "131072")[1]
        self.assertEqual(len(cards), 8)
        # 131.4 GiB and 40 GiB; each card has 8 GiB less free than the one before.
        self.assertEqual([card["fits"] for card in cards], [True] * 3 + [False] * 5)
        self.assertEqual({card["bandwidth"] for card in cards}, {5300e9})

    def test_a_card_whose_memory_nobody_knows(self):
        card = self.fit("nvidia", "--shape", "llama-8b")[1][0]
        self.assertEqual((card["fits"], card["bandwidth"]), (None, 1008e9))

    def test_the_table(self):
        text = self.succeeds("fit", *LLAMA_70B, "--ctx", "8192", environment=self.on("rdna3")).text
        self.assertRegex(text, r"^llama-70b q4_k_m, 70\.55 B parameters: 39\.6 GiB weights \+ 2\.5 GiB cache \(8192 tokens, f16\)")
        self.assertRegex(text, r"(?m)^pci:0000:03:00\.0 +23\.5 GiB +no +960 GB/s ")
        self.assertIn("no type of weights and no context would fit", text)
        self.assertIn("tokens/s = share x bandwidth", text)
        text = self.succeeds("fit", "--shape", "llama-70b", "--type", "f16", "--ctx", "262144",
                             environment=self.on("mi300x_8")).text
        self.assertRegex(text, r"would fit: --ctx \d+, or ")
        text = self.succeeds("fit", "--shape", "llama-70b", "--type", "f16", environment=self.on("mi300x_8")).text
        self.assertIn("It would fit pci:0000:05:00.0, which cannot be used yet: gabbro doctor", text)
        self.assertIn("It fits cpu", self.succeeds("fit", TINY_F16, environment=self.on("no_gpu")).text)

    def test_bad_input(self):
        for arguments, words in (([], "MODEL is missing"), (["--arch", "llama"], "--params"), (["--params", "8B"], "--arch"),
                                 (["--arch", "gpt", "--params", "8B"], "--arch: 'gpt'"), (["--shape", "llama-8b", TINY_F16], "MODEL"),
                                 ([TINY_F16, "--type", "q4_0"], "--type"), (["--shape", "llama-8b", "--type", "q9"], "q9"),
                                 (["--shape", "llama-8b", "--ctx", "1000000000"], "exceeds"), (["no-such-model"], "no-such-model")):
            self.fails(2, "fit", *arguments, says=words)


MIB = 1 << 20


class SmallMachines(TestCase):
    """fit takes less than 64 MB, and knows the limit of its control group."""
    QUESTIONS = ([TINY_F16], ["--arch", "llama", "--params", "70B"], ["--shape", "gpt-oss-120b"], [TINY_F16, "--ctx", "512"])

    @unittest.skipIf(support.SANITIZED, "sanitizers take more memory")
    def test_peak_memory(self):
        for question in self.QUESTIONS:
            process = subprocess.Popen([support.PROGRAM, "fit", *question, "--json"], stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            self.assertEqual(status, 0, question)
            self.assertLess(usage.ru_maxrss * 1024, 64e6, question)

    @unittest.skipIf(support.SANITIZED, "sanitizers take more memory")
    def test_in_a_control_group(self):
        group = control_group(64 * MIB)
        if group is None:
            self.skipTest("no control group may be made")
        try:
            for question in self.QUESTIONS:
                done = subprocess.run([support.PROGRAM, "fit", *question, "--json"], capture_output=True,
                                      preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())))
                self.assertEqual(done.returncode, 0, (question, done.stderr))
                d = json.loads(done.stdout)
                cpu = next(device for device in d["devices"] if device["id"] == "cpu")
                self.assertEqual(cpu["memory_total"], 64 * MIB)
                self.assertLess(cpu["memory_free"], 64 * MIB)
                self.assertEqual(cpu["fits"], d["total_bytes"] <= cpu["memory_free"])
                self.assertGreater(cpu["bandwidth"], 1e8)
        finally:
            group.rmdir()


def control_group(limit):
    """The folder of a new group with this limit of memory; None where none may be made."""
    for parent, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        path = pathlib.Path(parent, f"gabbro-test-{os.getpid()}")
        try:
            path.mkdir()
        except OSError:
            continue
        try:
            (path / file).write_text(str(limit))
            return path
        except OSError:
            path.rmdir()
    return None


class PublishedShapes(TestCase):
    def test_fit_and_bench_know_the_same(self):
        hint = self.fails(2, "fit", "--shape", "no-such-shape", says="neither a known shape").err.decode()
        names = hint[hint.index("known: ") + len("known: "):hint.index("; or layers=")].split(", ")
        for name in ("llama-8b", "mixtral-8x7b", "qwen3-30b-a3b", "gpt-oss-20b", "gpt-oss-120b", "deepseek-v2-lite",
                     "deepseek-v3", "llama4-scout", "granite-4-h-tiny", "granite-4-h-small", "qwen3-next-80b-a3b",
                     "lfm2-1.2b", "lfm2-8b-a1b", "falcon-h1-7b", "jamba-1.5-mini", "nemotron-h-8b", "mamba-2.8b"):
            self.assertIn(name, names)
        self.assertGreater(len(names), 50)
        # A shape that is too large for this machine is refused before anything is made.
        for name in ("gpt-oss-120b", "deepseek-v3", "jamba-1.5-large", "qwen3-235b-a22b", "llama4-maverick"):
            self.fails(3, "bench", "llm", "--shape", name, "--type", "f16", says=[name, "does not fit cpu"])
        d = json.loads(self.succeeds("fit", "--arch", "gpt-oss", "--params", "20B", "--json").out)
        self.assertEqual((d["model"], round(d["parameters"] / 1e9, 2)), ("gpt-oss-20b", 20.91))

    def test_a_hybrid_and_a_mixture_run(self):
        for shape in ("mamba-130m", "lfm2-350m"):
            d = json.loads(self.succeeds("bench", "llm", "--shape", shape, "--type", "q4_0", "-p", "4", "-n", "2", "-r", "1",
                                         "--no-warmup", "--json").out)
            self.assertTrue(all(row["tokens_per_second"]["median"] > 0 for row in d["results"]))


class RandomWeights(TestCase):
    def bench(self, shape, type, *options):
        return json.loads(self.succeeds("bench", "llm", "--shape", shape, "--type", type, "-p", "6", "-n", "2", "--no-warmup",
                                        "--repetitions", "1", "--json", *options).out)

    def test_document(self):
        d = self.bench(TINY, "q8_0", "--depth", "70")
        self.assertEqual((d["shape"], d["type"]), (TINY, "q8_0"))
        self.assertEqual([row["test"] for row in d["results"]], ["pp6 @ d70", "tg2 @ d70"])
        self.assertEqual({(row["model"], row["quantisation"], row["device"], row["depth"]) for row in d["results"]},
                         {(TINY, "q8_0", "cpu", 70)})
        # embedding and head, and per layer q and output, k and v, gate, up and down: 34 bytes for 32; three kinds of norms
        matrices = 2 * 300 * 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64)
        self.assertEqual(d["weight_bytes"], matrices // 32 * 34 + (2 * 2 + 1) * 64 * 4)
        self.assertEqual(d["parameters"], matrices + (2 * 2 + 1) * 64)
        read = d["weight_bytes"] - 300 * 64 // 32 * 34 + (70 + 1) * 2 * 2 * 2 * 16 * 2  # but the embedding; layers, kv, heads
        self.assertEqual(d["results"][1]["bytes_per_token"], read)

    def test_every_type_runs_on_the_cpu(self):
        for type in TYPES:
            d = self.bench("layers=2,embedding=256,heads=4,kv-heads=1,vocabulary=300,feed-forward=512", type)
            self.assertEqual(d["type"], type)
            self.assertTrue(all(row["tokens_per_second"]["median"] > 0 for row in d["results"]))

    def test_devices(self):
        for device in ["null"] + ["sim:0"] * (support.BUILD / "lib" / "libgabbro_sim.so").exists():
            self.assertEqual(self.bench(TINY, "q4_k_m", "--device", device)["results"][0]["device"], device)

    def test_too_little_memory_is_said_before_anything_is_made(self):
        self.fails(3, "bench", "llm", "--shape", "layers=4096,embedding=65536,heads=64", "--type", "f32",
                   says=["does not fit cpu", "of weights", "are free", "hint: gabbro fit"])

    def test_bad_input(self):
        for arguments, words in (([], "MODEL is missing"), ([TINY_F16, "--shape", "llama-8b"], "MODEL"),
                                 ([TINY_F16, "--type", "f16"], "--shape"), (["--shape", "llama-9b"], "llama-9b"),
                                 (["--shape", "llama-8b", "--type", "q4"], "q4"),
                                 (["--shape", "layers=2,embedding=64,heads=3"], "3 heads")):
            self.fails(2, "bench", "llm", *arguments, says=words)


if __name__ == "__main__":
    support.main()

"""`doctor --report` and tools/report: on machines without a card, with runtimes that hang, crash or are missing, on the
simulator; personal data is in no archive."""
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest.mock

import support
import sysfs_trees
from support import ROOT, TINY_F16, TestCase

sys.dont_write_bytecode = True
TREES = support.TREES
TOOL = ROOT / "tools" / "report"
RUNTIMES = support.BUILD / "tests" / "runtimes"
EMULATED = support.BUILD / "lib" / "emulated_hip"  # tests/emulated_hip, where it is built
PARTS = ["machine", "hip", "devices", "kernels", "ranges", "copies", "copies_no_sdma", "graphs", "litmus", "speed", "model"]
VARIABLES = ["GABBRO_DEVICE", "LD_LIBRARY_PATH", "ROCM_PATH", "HIP_PATH", "GABBRO_HIP_PATH", "HSA_OVERRIDE_GFX_VERSION",
             "VIRTUAL_ENV", "CONDA_PREFIX", "GABBRO_PLUGIN_PATH", "GABBRO_SYSFS_ROOT"]


@unittest.skipUnless(shutil.which("zstd"), "needs the program zstd")
class Report(TestCase):
    def setUp(self):
        super().setUp()
        clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        patch = unittest.mock.patch.dict(os.environ, clean, clear=True)
        patch.start()
        self.addCleanup(patch.stop)
        self.archive = self.folder / "card.tar.zst"

    def plugins(self, *names):
        folder = self.folder / "plugins"
        folder.mkdir(exist_ok=True)
        for name in names:
            if not (folder / name).exists():
                (folder / name).symlink_to(support.BUILD / "lib" / name)
        return str(folder)

    def report(self, *options, plugins=("libgabbro_cpu.so", "gabbro_probe"), **variables):
        """The manifest's parts by name, and the archive's files."""
        environment = {"GABBRO_PLUGIN_PATH": self.plugins(*plugins), **variables}
        done = self.succeeds("doctor", "--report", self.archive, *options, environment=environment)
        self.assertIn(b"Nothing was sent.", done.out)
        files = self.files()
        manifest = json.loads(files["manifest.json"])
        self.assertEqual([part["part"] for part in manifest["parts"]][:len(PARTS)], PARTS)
        self.assertLessEqual(sum(part["seconds"] for part in manifest["parts"]), 600)
        return {part["part"]: part for part in manifest["parts"]}, files

    def files(self):
        import tarfile
        import io
        data = subprocess.run(["zstd", "-dc", self.archive], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            return {member.name: archive.extractfile(member).read().decode() for member in archive}

    def tool(self, *options):
        done = subprocess.run([TOOL, self.archive, *options], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def states(self, parts):
        return {name: part["state"] for name, part in parts.items()}

    def test_without_a_card(self):
        parts, files = self.report(GABBRO_SYSFS_ROOT=str(TREES / "no_gpu"))
        states = self.states(parts)
        self.assertEqual([states[name] for name in ("machine", "hip", "devices")], ["ok"] * 3)
        self.assertEqual({states[name] for name in PARTS[3:]}, {"skipped"})
        self.assertEqual(parts["kernels"]["message"], "there is no usable GPU")
        self.assertIn("no device was examined", self.tool())
        self.assertIn("looked for libamdhip64.so.7", files["hip.jsonl"])
        shown = self.succeeds("doctor", "--show", self.archive).text
        for name, content in files.items():
            self.assertIn(f"==> {name} <==\n{content}", shown)

    @unittest.skipUnless((support.BUILD / "lib" / "libgabbro_sim.so").is_file(), "needs the simulator")
    def test_on_the_simulator(self):
        parts, files = self.report("--device", "sim:0", "--model", TINY_F16, "--limit", "500",
                                   plugins=("libgabbro_cpu.so", "libgabbro_sim.so", "gabbro_probe"),
                                   GABBRO_SYSFS_ROOT=str(TREES / "no_gpu"))
        states = self.states(parts)
        self.assertEqual({name: state for name, state in states.items() if state != "ok"}, {"copies_no_sdma": "skipped"},
                         {name: part["message"] for name, part in parts.items()})
        lines = lambda name: [json.loads(line) for line in files[name].splitlines()]
        self.assertTrue(all(line["wrong"] == 0 for line in lines("graphs.jsonl")))
        self.assertTrue(all(line["different"] == 0 and line["launches"] > 0 for line in lines("litmus.jsonl")))
        details = lines("kernel_details.jsonl")
        self.assertEqual(sum("table" in line for line in details), 4)
        self.assertFalse(any(line.get("differing") for line in details))
        self.assertTrue(all(line["same_choice"] > 60 for line in lines("model.jsonl") if "same_choice" in line))
        verdict = self.tool()
        self.assertIn("kernels: 30 right in 180 runs", verdict)
        self.assertIn("choices agree, ", verdict)
        self.assertIn("GEMV q4_0, ", verdict)
        self.assertNotIn("tiny-f16", "".join(files) + "".join(files.values()))

    def with_runtime(self, mode):
        return self.report("--limit", "250", plugins=("libgabbro_cpu.so", "gabbro_probe"), LD_LIBRARY_PATH=str(RUNTIMES), GABBRO_TEST_RUNTIME=mode)

    @unittest.skipUnless(RUNTIMES.is_dir(), "needs the runtimes of the tests")
    def test_runtimes_that_fail(self):
        parts, files = self.with_runtime("abort")
        self.assertEqual(parts["hip"]["state"], "failed")
        self.assertIn("signal 6", parts["hip"]["message"])
        self.assertIn('"fact":"init"', files["hip.jsonl"])  # what came before
        self.assertIn("rocBLAS error", files["hip_messages.txt"])
        self.assertIn("hip: failed: ", self.tool())
        parts, files = self.with_runtime("answer")
        self.assertEqual(parts["hip"]["state"], "ok")
        self.assertIn('"count":2', files["hip.jsonl"])
        parts, _ = self.with_runtime("hang")
        self.assertEqual(parts["hip"]["state"], "failed")
        self.assertIn("no end within 18", parts["hip"]["message"])
        self.assertEqual(parts["devices"]["state"], "ok")

    @unittest.skipUnless((support.BUILD / "lib" / "libgabbro_sim.so").is_file(), "needs the simulator")
    def test_a_fault_and_ctrl_c(self):
        plugins = ("libgabbro_cpu.so", "libgabbro_sim.so", "gabbro_probe")
        parts, files = self.report("--device", "sim:0", "--faults", "--yes", "--limit", "30", plugins=plugins,
                                   GABBRO_SYSFS_ROOT=str(TREES / "no_gpu"))
        self.assertIn(parts["fault"]["state"], ("ok", "crashed"))
        self.assertIn('"step":"fault"', files["fault.jsonl"])
        self.assertEqual(parts["after_fault"]["state"], "ok")
        self.assertEqual([json.loads(line)["error"] for line in files["after_fault.jsonl"].splitlines()], ["", ""])
        self.archive.unlink()
        environment = {**os.environ, "GABBRO_PLUGIN_PATH": self.plugins(*plugins), "GABBRO_SYSFS_ROOT": str(TREES / "no_gpu")}
        running = subprocess.Popen([support.PROGRAM, "doctor", "--report", self.archive, "--device", "sim:0"], env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in running.stderr:
            if line.startswith("devices"):
                break
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130, out)
        states = {part["part"]: part["state"] for part in json.loads(self.files()["manifest.json"])["parts"]}
        self.assertEqual((states["machine"], states["model"]), ("ok", "stopped"))

    @unittest.skipUnless(EMULATED.is_dir() and (support.BUILD / "lib" / "libgabbro_rocm.so").is_file(), "needs the emulated HIP runtime")
    def test_emulated_cards(self):
        traces = []
        for card, limit in (("gfx1100", 150), ("gfx1100", 150), ("gfx942", 40), ("gfx1151", 40)):
            parts, files = self.report("--limit", str(limit), plugins=("libgabbro_cpu.so", "libgabbro_rocm.so", "gabbro_probe"),
                                       GABBRO_SYSFS_ROOT=str(TREES / "no_gpu"), LD_LIBRARY_PATH=str(EMULATED), EMULATED_GPUS=card)
            self.assertEqual({parts[name]["state"] for name in ("machine", "hip", "devices", "ranges")}, {"ok"}, parts)
            self.assertIn(f"({card})", self.tool())
            self.assertTrue(self.tool("--card").startswith(f'{{"{card}", "{card}'), card)
            self.assertIn("{89, 1},", self.tool("--attributes"))  # has ranges
            trace = self.folder / f"trace_{len(traces)}"
            trace.write_text(files["hip_trace_ranges.jsonl"])
            traces.append(trace)
        compare = lambda *files: subprocess.run([ROOT / "tools" / "hip_trace", *files], capture_output=True, text=True)
        same = compare(traces[0], traces[1])
        self.assertEqual(same.returncode, 0, same.stdout + same.stderr)

    def test_personal_data(self):
        tree = self.folder / "tree"
        shutil.copytree(TREES / "rdna3", tree)
        card = tree / "sys/bus/pci/devices/0000:03:00.0"
        (card / "unique_id").write_text("feedfacecafe0001\n")
        (card / "serial_number").write_text("SN-PLANTED-77\n")
        (card / "product_name").write_text("Radeon of zaphod@heart-of-gold.example\n")
        node = tree / "sys/class/kfd/kfd/topology/nodes/1/properties"
        number = next(line.split()[1] for line in node.read_text().splitlines() if line.startswith("unique_id "))
        (tree / "etc/passwd").write_text("zaphod:x:1000:1000:Zaphod Beeblebrox:/home" "/zaphod:/bin/sh\n")
        (tree / "etc/group").write_text("render:x:109:zaphod,trillian\nvideo:x:44:zaphod\nzaphod:x:1000:\n")
        (tree / "proc/cmdline").write_text("root=UUID=8f0e4a02-1111-2222-3333-444455556666 hostkey=planted amdgpu.ppfeaturemask=1\n")
        (tree / "proc/self/cgroup").write_text("0::/user.slice/planted-service.scope\n")
        (tree / "proc/4711").mkdir(parents=True)
        (tree / "proc/4711/cmdline").write_text("planted-process --secret\n")
        (tree / "dev").mkdir(exist_ok=True)
        (tree / "dev/kmsg").write_text("6,1,1,-;amdgpu 0000:03:00.0: serial: PLANTED99 at 02:42:ac:11:00:02\n"
                                       "6,2,2,-;planted-usb: new device of Ada\n")
        model = self.folder / "planted-secret-model.gguf"
        shutil.copy(TINY_F16, model)
        _, files = self.report("--model", model, GABBRO_SYSFS_ROOT=str(tree), HOME="/home" "/zaphod", USER="zaphod",
                               LOGNAME="zaphod", GABBRO_HOME="/home" "/zaphod/gabbro-models", HSA_TOKEN="planted-token")
        everything = "\n".join([*files, *files.values()])
        user = pwd.getpwuid(os.geteuid())
        planted = ["zaphod", "Beeblebrox", "trillian", "planted", "PLANTED", "feedfacecafe0001", number, "02:42:ac:11:00:02",
                   "8f0e4a02", "4711", "heart-of-gold", "secret", str(self.folder)]
        if len(socket.gethostname()) > 2 and socket.gethostname() != "localhost":
            planted.append(socket.gethostname())
        planted += [user.pw_name] if user.pw_name != "root" else []
        planted += [user.pw_dir + "/"] if len(user.pw_dir) > 1 else []
        for word in planted:
            self.assertNotIn(word, everything)
        self.assertIn("amdgpu.ppfeaturemask=1", files["machine/tree/proc/cmdline"])
        self.assertIn("GABBRO_HOME=~/gabbro-models", files["machine/environment.txt"])
        self.assertIn("amdgpu 0000:03:00.0: serial: ", files["machine/kernel_log.txt"])
        self.assertIn("unique_id ", files["machine/tree/sys/class/kfd/kfd/topology/nodes/1/properties"])

    def test_the_tree_says_the_same(self):
        for name in sysfs_trees.NAMES:
            self.report(GABBRO_SYSFS_ROOT=str(TREES / name))
            folder = self.folder / f"tree_{name}"
            self.assertIn("wrote ", self.tool("--tree", folder))
            environment = {"GABBRO_PLUGIN_PATH": self.plugins()}
            checks = [json.loads(self.succeeds("doctor", "--json", environment={**environment, "GABBRO_SYSFS_ROOT": str(tree)}).text)
                      for tree in (TREES / name, folder)]
            # Hashed, and therefore another number.
            for check in checks:
                check["checks"] = [c for c in check["checks"] if "ROCR_VISIBLE_DEVICES=GPU-" not in c["fix"]]
            self.assertEqual(*checks, name)

    def test_copies_of_a_mapped_file(self):
        probe = support.BUILD / "lib" / "gabbro_probe"
        run = lambda *words: subprocess.run([probe, "copy", *words], capture_output=True, text=True).stdout
        self.assertRegex(run("/no/plugin.so", "0", self.folder), "^error=/no/plugin.so: cannot open")
        simulator = support.BUILD / "lib" / "libgabbro_sim.so"
        if simulator.is_file():
            self.assertEqual(run(simulator, "0", "/no/folder"), "error=no room for a file of 256 MiB\n")
            self.assertRegex(run(simulator, "7", self.folder), "^(error|rate)=")
            self.assertRegex(run(simulator, "0", self.folder), "^rate=[0-9]+\n$")
            self.assertEqual([path.name for path in self.folder.iterdir()], [])

    def test_tables_of_the_emulator(self):
        self.report(GABBRO_SYSFS_ROOT=str(TREES / "no_gpu"))
        import struct
        import importlib.machinery
        import importlib.util
        loader = importlib.machinery.SourceFileLoader("report_tool", str(TOOL))
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("report_tool", loader))
        loader.exec_module(module)
        data = bytearray(1472)
        data[:9] = b"Radeon RX"
        data[1160:1167] = b"gfx1100"
        for offset, form, value in ((288, "Q", 24560 << 20), (296, "Q", 65536), (308, "i", 32), (348, "i", 2482000), (388, "i", 48),
                                    (608, "i", 1249000), (612, "i", 384), (616, "i", 6144 << 10)):
            struct.pack_into("<" + form, data, offset, value)
        report = module.Report(self.archive)
        report.files["hip.jsonl"] = "\n".join(map(json.dumps, [
            {"fact": "properties", "device": 0, "error": 0, "name": "Radeon RX", "architecture": "gfx1100", "bytes": data.hex()},
            {"fact": "attribute", "device": 0, "number": 89, "value": 1}, {"fact": "attribute", "device": 0, "number": 90, "error": 1}]))
        self.assertEqual(report.cards(), ['{"gfx1100", "gfx1100", "Radeon RX", 32, 48, 24560, 2482, 1249, 384, 6144, 64, false},'])
        self.assertEqual(report.attributes(), ["{89, 1},", "{90, kError1},"])

    def test_bad_input(self):
        self.fails(2, "doctor", "--report", self.archive, "--model", self.folder / "none.gguf", says=("none.gguf",))
        self.fails(2, "doctor", "--report", self.archive, "--faults", stdin=b"n\n", says=("not agreed",))
        self.fails(2, "doctor", "--model", TINY_F16)
        self.fails(2, "doctor", "--show", self.file("text", b"text"), says=("not a zstd file",))
        self.fails(1, "doctor", "--report", "/no/such/folder/card.tar.zst", says=("cannot write to its folder",),
                   environment={"GABBRO_PLUGIN_PATH": self.plugins("libgabbro_cpu.so")})
        self.assertFalse(self.archive.exists())
        done = subprocess.run([TOOL, self.file("text", b"text")], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)


if __name__ == "__main__":
    support.main()

"""`doctor --peers`: a row for each ordered pair of devices, and verdicts that later processes obey."""
import json
import unittest

from support import BUILD, TINY_F16, TestCase, gabbro, main

SIM = {"GABBRO_SIM_DEVICES": "2", "GABBRO_DEVICE": "sim:0", "GABBRO_WORKER": "off"}
PAIRS = [("sim:0", "sim:1"), ("sim:1", "sim:0")]


@unittest.skipUnless((BUILD / "lib" / "libgabbro_sim.so").exists(), "no simulator")
class Peers(TestCase):
    def peers(self, fault="", code=0):
        environment = {**SIM, "GABBRO_PLUGIN_PATH": str(BUILD / "lib"), "GABBRO_TUNING_FILE": str(self.folder / "tuning.txt"),
                       "GABBRO_SIM_FAIL": fault}
        result = gabbro("doctor", "--peers", "--json", environment=environment)
        self.assertEqual(result.code, code, result)
        found = [row for row in json.loads(result.out)["peers"] if row["from"].startswith("sim")]
        self.assertEqual([(row["from"], row["to"]) for row in found], PAIRS)
        return found

    def note(self, fault=""):
        """What loading a model over two devices says of their copies."""
        environment = {**SIM, "GABBRO_PLUGIN_PATH": str(BUILD / "lib"), "GABBRO_TUNING_FILE": str(self.folder / "tuning.txt"),
                       "GABBRO_SIM_FAIL": fault}
        return self.succeeds("run", TINY_F16, "text", "--raw", "-n", "2", "--ctx", "64", "--devices", "sim:0,sim:1", "--split",
                             "layers", environment=environment).err.decode()

    def test_a_sound_machine(self):
        for row in self.peers():
            self.assertTrue(row["direct"], row)
            self.assertEqual((row["wrong_copies"], row["reason"], row["problem"]), (0, "", ""))
            self.assertGreater(row["bytes_per_second"], 1e6)
            self.assertTrue(0 < row["seconds"] < 1, row)
        self.assertNotIn("through the host's memory", self.note())

    def test_damage_is_found_and_obeyed_until_it_is_gone(self):
        for row in self.peers("peer:1"):
            self.assertFalse(row["direct"], row)
            self.assertIn("the checksum was", row["reason"])
            self.assertEqual(row["wrong_copies"], 0)  # the staged route is right
        # The devices are sound now, and a process that only loads a model trusts the verdict.
        self.assertRegex(self.note(), "through the host's memory: of 1 bytes sent directly the checksum was .* .an earlier test; "
                                      "gabbro doctor --peers repeats it.")
        self.assertTrue(all(row["direct"] for row in self.peers()))
        self.assertNotIn("through the host's memory", self.note())

    def test_damage_that_comes_after_the_test(self):
        found = self.peers("peer:25", code=1)  # the test has 12 copies; three are timed, and the next ones are checked
        self.assertTrue(any(row["wrong_copies"] > 0 for row in found), found)

    def test_damage_in_some_copies_is_kept(self):
        self.assertTrue(any("the checksum was" in row["reason"] for row in self.peers("peer:10")))
        self.assertIn("gabbro doctor --peers repeats it", self.note())

    def test_unreachable_and_failing_devices(self):
        for row in self.peers("unreachable:1"):
            self.assertIn("do not reach each other's memory", row["reason"])
        for row in self.peers("peer-error:1"):
            self.assertIn("injected failure of a copy between devices", row["reason"])

    def test_as_a_table_of_all_ordered_pairs(self):
        environment = {**SIM, "GABBRO_SIM_DEVICES": "3", "GABBRO_PLUGIN_PATH": str(BUILD / "lib"), "GABBRO_SIM_FAIL": "peer:1"}
        lines = gabbro("doctor", "--peers", environment=environment).text.splitlines()
        self.assertRegex(lines[0], "^from +to +route +GB/s +µs")
        self.assertEqual(len([line for line in lines if " staged " in line]), 6, lines)


if __name__ == "__main__":
    main()

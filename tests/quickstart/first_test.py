"""The program that answers the question of ./quickstart before the others are built: it answers as the whole one does."""
import json
import os
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GABBRO_BUILD_DIR", ROOT / "build" / "release"))
MODEL = ROOT / "tests" / "data" / "tiny" / "tiny-f16.gguf"


def run(program, *words):
    environment = {**os.environ, "GABBRO_DEVICE": "cpu", "GABBRO_TUNING_FILE": "", "GABBRO_PLUGIN_PATH": str(BUILD / "lib")}
    return subprocess.run([BUILD / program, *map(str, words)], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120)


class FirstProgram(unittest.TestCase):
    def test_it_answers_as_the_whole_program(self):
        answers = [run(program, "run", MODEL, "hello", "--raw", "-n", 8, "--temperature", 0) for program in ("first/gabbro", "bin/gabbro")]
        self.assertEqual([answer.returncode for answer in answers], [0, 0], answers[0].stderr)
        self.assertEqual(answers[0].stdout, answers[1].stdout)

    def test_it_lists_devices(self):
        ids = [device["id"] for device in json.loads(run("first/gabbro", "devices", "--json").stdout)["devices"]]
        self.assertIn("cpu", ids)

    def test_its_commands(self):
        help_text = run("first/gabbro", "--help").stdout
        self.assertIn("run", help_text)
        self.assertEqual(run("first/gabbro", "serve").returncode, 2)


if __name__ == "__main__":
    unittest.main()

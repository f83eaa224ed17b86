"""`cmake --install` gives a program that needs nothing of the build, and works wherever its prefix is moved."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GABBRO_BUILD_DIR", ROOT / "build" / "release"))
MODEL = ROOT / "tests" / "data" / "tiny" / "tiny-f16.gguf"
FILES = ["bin/gabbro", "lib/gabbro/gabbro_probe", "lib/gabbro/libgabbro_cpu.so", "share/man/man1/gabbro.1",
         "share/bash-completion/completions/gabbro", "share/zsh/site-functions/_gabbro",
         "share/fish/vendor_completions.d/gabbro.fish", "share/doc/gabbro/copyright",
         "share/doc/gabbro/examples/gabbro.service", "share/doc/gabbro/examples/gabbro.socket"]
# The C++ library: the names of a release, and the headers' names in the source.
FILES += ["lib/libgabbro.so", "lib/libgabbro.so.0.1", "lib/libgabbro.so.0.1.0", "lib/pkgconfig/gabbro.pc",
          "lib/cmake/gabbro/gabbroConfig.cmake", "lib/cmake/gabbro/gabbroConfigVersion.cmake"]
FILES += [str(path.relative_to(ROOT)) for path in (ROOT / "include").rglob("*.h")]
# Pipelines of pictures.
FILES += [f"share/gabbro/{path.relative_to(ROOT)}" for path in (ROOT / "models").rglob("*") if not path.is_dir()]
CONFIGURATION = re.compile(r"lib/cmake/gabbro/gabbroConfig-\w+\.cmake")  # named after the build's type
GPU_PLUGINS = ["lib/gabbro/libgabbro_rocm.so", "lib/gabbro/libgabbro_cuda.so"]  # where the build has them


def run(*words, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GABBRO_")}
    environment |= {"GABBRO_DEVICE": "cpu", "GABBRO_TUNING_FILE": "", **variables}
    done = subprocess.run(list(map(str, words)), env=environment, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120)
    if done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}: {done.stderr}")
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        run("cmake", "--install", BUILD, "--prefix", cls.folder / "first")
        cls.prefix = cls.folder / "moved to" / "second"
        cls.prefix.parent.mkdir()
        (cls.folder / "first").rename(cls.prefix)

    def test_all_files_are_there_and_no_others(self):
        files = sorted(str(path.relative_to(self.prefix)) for path in self.prefix.rglob("*") if not path.is_dir())
        self.assertEqual(len([file for file in files if CONFIGURATION.fullmatch(file)]), 1)
        self.assertEqual([file for file in files if file not in GPU_PLUGINS and not CONFIGURATION.fullmatch(file)],
                         sorted(FILES))

    def answer(self, program, **variables):
        return run(program, "run", MODEL, "hello", "--raw", "-n", "4", "--temperature", "0", **variables)

    def test_the_moved_program_runs_a_model(self):
        built = self.answer(BUILD / "bin" / "gabbro")
        self.assertEqual(self.answer(self.prefix / "bin" / "gabbro"), built)
        self.assertEqual(self.answer("gabbro", PATH=f"{self.prefix}/bin:/usr/bin"), built)
        link = self.folder / "link"
        link.symlink_to(self.prefix / "bin" / "gabbro")
        self.assertEqual(self.answer(link), built)

    def test_it_finds_its_own_plugin_and_not_the_build_s(self):
        (self.prefix / "lib/gabbro/libgabbro_cpu.so").rename(self.folder / "away.so")
        self.addCleanup((self.folder / "away.so").rename, self.prefix / "lib/gabbro/libgabbro_cpu.so")
        with self.assertRaisesRegex(AssertionError, "ended with 3"):
            self.answer(self.prefix / "bin" / "gabbro")

    def test_it_finds_its_probe(self):
        # A recorded machine's runtimes are not asked; this machine's are, and the check fails where there is no probe.
        self.assertNotIn("gabbro_probe", run(self.prefix / "bin" / "gabbro", "doctor", "--json"))

    def test_pages_and_completions_are_written(self):
        self.assertTrue((self.prefix / "share/man/man1/gabbro.1").read_text().startswith(".TH"))
        for file in FILES[4:7]:
            self.assertIn("gabbro", (self.prefix / file).read_text(), file)

    def test_no_file_of_a_current_folder_is_taken_for_the_probe(self):
        # Looked up on the PATH, the program's name has no folder; a file of the current folder does not belong to it.
        trap = self.folder / "trap"
        trap.mkdir()
        (trap / "gabbro_probe").write_text(f"#!/bin/sh\ntouch '{self.folder}/trapped'\n")
        (trap / "gabbro_probe").chmod(0o755)
        environment = {**os.environ, "PATH": f"{self.prefix}/bin:/usr/bin:/bin"}
        environment.pop("GABBRO_SYSFS_ROOT", None)
        subprocess.run(["gabbro", "doctor"], cwd=trap, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        self.assertFalse((self.folder / "trapped").exists())


class Wheel(unittest.TestCase):
    """What scikit-build takes into the wheel; where this build has the package."""

    def test_plugins_and_probe_are_in_the_package(self):
        if not list((BUILD / "python" / "gabbro").glob("_core*.so")):
            self.skipTest("this build has no Python package")
        with tempfile.TemporaryDirectory() as folder:
            run("cmake", "--install", BUILD, "--prefix", folder, "--component", "python")
            files = {path.name for path in pathlib.Path(folder, "gabbro").iterdir()}
            built = {path.name for path in (BUILD / "lib").glob("libgabbro_*.so")} - {"libgabbro_sim.so"}
            self.assertEqual({file for file in files if file.startswith("libgabbro_")}, built)
            self.assertLessEqual({"gabbro_probe", "_core.pyi"}, files)


if __name__ == "__main__":
    unittest.main()

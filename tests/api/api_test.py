"""The installed C++ library: its headers, its symbols, and the examples built by find_package and pkg-config."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GABBRO_BUILD_DIR", ROOT / "build" / "release"))
COMPILER = os.environ.get("CXX", "c++")
MODEL = ROOT / "tests" / "data" / "tiny" / "tiny-f16.gguf"
PIPELINE = ROOT / "tests" / "data" / "pictures" / "sd15"
EXAMPLES = ROOT / "examples" / "cpp"
STRICT = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


def run(*words, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GABBRO_")}
    environment |= {"GABBRO_DEVICE": "cpu", "GABBRO_TUNING_FILE": "", **variables}
    done = subprocess.run(list(map(str, words)), env=environment, cwd="/", stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def identifiers(mangled):
    """The names of `_ZN6gabbro2nn6LinearC1E...`: gabbro, nn, Linear; None if the symbol is another."""
    start = re.match(r"_Z(?:T[ISV])?NK?", mangled)
    if not start:
        return None
    at, names = start.end(), []
    while length := re.compile(r"\d+").match(mangled, at):
        at = length.end() + int(length[0])
        names.append(mangled[length.end():at])
    return names


class Api(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.headers = sorted((cls.prefix / "include" / "gabbro").rglob("*.h"))

    def test_each_header_compiles_alone(self):
        def compile_alone(header):
            source = self.folder / (header.stem + "_" + header.parent.name + ".cc")
            # Twice, and in a program that hides its own symbols.
            name = header.relative_to(self.prefix / "include")
            source.write_text(f"#include <{name}>\n#include <{name}>\n")
            run(COMPILER, *STRICT, "-fvisibility=hidden", "-fsyntax-only", "-I", self.prefix / "include", source)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_alone, self.headers))

    def test_all_symbols_are_declared_in_the_headers(self):
        declared, internal = set(), set()
        for header in self.headers:
            text = re.sub(r"//.*", "", header.read_text())
            before, push, after = text.partition("#pragma GCC visibility push(default)")
            declared |= set(re.findall(r"\w+", after))
            # Forward declarations before the pragma are of types that only the library knows.
            internal |= set(re.findall(r"(?:class|struct|namespace) (\w+)", before)) - {"gabbro"} if push else set()
        library = self.prefix / "lib" / "libgabbro.so"
        symbols = run("nm", "-D", "--defined-only", "--format=just-symbols", library).split()
        self.assertGreater(len(symbols), 500)
        for symbol in symbols:
            names = identifiers(symbol)
            self.assertTrue(names and names[0] == "gabbro", symbol)
            self.assertLessEqual(set(names), declared, symbol)
            self.assertFalse(set(names) & internal, symbol)
            self.assertNotRegex(symbol, r"\d(Device|Engine|Session|Sampler)5State")

    def test_the_library_is_named_by_its_minor_version(self):
        self.assertIn("[libgabbro.so.0.1]", run("readelf", "-d", self.prefix / "lib" / "libgabbro.so"))

    def check_training(self, output):
        losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", output)]
        self.assertEqual(len(losses), 5)
        self.assertLess(losses[-1], 0.01 * losses[0])
        answers = [float(line) for line in output.split("\n")[5:9]]
        self.assertEqual([round(answer) for answer in answers], [0, 1, 1, 0])

    def test_examples_by_find_package(self):
        build = self.folder / "examples"
        run("cmake", "-S", EXAMPLES, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DCMAKE_CXX_COMPILER={COMPILER}", "-DCMAKE_BUILD_TYPE=Debug")
        run("cmake", "--build", build, "--parallel", os.cpu_count())
        self.check_training(run(build / "train"))
        run(build / "custom_function")
        text = run(build / "chat", MODEL, "hello", "8")
        self.assertTrue(text.strip())
        self.assertEqual(run(build / "chat", MODEL, "hello", "8"), text)
        picture = self.folder / "picture.ppm"
        self.assertEqual(run(build / "draw", PIPELINE, "a red heart", picture, "3"), "64 x 64\n")
        self.assertEqual(picture.read_bytes()[:8], b"P6 64 64")
        with self.assertRaisesRegex(AssertionError, "ended with 2:\ndraw: error: .*nowhere: no such folder"):
            run(build / "draw", self.folder / "nowhere", "a", self.folder / "none.ppm")
        with self.assertRaisesRegex(AssertionError, "ended with 2:\nchat: error: .*nowhere.gguf"):
            run(build / "chat", self.folder / "nowhere.gguf", "hello")
        # The plugin is the installed one.
        with self.assertRaisesRegex(AssertionError, "ended with 1:\ntrain: error: "):
            run(build / "train", GABBRO_PLUGIN_PATH=self.folder)

    def test_another_version_is_refused(self):
        folder = self.folder / "version"
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(x CXX)\n"
                                               "find_package(gabbro 0.2 REQUIRED)\n")
        with self.assertRaisesRegex(AssertionError, "with requested version"):
            run("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")

    def test_an_example_by_pkg_config(self):
        folder = self.prefix / "lib" / "pkgconfig"
        flags = run("pkg-config", "--cflags", "--libs", "gabbro", PKG_CONFIG_PATH=folder).split()
        program = self.folder / "train_by_pkg_config"
        run(COMPILER, *STRICT, EXAMPLES / "train.cc", "-o", program, *flags)
        self.check_training(run(program, LD_LIBRARY_PATH=self.prefix / "lib"))


if __name__ == "__main__":
    unittest.main()

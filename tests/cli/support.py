"""What the tests of the command line share: running the program, the models, and what an error has to look like."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import sysfs_trees  # noqa: E402

BUILD = pathlib.Path(os.environ.get("GABBRO_BUILD_DIR", ROOT / "build" / "release"))
PROGRAM = os.environ.get("GABBRO_PROGRAM") or str(BUILD / "bin" / "gabbro")
TINY = ROOT / "tests" / "data" / "tiny"
TINY_F16, TINY_Q8_0, TINY_Q4_0 = (str(TINY / f"tiny-{q}.gguf") for q in ("f16", "q8_0", "q4_0"))
REAL_MODEL_NAME = "smollm2-135m-instruct-q4_1"
SANITIZED = BUILD.name in ("asan", "tsan", "coverage")  # these map terabytes of address space, and are slow
# The tests say what a machine without a GPU says, wherever they run; those about cards set their own.
os.environ.setdefault("GABBRO_DEVICE", "cpu")
TREES = sysfs_trees.unpacked()  # recorded machines
os.environ.setdefault("GABBRO_SYSFS_ROOT", str(TREES / "no_gpu"))
SKIPPED = 77  # CTest's SKIP_RETURN_CODE
os.environ.setdefault("GABBRO_TUNING_FILE", "")  # nothing that was measured on this machine
# Models of other programs on this machine, and the real Hub, are none of the tests' business.
os.environ.update(HF_HUB_CACHE="/nonexistent/hub", OLLAMA_MODELS="/nonexistent/ollama", HF_ENDPOINT="http://127.0.0.1:9")
# A hang is a failure too; the sanitized builds are slow.
TIMEOUT = 300


def real_model():
    """Path of SmolLM2, or None: GABBRO_TEST_MODEL, or the model cache."""
    if os.environ.get("GABBRO_TEST_MODEL"):
        return os.environ["GABBRO_TEST_MODEL"]
    cache = os.environ.get("XDG_CACHE_HOME", "")
    homes = [os.environ.get("GABBRO_HOME"), cache.startswith("/") and f"{cache}/gabbro", os.path.expanduser("~/.cache/gabbro")]
    for home in filter(None, homes):
        for path in sorted(pathlib.Path(home, "models").glob("*.gguf")):
            if path.stem.lower().replace(".", "-") == REAL_MODEL_NAME:
                return str(path)
    return None


class Result:
    def __init__(self, arguments, code, out, err):
        self.arguments, self.code, self.out, self.err = arguments, code, out, err

    @property
    def text(self):
        return self.out.decode()

    def __str__(self):
        return f"gabbro {' '.join(map(str, self.arguments))[:300]}\ncode {self.code}\nout {self.out[:500]}\nerr {self.err[:500]}"


def gabbro(*arguments, stdin=subprocess.DEVNULL, environment=None, **options):
    """Runs the program; `stdin` may be bytes."""
    feed = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    done = subprocess.run([PROGRAM, *map(os.fsencode, map(os.fspath, arguments))], capture_output=True, timeout=TIMEOUT,
                          env={**os.environ, **(environment or {})}, **feed, **options)
    return Result(arguments, done.returncode, done.stdout, done.stderr)


def eventually(condition, seconds=60.0):
    """Waits until `condition()` is true, and returns what it gave: a state that has to come, however busy the machine is."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"it has not come within {seconds:.0f} s")
        time.sleep(0.01)
    return value


def within(limit, attempt, tries=6):
    """A limit of time that holds for the program: other work on the machine delays one attempt, a fault delays each of them.
    `attempt()` gives the seconds that it took."""
    seconds = []
    for _ in range(tries):
        seconds.append(attempt())
        if seconds[-1] < limit or SANITIZED:
            return
    raise AssertionError(f"{tries} attempts took {', '.join(f'{s:.2f}' for s in seconds)}; {limit:.2f} is the limit")


def gguf_types():
    """The types that `convert` can write, of its message."""
    result = gabbro("convert", TINY_F16, "--type", "none of them")
    folders = {"int4_zp", "int8_f32", "fp8_e4m3", "nf4"}  # forms that GGUF lacks
    return [name for name in result.err.decode().split("known: ")[1].strip().split(", ") if name not in folders]


class TestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def succeeds(self, *arguments, **options):
        result = gabbro(*arguments, **options)
        self.assertEqual(result.code, 0, result)
        return result

    def fails(self, code, *arguments, says=(), **options):
        """Nothing on stdout, exactly one error line (and perhaps a hint) on stderr, and this exit code."""
        result = gabbro(*arguments, **options)
        self.assertEqual(result.code, code, result)
        self.assertEqual(result.out, b"", result)
        lines = [line for line in result.err.decode().splitlines() if not line.startswith("gabbro: note: ")]
        self.assertTrue(lines and lines[0].startswith("gabbro: error: "), result)
        self.assertTrue(len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("hint: ")), result)
        for word in [says] if isinstance(says, str) else says:
            self.assertIn(word, result.err.decode(), result)
        return result


def main():
    """Exits with SKIPPED where every test was skipped, so that CTest shows it."""
    program = unittest.main(exit=False, verbosity=1)
    result = program.result
    for test, reason in result.skipped:
        print(f"skipped: {test}: {reason}", file=sys.stderr)
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.testsRun and result.testsRun == len(result.skipped) else 0)

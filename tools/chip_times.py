"""The least time that AMD's chips need for the work of a language model, by their published rates.

What a kernel cannot be faster than: the bytes it reads over the memory's bandwidth, and its operations over the rate of
the units that do them. Not a measurement; launches, latencies and caches are left out. Bandwidths, shapes and block formats are read
from the tables of the sources, so that each is written down once.
"""
import collections
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent

# The largest card of each target: compute units and GHz at their highest (AMD's data sheets), and the memory by which the
# table of bandwidths tells cards of one target apart.
Chip = collections.namedtuple("Chip", "name gibibytes units clock")
CHIPS = {
    "gfx906": Chip("Instinct MI50", 32, 60, 1.725),
    "gfx908": Chip("Instinct MI100", 32, 120, 1.502),
    "gfx90a": Chip("Instinct MI210", 64, 104, 1.7),
    "gfx942": Chip("Instinct MI300X", 192, 304, 2.1),
    "gfx950": Chip("Instinct MI355X", 288, 256, 2.4),
    "gfx1030": Chip("Radeon RX 6900 XT", 16, 80, 2.25),
    "gfx1100": Chip("Radeon RX 7900 XTX", 24, 96, 2.5),
    "gfx1101": Chip("Radeon RX 7800 XT", 16, 60, 2.43),
    "gfx1102": Chip("Radeon RX 7600", 8, 32, 2.655),
    "gfx1151": Chip("Radeon 8060S", 0, 40, 2.9),
    "gfx1200": Chip("Radeon RX 9060 XT", 16, 32, 3.13),
    "gfx1201": Chip("Radeon RX 9070 XT", 16, 64, 2.97),
}
# f16 operations with f32 sums (a multiplication and an addition are two) per compute unit and clock: on matrix cores
# (AMD's documents of the CDNA and RDNA architectures), else packed dot products, two products a lane.
HALF_RATES = ((r"gfx950", 4096), (r"gfx94", 2048), (r"gfx9(08|0a)", 1024), (r"gfx12", 1024), (r"gfx11", 512), (r"", 256))
LANES = 64  # for which a compute unit of any of them begins an instruction in a clock

# The shape for a kernel's time: the widest matrix of Llama 3.1 8B; a cache of 8192 tokens; a prompt of 2048.
ROWS, COLUMNS, CACHED, PROMPT = 14336, 4096, 8192, 2048
HEADS, KV_HEADS, HEAD = 32, 8, 128


def read(path):
    return (ROOT / path).read_text()


def bandwidth(target):
    """Bytes a second, from the one table of them."""
    chip = CHIPS[target]
    for architecture, name, gibibytes, rate in re.findall(r'\{"(gfx\w+)", "([^"]*)", (\d+), ([\d.]+)\}',
                                                          read("src/base/published_bandwidth.cc")):
        if architecture == target and name in chip.name and int(gibibytes) in (0, chip.gibibytes):
            return float(rate) * 1e9
    raise KeyError(f"src/base/published_bandwidth.cc has no row for {target}")


def half_rate(target):
    """Operations on halves a second."""
    chip = CHIPS[target]
    return next(rate for pattern, rate in HALF_RATES if re.match(pattern, target)) * chip.units * chip.clock * 1e9


def weight_bytes():
    """format -> bytes of an element."""
    rows = re.findall(r'\{"(\w+)", (\d+), (\d+)\}', read("include/gabbro/dtype.h"))
    rows += re.findall(r'X\((\w+),.*?\.block_elements = (\d+), *\.block_bytes = (\d+)', read("include/gabbro/quant_traits.h"))
    return {name: int(size) / int(elements) for name, elements, size in rows}


def kernel_times(target, name, kernel):
    """Least microseconds of memory and arithmetic, for kernels with a known shape; else nothing."""
    if target not in CHIPS:
        return {}
    moved, seconds = 0, 0
    one = re.match(r"linear_(?:(b?f\d\d)_1_\d|(i?q\d_\w+?)_1)(_paired)?$", name)
    tiled = re.match(r"linear_(\w+)_tiled_\d+$", name)
    attention = re.match(r"attention_(?:step_)?(f16|i8|matrix)_128$", name)
    prefill = re.match(r"attention_(f16|i8)_tiled_128$", name)
    if one:
        moved = ROWS * COLUMNS * weight_bytes()[one[1] or one[2]]
        if kernel.get("dot4"):  # each takes four weights of a lane
            chip = CHIPS[target]
            seconds = ROWS * COLUMNS / 4 / (LANES * chip.units * chip.clock * 1e9)
    elif tiled:
        moved = ROWS * COLUMNS * weight_bytes()[tiled[1]] + PROMPT * (COLUMNS * 2 + ROWS * 4)
        seconds = 2 * PROMPT * ROWS * COLUMNS / half_rate(target)
    elif attention:
        moved = 2 * CACHED * KV_HEADS * HEAD * (1 + 2 / 32 if attention[1] == "i8" else 2)
    elif prefill:
        moved = 2 * PROMPT * (HEADS * 4 + KV_HEADS * 2) * HEAD
        seconds = 2 * PROMPT * PROMPT * HEADS * HEAD / half_rate(target)
    return {"us memory": moved / bandwidth(target) * 1e6, "us compute": seconds * 1e6} if moved else {}


def shapes():
    """name -> sizes of the published models of the llama family."""
    found = {}
    # Lines of the table: llama_2(name, {layers, embedding, heads, kv_heads, feed_forward}, ...), and llama_3 likewise.
    for kind, name, numbers in re.findall(r'(llama_[23])\("([\w-]+)", \{([\d, ]+)\}', read("src/models/llm/published_sizes.cc")):
        layers, embedding, heads, kv_heads, feed_forward = (int(number) for number in numbers.split(", "))
        found[name] = {"layers": layers, "embedding": embedding, "heads": heads, "kv_heads": kv_heads,
                       "head_dimension": embedding // heads, "feed_forward": feed_forward,
                       "vocabulary": 32000 if kind == "llama_2" else 128256}
    return found


def model_times(target, sizes, dtype):
    """Milliseconds for a token that follows no others, and for a prompt of 2048 tokens; None where the card is too small."""
    width = sizes["heads"] * sizes["head_dimension"]
    kv_width = sizes["kv_heads"] * sizes["head_dimension"]
    layer = sizes["embedding"] * (2 * width + 2 * kv_width + 3 * sizes["feed_forward"])
    weights = sizes["layers"] * layer
    read_once = (weights + sizes["vocabulary"] * sizes["embedding"]) * weight_bytes()[dtype]
    # The head is for the last token of a prompt alone, and attention sees half of the pairs of tokens.
    operations = 2 * PROMPT * weights + 2 * sizes["layers"] * PROMPT * PROMPT * width
    memory = CHIPS[target].gibibytes * (1 << 30)
    if memory and read_once > 0.95 * memory:
        return None
    return read_once / bandwidth(target) * 1e3, max(operations / half_rate(target), read_once / bandwidth(target)) * 1e3


def model_table():
    """Tokens a second by format, and milliseconds of the models' prompts; a cell's numbers have slashes between."""
    formats = ("q4_k", "q8_0", "f16")
    models = ("llama-1b", "llama-8b", "llama-70b")
    heads = [*(model[6:] for model in models), "prompts"]
    yield f"| target | card | GB/s | TFLOP/s | {' | '.join(heads)} |"
    yield "| --- |" + " --- |" * (3 + len(heads))
    known = shapes()
    for target, chip in CHIPS.items():
        times = {(model, dtype): model_times(target, known[model], dtype) for model in models for dtype in formats}
        tokens = ["/".join(f"{1e3 / times[model, dtype][0]:.0f}" for dtype in formats if times[model, dtype])
                  for model in models]
        prompts = "/".join(f"{times[model, 'q4_k'][1]:.0f}" for model in models if times[model, "q4_k"])
        rates = [f"{bandwidth(target) / 1e9:.0f}", f"{half_rate(target) / 1e12:.0f}"]
        cells = [target, chip.name, *rates, *tokens, prompts]
        yield f"| {' | '.join(cells)} |"

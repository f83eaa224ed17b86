#!/usr/bin/env python3
"""Compares our quantizers with ggml's: root mean square errors, without and with importance, and speed of one thread.

    compare_quantizers.py LIBGGML_BASE.SO OURS.SO [--model MODEL.gguf] [--formats q4_k,q6_k] [--rows 64]
    compare_quantizers.py LIBGGML_BASE.SO OURS.SO --figures 'llama.cpp of llama-cpp-python 0.3.36'

LIBGGML_BASE.SO comes from a build of llama.cpp, whose sources are in the source distribution of llama-cpp-python.
OURS.SO is quantize_rows.cc with the sources of src/formats/quant and fmt, from the root of the tree:

    c++ -std=c++20 -O3 -DNDEBUG -shared -fPIC -I. -Iinclude tests/reference/quantize_rows.cc \\
      $(ls src/formats/quant/*.cc | grep -v _test) -lfmt -o OURS.SO

Errors are sqrt(Σ w (x - x')² / Σ w x²): w = 1 without importance, with it the column's. Formats that ggml quantizes
only with importance get weights of 1 there. A ratio above 1 means that ours is worse; the script exits 1 then.
Speeds are millions of values a second. --figures writes the errors that encode_test.cc compares with.
"""
import argparse
import ctypes
import dataclasses
import pathlib
import sys
import time

import numpy as np

NEED_IMPORTANCE = {"iq2_xxs", "iq2_xs", "iq1_s", "iq1_m"}
FIGURES = pathlib.Path(__file__).parent.parent / "data" / "formats" / "quant" / "ggml_errors.txt"


int64 = ctypes.c_int64


def pointer(array):
    return None if array is None else array.ctypes.data_as(ctypes.c_void_p)


@dataclasses.dataclass
class Format:
    index: int
    name: str
    ggml_type: int
    elements: int
    size: int
    has_encoder: bool


class Ggml:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.ggml_quantize_chunk.restype = ctypes.c_size_t

    def quantize(self, kind, rows, importance):
        """The blocks, and the seconds that they took."""
        if importance is None and kind.name in NEED_IMPORTANCE:
            importance = np.ones(rows.shape[1], np.float32)
        out = np.zeros(rows.size // kind.elements * kind.size, np.uint8)
        self.library.ggml_quantize_init(ctypes.c_int(kind.ggml_type))
        start = time.thread_time()
        self.library.ggml_quantize_chunk(ctypes.c_int(kind.ggml_type), pointer(rows), pointer(out), int64(0),
                                         int64(rows.shape[0]), int64(rows.shape[1]), pointer(importance))
        return out, time.thread_time() - start


class Ours:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.gabbro_format.restype = ctypes.c_char_p

    def formats(self):
        numbers = (ctypes.c_int * 4)()
        index = 0
        while name := self.library.gabbro_format(ctypes.c_int(index), numbers):
            yield Format(index, name.decode(), *numbers[:3], bool(numbers[3]))
            index += 1

    def quantize(self, kind, rows, importance):
        """The blocks, and the seconds that they took. Tables of the format are made before."""
        out = np.zeros(rows.size // kind.elements * kind.size, np.uint8)
        first = np.zeros(kind.size, np.uint8)
        self.library.gabbro_quantize(ctypes.c_int(kind.index), pointer(rows), pointer(first), int64(1),
                                     int64(kind.elements), None)
        start = time.thread_time()
        self.library.gabbro_quantize(ctypes.c_int(kind.index), pointer(rows), pointer(out), int64(rows.shape[0]),
                                     int64(rows.shape[1]), pointer(importance))
        return out, time.thread_time() - start

    def dequantize(self, kind, blocks, shape):
        out = np.zeros(shape, np.float32)
        self.library.gabbro_dequantize(ctypes.c_int(kind.index), pointer(blocks), pointer(out), int64(out.size))
        return out


def model_rows(path, columns, count):
    """Rows of matrices of a GGUF file, cut or joined to `columns`."""
    import gguf

    rows = []
    for tensor in gguf.GGUFReader(path).tensors:
        if len(tensor.shape) == 2 and "blk." in tensor.name:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).ravel()
            rows.append(values[:values.size // columns * columns].reshape(-1, columns)[:8])
    rows = np.concatenate(rows).astype(np.float32)
    return np.ascontiguousarray(rows[np.linspace(0, len(rows) - 1, count).astype(int)])


def make_rows(columns, count, model):
    random = np.random.default_rng(20261125)
    cases = {"gaussian": random.normal(0, 0.02, (count, columns)),
             "student_t4": random.standard_t(4, (count, columns)) * 0.02,
             "columns": random.laplace(0, 0.02, (count, columns)) * np.exp(random.normal(0, 0.5, columns))}
    cases = {name: values.astype(np.float32) for name, values in cases.items()}
    if model:
        cases["model"] = model_rows(model, columns, count)
    return cases, np.exp(random.normal(0, 1.5, columns)).astype(np.float32)


def relative_error(rows, decoded, weights):
    difference = rows.astype(np.float64) - decoded
    weights = np.ones(rows.shape[1]) if weights is None else weights.astype(np.float64)
    return float(np.sqrt((weights * difference**2).sum() / (weights * rows.astype(np.float64) ** 2).sum()))


def test_rows():
    """Rows [16, 512] and the importance of their columns, as make_rows of encode_test.cc has them."""
    state, numbers = 20261125, []
    for _ in range(4 * 16 * 512 + 512):
        state = (1664525 * state + 1013904223) % 2**32
        numbers.append((state >> 8) * 2.0**-24)
    numbers = np.array(numbers)
    sums = numbers[:4 * 16 * 512].reshape(16, 512, 4).sum(2) - 2
    rows = 0.05 * sums
    rows[8:] = 0.05 * sums[8:] * sums[8:] * sums[8:]  # heavy tails
    importance = numbers[4 * 16 * 512:] ** 4 + 0.01
    return rows.astype(np.float32), importance.astype(np.float32)


def write_figures(ggml, ours, origin):
    rows, importance = test_rows()
    lines = [f"# Errors of ggml's quantizers ({origin}): format, without importance, with importance.",
             "# Written by tests/reference/compare_quantizers.py, which defines them, for encode_test.cc."]
    for kind in ours.formats():
        if not kind.has_encoder:
            continue
        errors = []
        for weights in (None, importance):
            blocks, _ = ggml.quantize(kind, rows, weights)
            errors.append(relative_error(rows, ours.dequantize(kind, blocks, rows.shape), weights))
        lines.append(f"{kind.name} {errors[0]:.7f} {errors[1]:.7f}")
    FIGURES.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ggml")
    parser.add_argument("ours")
    parser.add_argument("--model")
    parser.add_argument("--formats", help="comma-separated; all by default")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--figures", metavar="ORIGIN", help=f"write {FIGURES.name}; names the version of llama.cpp")
    options = parser.parse_args()
    ggml, ours = Ggml(options.ggml), Ours(options.ours)
    if options.figures:
        write_figures(ggml, ours, options.figures)
        return
    names = options.formats.lower().split(",") if options.formats else None
    cases, importance = make_rows(1536, options.rows, options.model)
    worse = 0
    print(f"{'format':8} {'rows':11} {'importance':10} {'ggml':>9} {'ours':>9} {'ratio':>7} "
          f"{'M/s ggml':>9} {'ours':>7} speed")
    for kind in ours.formats():
        if not kind.has_encoder or (names and kind.name not in names):
            continue
        for case, rows in cases.items():
            for weights in (None, importance):
                blocks, seconds = ggml.quantize(kind, rows, weights)
                expected = relative_error(rows, ours.dequantize(kind, blocks, rows.shape), weights)
                blocks, our_seconds = ours.quantize(kind, rows, weights)
                actual = relative_error(rows, ours.dequantize(kind, blocks, rows.shape), weights)
                ratio = actual / expected if expected else 1.0 + (actual > 0)
                worse += ratio > 1 + 1e-6
                given = "no" if weights is None else "yes"
                print(f"{kind.name:8} {case:11} {given:10} {expected:9.5f} {actual:9.5f} {ratio:7.4f} "
                      f"{rows.size / seconds / 1e6:9.2f} {rows.size / our_seconds / 1e6:7.2f} "
                      f"{seconds / our_seconds:5.2f}{'  WORSE' if ratio > 1 + 1e-6 else ''}", flush=True)
    sys.exit(worse > 0)


main()

#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/published: a sound module of each published form, as fuzz_published.cc reads its input: the
quantization_config as a text that "\\." ends, bytes of tensors, and numbers, one byte each, from the end. Standard
library only; the tables have to match fuzz_published.cc.
"""
import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "corpus" / "published"
SOURCE = (HERE / "fuzz_published.cc").read_text()


def table(name):
    body = re.search(rf"{name}\[\] = {{(.*?)}};", SOURCE, re.S)[1]
    return re.findall(r'"([^"]+)"', body)


MODULES, SUFFIXES, TYPES = table("kModules"), table("kSuffixes"), table("kTypes")
LENGTHS = [int(x) for x in re.search(r"kLengths\[\] = {(.*?)}", SOURCE)[1].split(",")]


def case(name, config, tensors, values=bytes(range(1, 60))):
    """tensors: (module, suffix, type, shape)."""
    numbers = [len(tensors) - 1]
    for module, suffix, kind, shape in tensors:
        numbers += [MODULES.index(module), SUFFIXES.index(suffix), TYPES.index(kind), len(shape)]
        numbers += [LENGTHS.index(length) for length in shape]
    text = json.dumps(config).replace("\\", "\\\\").encode() + b"\\."
    (OUT / name).write_bytes(text + values + bytes(reversed(numbers)))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    nf4 = json.dumps({"shape": [2, 64], "blocksize": 64, "dtype": "bfloat16", "quant_type": "nf4"}).encode().ljust(96)
    a, experts = MODULES[0], MODULES[1]
    for bits, words in ((2, 4), (3, 6), (4, 8), (8, 16)):
        case(f"gptq_{bits}", {"quant_method": "gptq", "bits": bits, "group_size": 32},
             [(a, ".qweight", "I32", [words, 32]), (a, ".qzeros", "I32", [2, bits]), (a, ".scales", "F16", [2, 32])])
    case("gptq_order", {"bits": 4, "group_size": 32},
         [(a, ".qweight", "I32", [8, 8]), (a, ".qzeros", "I32", [2, 1]), (a, ".scales", "F16", [2, 8]),
          (a, ".g_idx", "I32", [64])], values=bytes([1, 0, 0, 0, 0, 0, 0, 0]))
    case("awq", {"quant_method": "awq", "bits": 4, "group_size": 32},
         [(a, ".qweight", "I32", [64, 2]), (a, ".qzeros", "I32", [2, 2]), (a, ".scales", "F16", [2, 16])])
    case("fp8_tensor", {"quant_method": "fp8"}, [(a, ".weight", "F8_E4M3", [4, 64]), (a, ".weight_scale", "F32", [])])
    case("fp8_block", {"quant_method": "fp8", "weight_block_size": [2, 32]},
         [(a, ".weight", "F8_E4M3", [4, 64]), (a, ".weight_scale_inv", "F32", [2, 2])])
    case("fp8_fnuz", {"quant_method": "fp8"},
         [(a, ".weight", "F8_E4M3FNUZ", [4, 64]), (a, ".weight_scale", "BF16", [4, 1])])
    case("int8", {"quant_method": "bitsandbytes"}, [(a, ".weight", "I8", [4, 64]), (a, ".SCB", "F32", [4])])
    case("nf4", {"quant_method": "bitsandbytes"},
         [(a, ".weight.quant_state.bitsandbytes__nf4", "U8", [len(nf4)]), (a, ".weight", "U8", [64, 1]),
          (a, ".weight.absmax", "F32", [2]), (a, ".weight.quant_map", "F32", [16])],
         values=nf4)
    case("packed", {"quant_method": "compressed-tensors", "format": "pack-quantized"},
         [(a, ".weight_shape", "I32", [2]), (a, ".weight_packed", "I32", [4, 8]), (a, ".weight_scale", "BF16", [4, 2])],
         values=bytes([4, 0, 0, 0, 64, 0, 0, 0]))
    case("bytes", {"quant_method": "compressed-tensors", "format": "int-quantized"},
         [(a, ".weight", "I8", [4, 64]), (a, ".weight_scale", "BF16", [4, 1])])
    case("mxfp4_packed", {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"},
         [(a, ".weight_packed", "U8", [4, 32]), (a, ".weight_scale", "U8", [4, 2])])
    case("mxfp4", {"quant_method": "mxfp4"},
         [(experts, "_blocks", "U8", [2, 4, 2, 16]), (experts, "_scales", "U8", [2, 4, 2])])


if __name__ == "__main__":
    main()

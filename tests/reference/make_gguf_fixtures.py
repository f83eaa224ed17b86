#!/usr/bin/env python3
"""GGUF fixtures, written by gguf-py (pip install gguf) into tests/data/formats/gguf/.

src/formats/gguf/gguf_test.cc states what is in them.
"""
import pathlib

import gguf
import numpy as np
from gguf import GGUFEndian, GGUFValueType

FOLDER = pathlib.Path(__file__).parent.parent / "data" / "formats" / "gguf"


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def all_types():
    writer = gguf.GGUFWriter(FOLDER / "all_types.gguf", "test")
    writer.add_uint8("t.u8", 250)
    writer.add_int8("t.i8", -5)
    writer.add_uint16("t.u16", 65000)
    writer.add_int16("t.i16", -300)
    writer.add_uint32("t.u32", 4000000000)
    writer.add_int32("t.i32", -2000000000)
    writer.add_uint64("t.u64", 2**63 + 1)
    writer.add_int64("t.i64", -(2**62))
    writer.add_float32("t.f32", 0.1)
    writer.add_float64("t.f64", 0.1)
    writer.add_bool("t.bool", True)
    writer.add_string("t.string", "gr\u00fc\u00dfe\n")
    writer.add_array("t.strings", ["a", "", "\u00df"])
    writer.add_array("t.i32s", [1, -2, 3])
    writer.add_array("t.f32s", [0.5, -1.5])
    writer.add_array("t.bools", [True, False, True])
    writer.add_key_value("t.nested", [[1, 2], [3]], GGUFValueType.ARRAY, GGUFValueType.ARRAY)
    writer.add_tensor("matrix", np.arange(12, dtype=np.float32).reshape(3, 4))
    writer.add_tensor("half", np.arange(5, dtype=np.float16))
    blocks = np.arange(3 * 2 * 18, dtype=np.uint8).reshape(3, 36)
    writer.add_tensor("blocks", blocks, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    unsupported = np.zeros((2, 292), np.uint8)
    writer.add_tensor("unsupported", unsupported, raw_dtype=gguf.GGMLQuantizationType.Q8_K)
    writer.add_tensor("last", np.arange(8, dtype=np.float32).reshape(2, 1, 4))
    finish(writer)


def plain():
    writer = gguf.GGUFWriter(FOLDER / "plain.gguf", "test")
    writer.add_uint32("a.u32", 7)
    writer.add_int16("a.i16", -7)
    writer.add_float32("a.f32", 1.5)
    writer.add_float64("a.f64", 2.5)
    writer.add_bool("a.bool", False)
    writer.add_array("a.strings", ["x", "yz"])
    writer.add_array("a.i32s", [-1, 2])
    writer.add_array("a.f32s", [0.25, 4.0])
    writer.add_tensor("one", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("two", np.arange(3, dtype=np.float16))
    finish(writer)


def vocabulary():
    writer = gguf.GGUFWriter(FOLDER / "vocabulary.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["<s>", "</s>", "hello", " world"])
    writer.add_token_merges(["h e", "l l"])
    writer.add_token_types([3, 3, 1, 1])
    writer.add_bos_token_id(0)
    finish(writer)


def split():
    writer = gguf.GGUFWriter(FOLDER / "split.gguf", "test", split_max_tensors=2)
    writer.add_uint32("test.block_count", 5)
    for i in range(5):
        writer.add_tensor(f"t{i}", np.full((2, 4), i, np.float32))
    finish(writer)


def big_endian():
    writer = gguf.GGUFWriter(FOLDER / "big_endian.gguf", "test", endianess=GGUFEndian.BIG)
    finish(writer)


FOLDER.mkdir(parents=True, exist_ok=True)
all_types()
plain()
vocabulary()
split()
big_endian()

"""What runs as machine code: each case is a few tests of a program, which must launch certain kernels."""
import dataclasses

# Sources that nearly every test needs: what makes and compares tensors.
COMMON = ["rms_norm", "softmax", "elementwise", "cast", "read_rows", "reduce", "index", "pack", "matmul", "graph_step"]


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    program: str
    tests: tuple  # patterns of Google Test
    sources: tuple
    kernels: str  # a regular expression; "kernel grid" of a launch has to match
    peeks: bool = False  # its kernels have loads of system scope, by peek()


def conformance(name, tests, sources, kernels, peeks=False):
    # A `*` behind the number: names end in the test's number.
    return Case(name, "conformance_test", tuple(f"*Gives/{test}_*" for test in tests), tuple(sources), kernels, peeks)


_LINEAR = ("linear_batch", "linear_decode_q", "linear_decode_plain", "linear_small_batch_q", "linear_small_batch_plain",
           "linear_tiled", "convert_f16")
_ATTENTION = ("attention_decode", "attention_decode_matrix", "attention_tiled", "attention_types", "rope_kv")
CASES = [
    Case("matmul, splits", "kernel_test", ("Matmul.FewVectorsInSplits",), ("matmul_vec",),
         r"matmul_vec_across \d+x[2-9]"),
    conformance("matmul", ("matmul_f16_33_64_64_17",), ("matmul_vec", "convert_f16"), "^matmul_"),
    conformance("linear, decode", ("linear_q4_0_1x33x96", "linear_q8_0_1x33x96", "linear_f16_1x33x96"), _LINEAR,
                "^linear_.*_1 "),
    conformance("linear, small batch", ("linear_q4_0_2x33x96", "linear_q8_0_5x33x96", "linear_f16_5x33x96"), _LINEAR,
                "^linear_.*_[24] "),
    conformance("linear, batch in splits", ("linear_q4_0_9x70x288", "linear_f16_31x70x288"), _LINEAR,
                r"^linear_.*_batch_\d+ \d+x1x[2-9]"),
    conformance("linear, prefill", ("linear_q4_0_100x65x32", "linear_f16_100x65x32"), _LINEAR, "^linear_"),
    Case("linear, fused", "kernel_test", ("LinearFused.OfEachEpilogue",), _LINEAR, "^linear_"),
    conformance("attention, decode in splits", ("attention_T_1_H_8_G_2_D_64_P_64_start_200_window_0_softcap_0_i8",),
                _ATTENTION, r"^attention_i8_128 \d+x\d+x2", peeks=True),
    conformance("attention, matrix decode in splits",
                ("attention_T_1_H_2_G_1_D_64_P_64_start_1700_window_300_softcap_0_f16",), _ATTENTION,
                r"^attention_matrix_64 1x1x\d\d", peeks=True),
    conformance("attention, types in splits", ("attention_T_1_H_2_G_1_D_40_P_32_start_1700_window_300_softcap_0_bf16",),
                _ATTENTION, r"^attention_bf16_256 \d+x\d+x([2-9]|\d\d)", peeks=True),
    conformance("attention, prefill",
                ("attention_T_40_H_6_G_3_D_64_P_64_start_100_window_0_softcap_0_f16",
                 "attention_T_65_H_3_G_1_D_128_P_16_start_130_window_0_softcap_20_f16",
                 "attention_dense_f16_1x2_1_70x33_D_80", "attention_dense_f16_1x2_2_33x65_D_64_causal"),
                (*_ATTENTION, "attention_dense"), "^attention_"),
    Case("sort", "kernel_test", ("Sort.OfOneBlockAndOfSeveral",), ("sort",), "^sort|^merge"),
    conformance("scan", ("cumsum_f32_2_4501", "cumsum_i32_3_68"), ("scan",), "scan|cumsum"),
    conformance("top-k", ("topk_bf16_37x17_k_5", "topk_i32_3x2048_k_100"), ("sort", "softmax_topk"), "sort|topk"),
    conformance("rows", ("softmax_3x17", "softmax_1x576", "rms_norm_1x576", "layer_norm_f32_9x128"),
                ("softmax", "layer_norm"), "^softmax|norm"),
    conformance("sums", ("sum_f16_1x20000", "sum_f16_2x1001_across", "argmax_f16_70x5", "moments_f32_3_5_64"),
                ("layer_norm",), "sum|arg|moment"),
    conformance("convolution", ("conv_f16_1_34_1_11_7_to_68_of_6_in_2", "conv_f32_1_2_5_6_7_to_17_of_12_in_1"),
                ("conv", "window", "convert_f16"), "conv"),
]
MODEL = "tests/data/tiny/tiny-q4_0.gguf"
MODEL_SOURCES = (*_LINEAR, *_ATTENTION, "softmax", "sort", "softmax_topk", "random", "scan")
MODEL_TOKENS = 4

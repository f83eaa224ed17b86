"""How the scripts that make tests/data/ops/*.json write their cases; the test that reads them is op_values_test.cc."""
import json
import math
import pathlib
import sys

import numpy as np

NAMES = {"float32": "f32", "float64": "f64", "float16": "f16", "bool": "bool",
         "int8": "i8", "uint8": "u8", "int16": "i16", "int32": "i32", "int64": "i64"}


def number(value, digits=9):
    if isinstance(value, (bool, int)):
        return int(value)
    if math.isnan(value):
        return "nan"
    return ("inf" if value > 0 else "-inf") if math.isinf(value) else float(f"{value:.{digits}g}")


class Cases:
    """`add` takes arrays; an input (array, "f16") is cast to that dtype, which must hold it exactly."""

    def __init__(self, name):
        self.name = name
        self.cases = []

    def pack(self, x):
        x, dtype = x if isinstance(x, tuple) else (x, None)
        x = np.asarray(x)
        return {"dtype": dtype or NAMES[str(x.dtype)], "shape": list(x.shape), "data": [number(v, 17 if x.dtype == np.float64 else 9) for v in x.flatten().tolist()]}

    def add(self, op, inputs, output, ulps, **attributes):
        """`ulps`: the largest error, in units of 2^-24 (of f64: 2^-53) of the largest element of the output."""
        self.cases.append({"op": op, "inputs": [self.pack(x) for x in inputs], "attributes": attributes,
                           "output": self.pack(output), "ulps": ulps})

    def write(self):
        """To the file that is named as the script's argument, else to tests/data/ops."""
        path = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                            pathlib.Path(__file__).parent.parent / "data" / "ops" / f"{self.name}.json")
        path.write_text("[" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in self.cases) + "]\n")

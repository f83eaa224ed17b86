"""Single files with weights in FP8, plain and with scales: the picture is that of the same numbers in bf16."""
import struct

import support
from test_single_files import SMALL, SingleFileFolder, single_file, write_safetensors

UNET = "model.diffusion_model."


def e4m3(code):
    """The number of a code (OCP 8-bit Floating Point Specification 1.0, section 5.1)."""
    exponent, fraction = code >> 3 & 15, code & 7
    value = fraction / 8 * 2 ** -6 if exponent == 0 else (1 + fraction / 8) * 2 ** (exponent - 7)
    return -value if code & 128 else value


CODES = sorted((e4m3(code), code) for code in range(256) if code & 127 != 127)


def nearest(value):
    """The code of the number that is nearest to `value`."""
    low, high = 0, len(CODES) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if CODES[middle][0] <= value else (low, middle)
    return min(CODES[low], CODES[high], key=lambda pair: abs(pair[0] - value))[1]


def bf16(value):
    """The bits, rounded to nearest, ties to even."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.pack("<H", (bits + 0x7fff + (bits >> 16 & 1)) >> 16)


def quantized(tensors, scales_of):
    """The tensors with the U-Net's matrices in FP8, and with the same numbers in bf16. `scales_of` gives a scale for each
    row, or one."""
    codes, plain = dict(tensors), dict(tensors)
    for name, (_, shape, data) in tensors.items():
        if not name.startswith(UNET) or not name.endswith(".weight") or len(shape) < 2:
            continue
        values = struct.unpack(f"<{len(data) // 4}f", data)
        row = len(values) // shape[0]
        rows = [values[i * row:(i + 1) * row] for i in range(shape[0])]
        scales = scales_of(rows)
        each = scales if len(scales) > 1 else scales * len(rows)
        found = [[nearest(value / scale) for value in one] for one, scale in zip(rows, each)]
        codes[name] = ("F8_E4M3", shape, bytes(code for one in found for code in one))
        numbers = [struct.unpack("<f", struct.pack("<f", e4m3(code) * scale))[0]
                   for one, scale in zip(found, each) for code in one]
        plain[name] = ("BF16", shape, b"".join(map(bf16, numbers)))
        codes[name, "scale"] = ("F32", [len(scales)] if len(scales) > 1 else [], struct.pack(f"<{len(scales)}f", *scales))
    return codes, plain


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def of_tensor(rows):
    return [f32(max(abs(value) for row in rows for value in row) / 448)]


def of_rows(rows):
    return [f32(max(map(abs, row)) / 448) for row in rows]


class Fp8(SingleFileFolder):
    def drawn(self, name, tensors, metadata):
        model = self.folder / "model.safetensors"
        write_safetensors(model, tensors, metadata)
        return self.draw(model, *self.tokenizers(name))

    def named(self, codes, ending, more=None):
        """Scales under NAME + ending."""
        tensors = {}
        for key, row in codes.items():
            name = key if isinstance(key, str) else key[0][:-len(".weight")] + ending
            tensors[name] = row
        return {**tensors, **(more or {})}

    def test_scaled_weights_give_the_picture_of_their_numbers(self):
        """Item 16 of the acceptance list: .scale_weight and .weight_scale."""
        for name in ("sd15", "sdxl"):
            tensors, metadata = single_file(name)
            codes, plain = quantized(tensors, of_tensor)
            expected = self.drawn(name, plain, metadata)
            marker = {"scaled_fp8": ("F8_E4M3", [0], b"")}
            first = next(key[0] for key in codes if not isinstance(key, str))[:-len(".weight")]
            described = {first + ".comfy_quant": ("U8", [28], b'{"format": "float8_e4m3fn"} '),
                         first + ".input_scale": ("F32", [], struct.pack("<f", 0.5))}
            for ending, more in ((".scale_weight", marker), (".weight_scale", described)):
                with self.subTest(name=name, ending=ending):
                    self.assertEqual(self.drawn(name, self.named(codes, ending, more), metadata), expected)
        codes, plain = quantized(tensors, of_rows)
        self.assertEqual(self.drawn(name, self.named(codes, ".weight_scale"), metadata), self.drawn(name, plain, metadata))

    def test_averaged_weights_are_not_used(self):
        """Item 9 of the acceptance list: EMA weights next to those that are used, and it is said."""
        tensors, metadata = single_file("sd15")
        expected = self.drawn("sd15", tensors, metadata)
        averaged = {"model_ema." + name[len("model."):].replace(".", ""): (dtype, shape, b"\0" * len(data))
                    for name, (dtype, shape, data) in tensors.items() if name.startswith(UNET)}
        self.assertEqual(self.drawn("sd15", {**averaged, **tensors}, metadata), expected)
        said = self.succeeds("inspect", self.folder / "model.safetensors", "--explain").text
        self.assertIn("model_ema.", said)
        self.assertIn("not used", said)

    def test_plain_weights(self):
        tensors, metadata = single_file("sd15")
        codes, plain = quantized(tensors, lambda rows: [1.0])
        codes = {key: row for key, row in codes.items() if isinstance(key, str)}
        self.assertEqual(self.drawn("sd15", codes, metadata), self.drawn("sd15", plain, metadata))

    def test_refused(self):
        tensors, metadata = single_file("sd15")
        codes, _ = quantized(tensors, of_tensor)
        first = next(key[0] for key in codes if not isinstance(key, str))
        layer, out = first[:-len(".weight")], self.folder / "none.png"
        nan = bytearray(codes[first][2])
        nan[3] = 0x7f
        cases = ((f"{layer}.weight_scale", {(first, "scale"): ("F32", [5], struct.pack("<5f", *[1] * 5))}),
                 (f"{layer}.weight_scale", {(first, "scale"): ("I32", [1], struct.pack("<i", 1))}),
                 (f"{layer}.weight_scale", {(first, "scale"): ("F32", [], struct.pack("<f", float("nan")))}),
                 (("element 3", first), {first: ("F8_E4M3", codes[first][1], bytes(nan))}),
                 ("comfy_quant", {layer + ".comfy_quant": ("U8", [27], b'{"format": "int8_tensor"}  ')}))
        for says, change in cases:
            with self.subTest(says=says):
                model = self.folder / "bad.safetensors"
                write_safetensors(model, self.named({**codes, **change}, ".weight_scale"), metadata)
                self.fails(2, "image", model, "a", "-o", out, *SMALL, *self.tokenizers("sd15"), says=says)
                self.assertFalse(out.exists())


if __name__ == "__main__":
    support.main()

"""The pipeline that comes with the program: its picture of a red heart next to diffusers' of the same weights and seed
(tests/data/pictures/emoji_red_heart.png, in f32)."""
import math
import struct
import zlib

import support
from support import ROOT, TestCase

LEAST_PSNR = 45  # dB


def pixels(png):
    """Width, height and the bytes of a PNG file with 8 bits a channel and no alpha, without its filters."""
    width, height, depth, color = struct.unpack(">IIBB", png[16:26])
    assert (depth, color) == (8, 2)
    data, at = b"", 8
    while at < len(png):
        size, kind = struct.unpack_from(">I4s", png, at)
        data += png[at + 8:at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    data, step = zlib.decompress(data), 3 * width
    above, rows = bytearray(step), bytearray()
    for y in range(height):
        kind, row = data[y * (step + 1)], bytearray(data[y * (step + 1) + 1:(y + 1) * (step + 1)])
        for i in range(step):
            left, corner = (row[i - 3], above[i - 3]) if i >= 3 else (0, 0)
            near = min((left, above[i], corner), key=lambda value: abs(left + above[i] - corner - value))
            row[i] = (row[i] + (0, left, above[i], (left + above[i]) // 2, near)[kind]) & 255
        rows += row
        above = row
    return width, height, bytes(rows)


class Emoji(TestCase):
    def test_a_red_heart(self):
        out = self.folder / "heart.png"
        self.succeeds("image", "emoji", "a red heart", "-o", out, "--seed", "1", "--device", "cpu")
        *size, drawn = pixels(out.read_bytes())
        *expected_size, expected = pixels((ROOT / "tests" / "data" / "pictures" / "emoji_red_heart.png").read_bytes())
        self.assertEqual(size, expected_size)
        error = sum((a - b) ** 2 for a, b in zip(drawn, expected)) / len(expected)
        self.assertGreater(10 * math.log10(255**2 / max(error, 1e-9)), LEAST_PSNR)


if __name__ == "__main__":
    support.main()

#!/usr/bin/env python3
"""Writes tests/data/ops/random.json: the bits of Philox 4x32-10 and of the numbers made of them.

The generator is written down here once more from the paper (Salmon et al. 2011), and checked against the known answers
that its authors publish (Random123, tests/kat_vectors). Numbers are computed in exact rational arithmetic that is rounded
to f32 after each operation. Needs numpy. Usage: make_random_fixtures.py [output file]
"""
import math
import struct
from fractions import Fraction

import numpy as np

from op_fixture import Cases

WORD = 0xFFFFFFFF
KNOWN = [  # counter, key, result
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([WORD] * 4, [WORD] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0],
     [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
]


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & WORD, a >> 32 ^ c[3] ^ k[1], a & WORD]
        k = [k[0] + 0x9E3779B9 & WORD, k[1] + 0xBB67AE85 & WORD]
    return c


for counter, key, expected in KNOWN:
    assert philox(counter, key) == expected


def words(count, seed, offset, stream):
    result = []
    for block in range((count + 3) // 4):
        at = (offset + block) % 2**64
        result += philox([at & WORD, at >> 32, stream & WORD, stream >> 32], [seed & WORD, seed >> 32])
    return result[:count]


def rounded(x):
    """The f32 nearest to a rational number, ties to even."""
    if x == 0:
        return Fraction(0)
    exponent = 0
    while abs(x) / Fraction(2) ** exponent >= 2**24:
        exponent += 1
    while abs(x) / Fraction(2) ** exponent < 2**23:
        exponent -= 1
    return round(x / Fraction(2) ** exponent) * Fraction(2) ** exponent


def square_root(x):
    """With 60 bits more than f32 has, so that rounding it once more is rounding the exact root."""
    return rounded(Fraction(math.isqrt(int(x * 4**100)), 2**100))


def f32(x):
    return rounded(Fraction(x))


def fma(a, b, c):
    return rounded(a * b + c)


def log(x):
    k = 0
    m = x
    root_half = Fraction(struct.unpack("f", struct.pack("I", 0x3F3504F3))[0])
    while m < root_half:
        m, k = m * 2, k - 1
    while m >= 2 * root_half:
        m, k = m / 2, k + 1
    f = m - 1
    s = rounded(f / rounded(2 + f))
    z, half_square = rounded(s * s), rounded(f / 2 * f)
    p = fma(z, f32(Fraction(2, 9)), f32(Fraction(2, 7)))
    p = fma(p, z, f32(Fraction(2, 5)))
    p = fma(p, z, f32(Fraction(2, 3)))
    log_m = rounded(f + fma(s, fma(z, p, half_square), -half_square))
    high, low = Fraction(float.fromhex("0x1.62e3p-1")), Fraction(float.fromhex("0x1.2fefa2p-17"))
    return fma(Fraction(k), high, fma(Fraction(k), low, log_m))


def normal_pair(a, b):
    radius = square_root(-2 * log(Fraction((a >> 8) + 1, 2**24)))
    shifted = (b >> 8) + 2**21
    quarter = shifted >> 22 & 3
    angle = rounded(((shifted & 0x3FFFFF) - 2**21) * f32(6.28318531) / 2**24)
    z = rounded(angle * angle)
    p = fma(z, f32(Fraction(1, 362880)), f32(Fraction(-1, 5040)))
    p = fma(p, z, f32(Fraction(1, 120)))
    p = fma(p, z, f32(Fraction(-1, 6)))
    sine = fma(rounded(angle * z), p, angle)
    q = fma(z, f32(Fraction(1, 40320)), f32(Fraction(-1, 720)))
    q = fma(q, z, f32(Fraction(1, 24)))
    q = fma(q, z, Fraction(-1, 2))
    cosine = fma(z, q, Fraction(1))
    c, s = (cosine, sine) if quarter % 2 == 0 else (sine, cosine)
    return [rounded(radius * (-c if quarter in (1, 2) else c)), rounded(radius * (-s if quarter >= 2 else s))]


def signed(values):
    return np.array(values, np.uint32).view(np.int32)


def bits(values):
    return np.array([float(v) for v in values], np.float32).view(np.int32)


cases = Cases("random")
for counter, key, expected in KNOWN:
    cases.add("random_bits", [], signed(expected), 0, seed=[key[0], key[1]], offset=counter[:2], stream=counter[2:], shape=[4])
for count, seed, offset, stream in [(0, 1, 0, 0), (1, 1, 0, 0), (67, 123456789012345, 2**32 - 3, 5), (30, 2**64 - 1, 2**64 - 2, 1)]:
    w = words(count, seed, offset, stream)
    split = {name: [v & WORD, v >> 32] for name, v in [("seed", seed), ("offset", offset), ("stream", stream)]}
    split["shape"] = [count]
    cases.add("random_bits", [], signed(w), 0, **split)
    cases.add("rand_as_bits", [], bits([(v >> 8) * 2.0**-24 for v in w]), 0, **split)
    full = w if count % 2 == 0 else words(count + 1, seed, offset, stream)
    normals = [v for i in range(0, len(full), 2) for v in normal_pair(full[i], full[i + 1])][:count]
    cases.add("randn_as_bits", [], bits(normals), 0, **split)
    # Against the formula in double precision.
    u = np.array([(v >> 8) + 1 for v in full[0::2]]) / 2**24
    angle = 2 * np.pi * np.array([v >> 8 for v in full[1::2]]) / 2**24
    r = np.sqrt(-2 * np.log(u))
    double = np.stack([r * np.cos(angle), r * np.sin(angle)], 1).flatten()[:count]
    cases.add("randn", [], double.astype(np.float32), 8, **split)
    for low, high in [(0, 1), (-5, 6), (-2**31, 2**31), (7, 2**31)]:
        cases.add("randint", [], np.array([low + (v * (high - low) >> 32) for v in w], np.int32), 0, low=low, high=high, **split)
cases.write()

"""Makes dequant.bin: random valid blocks of each weight format with the f32 numbers that they stand for.

The numbers come from the Python package `gguf` (MIT licence, of the llama.cpp project),
version 0.17 or later, an implementation that shares nothing with this crate. The blocks are random bytes from a fixed
seed; only their f16 scales are drawn so that they are finite.

    pip install gguf numpy
    python make_dequant.py

File: for each format one record of
    name (8 bytes, padded with zeros) | blocks (u32) | block bytes (u32) | block length (u32) | bytes | numbers (f32),
all little-endian.
"""

import pathlib
import struct

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

# Where each format keeps its f16 scales.
HALVES = {T.F32: [], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q8_0: [0], T.Q4_K: [0, 2], T.Q6_K: [208]}
HALVES |= {T.F16: [0], T.BF16: [], T.Q4_0: [0], T.Q5_1: [0, 2], T.Q5_K: [0, 2]}
BLOCKS = {T.F32: 64, T.Q4_1: 24, T.Q5_0: 24, T.Q8_0: 24, T.Q4_K: 6, T.Q6_K: 6}
BLOCKS |= {T.F16: 64, T.BF16: 64, T.Q4_0: 24, T.Q5_1: 24, T.Q5_K: 6}


def main() -> None:
    random = np.random.default_rng(20240501)
    out = bytearray()
    for kind, halves in HALVES.items():
        length, size = GGML_QUANT_SIZES[kind]
        count = BLOCKS[kind]
        raw = random.integers(0, 256, (count, size), dtype=np.uint8)
        for at in halves:
            # Normal sizes, with a denormal, a zero and the largest f16 among them.
            scales = random.normal(0, 0.02, count).astype(np.float16)
            scales[0], scales[1], scales[2] = np.float16(6e-8), np.float16(0), np.float16(65504)
            raw[:, at : at + 2] = scales.view(np.uint8).reshape(count, 2)
        if kind == T.F32:
            raw = random.normal(0, 1, (count, 1)).astype(np.float32).view(np.uint8)
        if kind == T.BF16:
            raw = random.normal(0, 1, (count, 1)).astype(np.float32).view(np.uint8)[:, 2:].copy()
        numbers = np.ascontiguousarray(dequantize(raw, kind), dtype=np.float32)
        assert numbers.size == count * length and np.isfinite(numbers).all()
        out += kind.name.encode().ljust(8, b"\0") + struct.pack("<III", count, size, length)
        out += raw.tobytes() + numbers.tobytes()
    pathlib.Path(__file__).with_name("dequant.bin").write_bytes(out)


main()

#!/usr/bin/env python3
"""Writes the seeds of fuzz_state_file: small files of saved state for the shape in its source.

Frames are never unpacked by what is fuzzed, so any bytes stand for them. Layout:
src/engine/state_file.h."""

import os
import struct
import zlib

FOLDER = os.path.join(os.path.dirname(__file__), "..", "fuzz", "corpus", "state_file")
MAGIC = b"INGOTKV\n"
PAGED, FIXED = 0, 2
BLOCK_BYTES = 4096, 0, 100
PAGE_TOKENS = 64


def state_file(n_tokens, records):
    """records: (level, tokens, kind)"""
    data = MAGIC + struct.pack("<II", 1, 0)
    rows = b""
    for i, (level, tokens, kind) in enumerate(records):
        frame = bytes([i]) * 8
        rows += struct.pack("<IIIIQQ", level, tokens, kind, 0, len(data), len(frame))
        data += frame
    index = struct.pack("<QQ3Q", 0x1234, 1, *BLOCK_BYTES)
    index += struct.pack("<IIII", PAGE_TOKENS, n_tokens, len(records), 0)
    index += struct.pack(f"<{n_tokens}I", *(i * 7 % 1000 for i in range(n_tokens))) + rows
    return data + index + struct.pack("<II", zlib.crc32(index), len(index)) + MAGIC


SEEDS = {
    "two_pages": state_file(80, [(0, 64, PAGED), (1, 16, PAGED), (1, 16, FIXED)]),
    "later_page": state_file(130, [(1, 64, PAGED), (2, 2, PAGED)]),
    "no_records": state_file(3, []),
}

os.makedirs(FOLDER, exist_ok=True)
for name, data in SEEDS.items():
    with open(os.path.join(FOLDER, name), "wb") as f:
        f.write(data)

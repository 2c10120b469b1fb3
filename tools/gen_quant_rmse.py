#!/usr/bin/env python3
"""Writes tests/data/quant/rmse_shapes.json: the errors that ggml's quantizers leave on weights of
several distributions, which tests/unit/quant/test_quantize.c makes again by the same recipe.

Usage: tools/gen_quant_rmse.py LIBGGML_BASE_SO LIBINGOT_SO   (numpy; the second decodes)
"""
import ctypes
import json
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS, COLUMNS = 8, 512
SHAPES = ["gaussian", "heavy", "outliers", "positive", "negative", "tiny", "huge", "sparse",
          "offset"]
TYPES = {"Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24),
         "Q8_0": (8, 32, 34), "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110),
         "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210),
         "IQ4_NL": (20, 32, 18), "IQ4_XS": (23, 256, 136), "TQ1_0": (34, 256, 54),
         "TQ2_0": (35, 256, 66), "MXFP4": (39, 32, 17), "NVFP4": (40, 64, 36),
         "Q1_0": (41, 128, 18), "Q2_0": (42, 64, 18)}
WITHOUT_IMPORTANCE = {"Q8_0", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4", "Q1_0", "Q2_0"}


def uniform(seed, n):
    """n numbers in [0, 1): the splitmix64 sequence from `seed`."""
    out = np.empty(n)
    mask = (1 << 64) - 1
    for i in range(n):
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        out[i] = ((z ^ (z >> 31)) >> 11) / 2.0**53
    return out


def weights(shape):
    u = uniform(SHAPES.index(shape) + 1, ROWS * COLUMNS * 5).reshape(-1, 5)
    g = u[:, 0] + u[:, 1] + u[:, 2] + u[:, 3] - 2.0  # near enough to a Gaussian
    pick = u[:, 4]
    x = {"gaussian": g * 0.05, "heavy": g * g * g, "outliers": np.where(pick < 0.004, g * 30, g),
         "positive": np.abs(g), "negative": -np.abs(g), "tiny": g * 1e-6, "huge": g * 1e4,
         "sparse": np.where(pick < 0.9, 0.0, g), "offset": g + 3.0}[shape]
    return np.ascontiguousarray(x.astype(np.float32).reshape(ROWS, COLUMNS))


def importances():
    u = uniform(100, COLUMNS)
    return (u * u * u + 0.01).astype(np.float32)


def rmse(x, y, w):
    d = x.astype(np.float64) - y
    return float(np.sqrt((d * d * w).sum() / (ROWS * w.sum())))


def main(ggml_path, ingot_path):
    ggml, ingot = ctypes.CDLL(ggml_path), ctypes.CDLL(ingot_path)
    f32 = ctypes.POINTER(ctypes.c_float)
    sizes = [ctypes.c_int64] * 3
    ggml.ggml_quantize_chunk.argtypes = [ctypes.c_int, f32, ctypes.c_void_p, *sizes, f32]
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ingot.dequant_row.argtypes = [ctypes.c_int, ctypes.c_void_p, f32, ctypes.c_int64]
    importance = importances()
    out = {"rows": ROWS, "columns": COLUMNS, "source": "ggml_quantize_chunk of ggml 0.25.3",
           "types": {}}
    for name, (type_id, elements, size) in TYPES.items():
        ggml.ggml_quantize_init(type_id)
        errors = out["types"][name] = {}
        for shape in SHAPES:
            x = weights(shape)
            row = errors[shape] = []
            for imp in [None] if name in WITHOUT_IMPORTANCE else [None, importance]:
                data = np.zeros(x.size // elements * size, np.uint8)
                p = imp.ctypes.data_as(f32) if imp is not None else None
                ggml.ggml_quantize_chunk(type_id, x.ctypes.data_as(f32), data.ctypes.data, 0, ROWS,
                                         COLUMNS, p)
                y = np.zeros_like(x)
                ingot.dequant_row(type_id, data.ctypes.data, y.ctypes.data_as(f32), x.size)
                w = np.ones(COLUMNS) if imp is None else imp.astype(np.float64)
                row.append(float("%.6g" % rmse(x, y, w)))
    text = json.dumps(out).replace('"Q', '\n"Q').replace('"IQ', '\n"IQ').replace('"TQ', '\n"TQ')
    (ROOT / "tests/data/quant/rmse_shapes.json").write_text(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

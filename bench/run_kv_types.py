#!/usr/bin/env python3
"""What each cache type costs: perplexity and the distance of the logits, against an f32 cache.

    bench/run_kv_types.py INGOT TEXT MODEL...

Keys and values have the same type. Distance: rms of the difference, relative to the rms of the
logits, over the first 256 tokens of TEXT. Prints one Markdown row a type; needs numpy."""

import json
import os
import subprocess
import sys
import tempfile

import numpy

TYPES = "f32 f16 bf16 q8_0 fp8_e4m3 q4_0 nvfp4 turbo4 turbo3".split()
TOKENS = 256


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def flags(kind):
    return "--exact", "--cache-type-k", kind, "--cache-type-v", kind


def perplexity(ingot, model, text, kind):
    return json.loads(run(ingot, "eval", model, "--perplexity", text, *flags(kind)))[
        "perplexity"
    ]


def logits(ingot, model, ids, kind, folder):
    path = os.path.join(folder, "logits")
    run(ingot, "eval", model, "--tokens", ids, "--logits", path, *flags(kind))
    values = numpy.fromfile(path, dtype="<f4")
    os.unlink(path)
    return values


def rms(values):
    return float(numpy.sqrt(numpy.mean(numpy.square(values, dtype="f8"))))


def measure(ingot, model, text, folder):
    """type -> (perplexity, distance)"""
    ids = os.path.join(folder, "ids")
    with open(ids, "w", encoding="ascii") as f:
        f.write(" ".join(run(ingot, "tokenize", model, "--file", text).split()[:TOKENS]))
    plain = logits(ingot, model, ids, "f32", folder)
    found = {}
    for kind in TYPES:
        distance = rms(logits(ingot, model, ids, kind, folder) - plain) / rms(plain)
        found[kind] = perplexity(ingot, model, text, kind), distance
    return found


def main():
    ingot, text, models = sys.argv[1], sys.argv[2], sys.argv[3:]
    with tempfile.TemporaryDirectory() as folder:
        tables = [measure(ingot, model, text, folder) for model in models]
    names = [os.path.basename(m).removesuffix(".gguf") for m in models]
    print("| | " + " | ".join(f"{n}: perplexity | logits" for n in names) + " |")
    print("| --- |" + " --- |" * 2 * len(models))
    for kind in TYPES:
        cells = []
        for table in tables:
            value, distance = table[kind]
            more = 100 * (value / table["f16"][0] - 1)
            cells += [f"{value:.4f} ({more:+.2f} %)", f"{distance:.5f}"]
        print(f"| {kind} | " + " | ".join(cells) + " |")


main()

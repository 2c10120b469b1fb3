#!/usr/bin/env python3
"""Peak memory of a short answer: the file, the state of its tokens, and 64 MiB. Of a server that
waits: the weights and 40 MiB."""

import os
import subprocess
import sys

sys.path.insert(
    0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "api")
)
from live_server import Server  # noqa: E402

INGOT = os.environ.get("INGOT", "build/release/ingot")
MIB = 1 << 20
# Keys and values of a token in f16: layers x heads x head length x 2 x 2 bytes.
MODELS = {"INGOT_SMOLLM2": 30 * 3 * 64 * 4, "INGOT_GEMMA3": 18 * 1 * 256 * 4}
failed = False


def report(what, used, allowed, good=True):
    global failed
    good = good and used <= allowed
    failed |= not good
    sizes = f"{used / MIB:.0f} MiB, allowed {allowed / MIB:.0f}"
    print(f"{'ok' if good else 'not ok'} {what}: {sizes}")


def peak_of_answer(path):
    """Status and bytes of `generate`."""
    command = [INGOT, "generate", path, "-p", "Tell me a story", "-n", "32", "--quiet"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage.ru_maxrss << 10


def resident_when_idle(path):
    with Server(path) as s, open(f"/proc/{s.process.pid}/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmRSS"))


for variable, token_bytes in MODELS.items():
    path, name = os.environ.get(variable), variable[6:].lower()
    if not path:
        print(f"not run: memory ({variable} names no model)")
        continue
    size = os.path.getsize(path)
    status, peak = peak_of_answer(path)
    report(f"peak memory, {name}", peak, size + 128 * token_bytes + 64 * MIB, status == 0)
    report(f"idle server, {name}", resident_when_idle(path), size + 40 * MIB)
raise SystemExit(failed)

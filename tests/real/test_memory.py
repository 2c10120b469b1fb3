#!/usr/bin/env python3
"""Peak memory of a short answer: the file, the state of its tokens, and 64 MiB."""

import os
import subprocess

INGOT = os.environ.get("INGOT", "build/release/ingot")
MIB = 1 << 20
# Keys and values of a token in f16: layers x heads x head length x 2 x 2 bytes.
MODELS = {"INGOT_SMOLLM2": 30 * 3 * 64 * 4, "INGOT_GEMMA3": 18 * 1 * 256 * 4}
failed = False

for variable, token_bytes in MODELS.items():
    path = os.environ.get(variable)
    if not path:
        print(f"not run: peak memory ({variable} names no model)")
        continue
    command = [INGOT, "generate", path, "-p", "Tell me a story", "-n", "32", "--quiet"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    peak = usage.ru_maxrss << 10
    allowed = os.path.getsize(path) + 128 * token_bytes + 64 * MIB
    good = child.returncode == 0 and peak <= allowed
    failed |= not good
    sizes = f"{peak / MIB:.0f} MiB, allowed {allowed / MIB:.0f}"
    print(f"{'ok' if good else 'not ok'} peak memory, {variable[6:].lower()}: {sizes}")
raise SystemExit(failed)

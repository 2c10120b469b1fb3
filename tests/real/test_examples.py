#!/usr/bin/env python3
"""The example programs, built against the shared library, on a real model."""

import os
import subprocess

BUILD = os.environ.get("INGOT_BUILD", "build/release")
MODEL = os.environ.get("INGOT_SMOLLM2")
failed = False


def check(name, arguments, stdin, expected):
    global failed
    done = subprocess.run(
        [os.path.join(BUILD, "tests", name), *arguments],
        input=stdin.encode(),
        capture_output=True,
        timeout=300,
    )
    text = done.stdout.decode()
    good = done.returncode == 0 and expected(text)
    failed |= not good
    print(
        f"ok {name}"
        if good
        else f"not ok {name}: status {done.returncode}, {text[-200:]!r} "
        f"{done.stderr.decode()[-200:]}"
    )


if MODEL:
    check("example_one_answer", [MODEL, "The capital of France is"], "", lambda t: "Paris" in t)
    check(
        "example_streaming_chat",
        [MODEL],
        "Say hello.\nAnd again.\n",
        lambda t: len(t.splitlines()) >= 2,
    )
else:
    print("not run: example programs (INGOT_SMOLLM2 names no model)")
raise SystemExit(failed)

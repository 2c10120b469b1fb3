"""The protocol of test programs: one line a case, status 1 when one failed (tools/check.py)."""
import os
import subprocess
import sys

INGOT = os.environ.get("INGOT", "build/release/ingot")
failures = 0


def run(*arguments, stdin="", env=None, timeout=120):
    """(status, stdout, stderr) of `ingot ARGUMENTS`."""
    result = subprocess.run([INGOT, *map(str, arguments)], input=stdin.encode(),
                            capture_output=True, timeout=timeout,
                            env=dict(os.environ, **(env or {})))
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def case(name, ok, reason=""):
    global failures
    if ok:
        print(f"ok {name}", flush=True)
    else:
        failures += 1
        print(f"not ok {name}: {' '.join(str(reason).split())[:400]}", flush=True)
    return ok


def not_run(what, reason):
    print(f"not run: {what} ({reason})", flush=True)


def finish():
    sys.exit(1 if failures else 0)

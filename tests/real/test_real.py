#!/usr/bin/env python3
"""Two real models against runs of another engine: prompt ids, greedy tokens, perplexity, KL.

With --exact the tokens equal the recorded f32 run up to its first margin below 0.02; the default
arithmetic equals the recorded quantized run up to the first position where the margin of either
run is below 0.3. Later tokens depend on rounding and are not compared. Perplexity
of the larger model with --exact takes a minute and is left to ./check --long (INGOT_LONG).
"""
import json
import os
import subprocess
import tempfile

INGOT = os.environ.get("INGOT", "build/release/ingot")
DATA = "tests/data/real"
MODELS = [
    # file of the runs, variable with the path, recorded perplexity (as it is, f32)
    ("smollm2", "INGOT_SMOLLM2", 10.3456, 10.3232),
    ("gemma3-270m", "INGOT_GEMMA3", 9.0590, 9.0132),
]
failed = False


def report(name, problem):
    global failed
    failed |= problem is not None
    print(f"ok {name}" if problem is None else f"not ok {name}: {problem}", flush=True)


def ingot(*arguments):
    done = subprocess.run([INGOT, *arguments], capture_output=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"status {done.returncode}: {done.stderr.decode()[-300:].strip()}")
    return done.stdout.decode()


def generate(model, case, folder, exact, n):
    arguments = ["generate", model, "--json", "--temperature", "0", "-n", str(max(n, 1)),
                 "--parse-special", "--quiet"]
    if "messages" in case:
        path = os.path.join(folder, "messages.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(case["messages"], f)
        arguments += ["--messages", path]
    else:
        path = os.path.join(folder, "prompt.txt")
        with open(path, "w", encoding="utf-8", newline="") as f:
            f.write(case["prompt"])
        arguments += ["--raw", "-f", path]
    return json.loads(ingot(*arguments, *(["--exact"] if exact else [])))


def first_small(margins, limit):
    return next((i for i, m in enumerate(margins) if m < limit), len(margins))


def compare(found, expected, n):
    for i in range(min(n, len(expected))):
        if i >= len(found) or found[i] != expected[i]:
            got = found[i] if i < len(found) else "the end"
            return f"token {i}: expected {expected[i]}, found {got} ({n} are compared)"
    return None


def check_case(model, case, folder, exact):
    n = first_small(case["f32"]["margins"], 0.02) if exact else min(
        first_small(case[run]["margins"], 0.3) for run in ("quantized", "f32"))
    answer = generate(model, case, folder, exact, n)
    if answer["prompt_ids"] != case["prompt_ids"]:
        return f"prompt ids: expected {case['prompt_ids'][:60]}, found {answer['prompt_ids'][:60]}"
    return compare(answer["ids"], case["f32" if exact else "quantized"]["ids"], n)


def check_perplexity(model, exact, recorded):
    result = json.loads(ingot("eval", model, "--perplexity", f"{DATA}/perplexity.txt", "--quiet",
                              *(["--exact"] if exact else [])))
    off = result["perplexity"] / recorded - 1
    print(f"   perplexity {result['perplexity']:.4f}, recorded {recorded:.4f} ({off:+.3%})")
    return None if abs(off) <= 0.005 else f"{result['perplexity']:.4f}, recorded {recorded:.4f}"


def check_kl(model, name, folder):
    """The second half of each window, as llama.cpp scores it: see the note in peer_kl.json. The
    windows are a sample, so the means may differ by two standard errors."""
    with open(f"{DATA}/peer_kl.json", encoding="utf-8") as f:
        data = json.load(f)
    peer, size = data[name], data["window"]
    text = ingot("tokenize", model, "-f", f"{DATA}/perplexity.txt", "--plain", "--ids").split()
    ids, logits = os.path.join(folder, "ids"), os.path.join(folder, "logits")
    means = []
    for i in range(peer["windows"]):
        window = text[i * size : (i + 1) * size - 1]
        if peer["starts_with"] is not None:
            window[0] = str(peer["starts_with"])
        with open(ids, "w", encoding="ascii") as f:
            f.write(" ".join(window))
        ingot("eval", model, "--tokens", ids, "--logits", logits, "--exact", "--quiet")
        result = json.loads(ingot("eval", model, "--tokens", ids, "--kl", logits, "--from",
                                  str(size // 2), "--quiet"))
        if result["positions"] != size // 2 - 1:
            return f"expected {size // 2 - 1} positions, found {result['positions']}"
        means.append(result["mean_kl"])
    mean, most = sum(means) / len(means), peer["mean"] + 2 * peer["error"]
    print(f"   KL of the default arithmetic: {mean:.5f}, llama.cpp's {peer['mean']:.5f} with a"
          f" standard error of {peer['error']:.5f}")
    return None if 0 < mean <= most else f"{mean:.5f}, at most {most:.5f}"


def attempt(name, check, *arguments):
    try:
        report(name, check(*arguments))
    except (RuntimeError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as e:
        report(name, str(e))


for name, variable, quantized, f32 in MODELS:
    model = os.environ.get(variable)
    if not model:
        print(f"not run: {name} ({variable} names no model)")
        continue
    with open(f"{DATA}/{name}.json", encoding="utf-8") as f:
        cases = json.load(f)["cases"]
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            for exact in (False, True):
                label = f"{name}: {case['name']}" + (" --exact" if exact else "")
                attempt(label, check_case, model, case, folder, exact)
        attempt(f"{name}: perplexity", check_perplexity, model, False, quantized)
        if name == MODELS[0][0] or os.environ.get("INGOT_LONG"):
            attempt(f"{name}: perplexity --exact", check_perplexity, model, True, f32)
        attempt(f"{name}: KL", check_kl, model, name, folder)
raise SystemExit(failed)

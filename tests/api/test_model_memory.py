#!/usr/bin/env python3
"""Several models and what one costs another: memory that was promised, time that a load takes."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import Cases, Server, real_model, wait_until  # noqa: E402

cases = Cases()
case = cases.case
MODEL = real_model("memory of several models, and requests that wait for one")
URL = "/v1/chat/completions"
CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "temperature": 0}
LONG = dict(CHAT, max_tokens=100000, ignore_eos=True)
LIMIT = 1.5


def states(s):
    return {m["id"]: m["status"]["value"] for m in s.json("GET", "/v1/models")[1]["data"]}


def plan(context):
    command = [
        os.environ["INGOT"],
        "plan",
        MODEL,
        "--json",
        "--parallel",
        "1",
        "--cache",
        "off",
    ]
    return subprocess.run(
        [*command, "--context", str(context)], capture_output=True, text=True, timeout=60
    )


def large_context():
    """A context whose state is more than half of what is free."""
    per_token = json.loads(plan(8192).stdout)["bytes"]["kv"] / 8192
    free = int(re.search(r"(\d+) MiB are free", plan(10**8).stderr).group(1)) << 20
    return int(0.6 * free / per_token) // 64 * 64


def overcommit(folder):
    """Pages that nobody touched yet are promised all the same."""
    context = large_context()
    planned = json.loads(plan(context).stdout)["bytes"]
    flags = ("--context", str(context), "--parallel", "1", "--cache", "off")
    with Server(f"{folder}/a.gguf", f"{folder}/b.gguf", *flags) as s:
        first, second = states(s)
        status, body = s.json("POST", URL, dict(CHAT, model=second))
        case("the second is served", status == 200 and body["model"] == second, body)
        case(
            "an idle one made room",
            states(s) == {first: "unloaded", second: "loaded"},
            states(s),
        )
        told = s.json("GET", f"/props?model={second}")[1]["memory"]["kv"]
        case("its ledger is the plan", abs(told - planned["kv"]) <= 0.03 * planned["kv"], told)
        held = threading.Thread(
            target=lambda: s.request("POST", URL, dict(LONG, model=second, max_tokens=3000))
        )
        held.start()
        wait_until(lambda: s.json("GET", "/health")[1]["active_requests"] == 1, 20)
        status, headers, body = s.request("POST", URL, dict(CHAT, model=first))
        message = json.loads(body)["error"]["message"]
        good = re.search(r"needs \d+ MiB, \d+ MiB are free beside \d+ MiB that loaded", message)
        case("beside one in use: 503", status == 503 and good, (status, body))
        case("with a Retry-After", headers.get("retry-after", "").isdigit(), headers)
        case("and the other goes on", held.is_alive() and states(s)[second] == "loaded")
        s.process.kill()
        held.join()


@contextlib.contextmanager
def slow_to_open(path):
    """A write lease: whoever opens the file waits until we are done (45 s at most)."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    fd = os.open(path, os.O_RDWR)
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield
    finally:
        os.close(fd)


def timed(s, model, stream, out):
    start = time.monotonic()
    status, _, body = s.request("POST", URL, dict(CHAT, model=model, stream=stream))
    took = time.monotonic() - start
    out[model] = (status, took, body, states(s) if status == 504 else {})


def deadline_behind_load(folder):
    """Both the request that loads a model and the one whose model is next are answered in time."""
    os.mkdir(f"{folder}/slow")
    names = [f"{folder}/a.gguf", f"{folder}/slow/b.gguf", f"{folder}/c.gguf"]
    shutil.copy(MODEL, names[1])
    settings = f"{folder}/slow/generation_config.json"
    with open(settings, "w") as f:
        f.write("{}")
    with Server(*names, "--context", "4096", "--request-timeout", f"{LIMIT:g}") as s:
        _, second, third = states(s)
        out = {}
        with slow_to_open(settings):
            waiting = [threading.Thread(target=timed, args=(s, second, False, out))]
            waiting[0].start()
            wait_until(lambda: states(s)[second] == "loading", 20)
            waiting.append(threading.Thread(target=timed, args=(s, third, True, out)))
            waiting[1].start()
            for t in waiting:
                t.join()
        for model in (second, third):
            status, took, body, then = out[model]
            case("504", status == 504 and b"--request-timeout" in body, (status, body))
            case("in time", LIMIT - 0.1 < took < LIMIT + 10, took)
            case("the load goes on", then[second] == "loading", then)
        rows = [line for line in s.log_lines if " timeout " in line and " 0 " not in line]
        case("their rows are in the log", len(rows) >= 2, s.log_lines[-5:])
        loaded = wait_until(lambda: states(s)[second] == "loaded", 60)
        case("and ends", loaded is not None, states(s))
        case(
            "nothing is loaded for who waits no more", states(s)[third] == "unloaded", states(s)
        )
        status, body = s.json("POST", URL, dict(CHAT, model=second))
        case("the next one is served", status == 200, body)
        case("ends with status 0", s.stop() == 0, s.log_lines[-3:])


def leaving_behind_load(folder):
    """A client that leaves while its model is loaded, and a server that ends then."""
    with Server(f"{folder}/a.gguf", f"{folder}/b.gguf", "--drain-timeout", "0") as s:
        second = list(states(s))[1]
        body = json.dumps(dict(CHAT, model=second)).encode()
        for _ in range(4):
            c = s.connect()
            c.sendall(
                b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                % (URL.encode(), len(body))
                + body
            )
            time.sleep(0.02)
            c.close()
        case(
            "its model is there afterwards",
            s.json("POST", URL, dict(CHAT, model=second))[0] == 200,
        )
        s.json("POST", "/models/unload", {"model": second})
        out = {}
        waiting = threading.Thread(target=timed, args=(s, second, False, out))
        waiting.start()
        time.sleep(0.02)
        case("ends with status 0", s.stop() == 0, s.log_lines[-3:])
        waiting.join(10)
        case("and leaves nobody waiting", not waiting.is_alive())


with tempfile.TemporaryDirectory() as place:
    for model_name in ("a", "b", "c"):
        shutil.copy(MODEL, f"{place}/{model_name}.gguf")
    for function in (overcommit, deadline_behind_load, leaving_behind_load):
        cases.run(function.__name__, lambda: function(place))
sys.exit(1 if cases.failed else 0)

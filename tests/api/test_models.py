#!/usr/bin/env python3
"""Several models behind one server: names, loading on demand, unloading, one in use stays."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import Cases, Server, real_model, wait_until  # noqa: E402

cases = Cases()
case = cases.case
MODEL = real_model("several models in one server")
CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "temperature": 0}


def states(server):
    return {m["id"]: m["status"]["value"] for m in server.json("GET", "/v1/models")[1]["data"]}


def answer(server, model, **more):
    return server.json("POST", "/v1/chat/completions", dict(CHAT, model=model, **more))


def on_demand(server, first, second):
    case("only the first is loaded", states(server) == {first: "loaded", second: "unloaded"})
    status, body = answer(server, second)
    case("loaded on demand", status == 200 and body["model"] == second, body)
    case("both", states(server) == {first: "loaded", second: "loaded"})
    status, body = answer(server, "claude-opus")
    case("other names mean the first", status == 200 and body["model"] == first, body)
    other = server.json("GET", f"/props?model={second}")[1]
    case("props of the second", other["model_alias"] == second, other)
    status, _ = server.json("GET", "/props?model=nobody")
    case("props of nobody", status == 404)


def unloading(server, second):
    status, body = server.json("POST", "/models/unload", {"model": second})
    case("unloaded", status == 200 and body == {"success": True}, body)
    case("is unloaded", states(server)[second] == "unloaded")
    status, _ = server.json("GET", f"/props?model={second}")
    case("props of an unloaded one", status == 503)
    status, one = server.json("GET", f"/v1/models/{second}")
    case("descriptor of an unloaded one", status == 200 and "family" not in one, one)
    server.json("POST", "/models/load", {"model": second})
    case("loaded by request", states(server)[second] == "loaded")
    status, _ = server.json("POST", "/models/load", {"model": "nobody"})
    case("nobody", status == 404)
    status, _ = server.json("POST", "/models/unload", {})
    case("no name", status == 400)


def in_use(server, second):
    results = []
    long = dict(CHAT, model=second, max_tokens=200, ignore_eos=True)
    thread = threading.Thread(
        target=lambda: results.append(server.json("POST", "/v1/chat/completions", long)[0])
    )
    thread.start()
    wait_until(lambda: server.json("GET", "/health")[1]["active_requests"] > 0, 20)
    status, body = server.json("POST", "/models/unload", {"model": second})
    case("one in use stays", status == 409 and "in use" in body["error"]["message"], body)
    thread.join()
    case("and its answer ends", results == [200], results)


def streams_go_on(server, second):
    """While the other model is loaded and unloaded, answers of the first are right."""
    alone = answer(server, "x", max_tokens=48)[1]["choices"][0]["message"]["content"]
    seen = []
    thread = threading.Thread(
        target=lambda: [seen.append(answer(server, "x", max_tokens=48)[1]) for _ in range(4)]
    )
    thread.start()
    for _ in range(3):
        server.json("POST", "/models/unload", {"model": second})
        answer(server, second)
    thread.join()
    case(
        "answers beside a load",
        [s["choices"][0]["message"]["content"] for s in seen] == [alone] * 4,
        seen,
    )


def limits(folder, first, second):
    with Server(folder + "/a.gguf", folder + "/b.gguf", "--models-max", "1") as server:
        status, body = answer(server, second)
        case(
            "max 1: the other goes", status == 200 and states(server)[first] == "unloaded", body
        )
    with Server("--models-dir=" + folder, "--no-models-autoload", "--strict-model") as server:
        status, body = answer(server, second)
        case("no autoload", status == 404 and "/models/load" in body["error"]["message"], body)
        status, body = answer(server, "nobody")
        case("strict", status == 404 and second in body["error"]["message"], body)
    with Server(folder + "/a.gguf", "--model-idle-unload", "0.5") as server:
        gone = wait_until(lambda: states(server)[first] == "unloaded", 10)
        case("idle unload", gone is not None)
        health = server.json("GET", "/health")[1]
        case(
            "health without a model",
            health["status"] == "ok" and health["pages"]["all"] == 0,
            health,
        )
        status, body = answer(server, first)
        case("comes back", status == 200, body)


def refused(folder):
    program = os.environ["INGOT"]
    twice = subprocess.run(
        [program, "serve", MODEL, MODEL, MODEL], capture_output=True, text=True, timeout=60
    )
    case(
        "the same file again and again",
        twice.returncode == 1 and "taken" in twice.stderr,
        twice.stderr,
    )
    with open(folder + "/broken.gguf", "wb") as f:
        f.write(b"GGUF?")
    broken = subprocess.run(
        [program, "serve", MODEL, folder + "/broken.gguf"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    case(
        "a broken second",
        broken.returncode == 1 and "broken.gguf" in broken.stderr,
        broken.stderr,
    )
    with Server(folder + "/a.gguf", "--models-dir=" + folder) as server:
        log, names = "\n".join(server.log_lines), sorted(states(server))
        case("a broken file in the folder", "left out: " in log and "broken.gguf" in log, log)
        case("a named file of the folder is there once", len(names) == 2, names)
    os.mkdir(folder + "/broken")
    os.rename(folder + "/broken.gguf", folder + "/broken/broken.gguf")
    broken = subprocess.run(
        [program, "serve", "--models-dir", folder + "/broken"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    good = broken.returncode == 1 and "no model in it can be served" in broken.stderr
    case("nothing but broken files in the folder", good, broken.stderr)


with tempfile.TemporaryDirectory() as folder:
    for name in ("a", "b"):
        shutil.copy(MODEL, f"{folder}/{name}.gguf")
    with Server(folder + "/a.gguf", folder + "/b.gguf", "--threads", "2") as live:
        first, second = states(live)
        on_demand(live, first, second)
        unloading(live, second)
        in_use(live, second)
        streams_go_on(live, second)
    limits(folder, first, second)
    refused(folder)
sys.exit(1 if cases.failed else 0)

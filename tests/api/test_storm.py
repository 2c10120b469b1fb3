#!/usr/bin/env python3
"""Clients that leave in the middle of everything, over two models that come and go meanwhile.

The server must stay up, end all work within a moment, answer rightly afterwards and end with status
0; a sanitized build must have nothing to report."""

import json
import os
import random
import shutil
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import Cases, Server, real_model, wait_until  # noqa: E402

cases = Cases()
case = cases.case
MODEL = real_model("a storm of clients that leave")
URL = "/v1/chat/completions"
CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "temperature": 0}
CLIENTS, ROUNDS = 8, 20
RESET = b"\1\0\0\0\0\0\0\0"  # linger on, 0 seconds: closing sends a reset
REPORTS = ("Sanitizer", "runtime error", "invariant")


def message(rng, models):
    body = dict(
        CHAT,
        model=rng.choice(models),
        stream=rng.random() < 0.6,
        n=rng.choice([1, 1, 3]),
        max_tokens=rng.randint(1, 60),
        priority=rng.randrange(10),
        messages=[{"role": "user", "content": "Hi " * rng.randint(1, 120)}],
    )
    data = json.dumps(body).encode()
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        % len(data)
        + data
    )


def client(s, seed, models):
    rng = random.Random(seed)
    for _ in range(ROUNDS):
        c = s.connect()
        text = message(rng, models)
        whole = rng.random() < 0.8
        try:
            c.sendall(text if whole else text[: rng.randrange(1, len(text))])
            time.sleep(rng.random() * 0.05)
            if rng.random() < 0.3:
                c.settimeout(rng.random() * 2 + 0.01)
                c.recv(200)
        except OSError:
            pass
        if rng.random() < 0.5:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        elif rng.random() < 0.3:
            c.shutdown(socket.SHUT_WR)
        c.close()


def shuffle(s, model, stop):
    """Loads and unloads the second model, and looks at everything that can be looked at."""
    while not stop.is_set():
        for method, path in (
            ("POST", "/models/unload"),
            ("GET", "/slots"),
            ("GET", "/metrics"),
            ("GET", "/health"),
            ("GET", f"/props?model={model}"),
            ("POST", "/models/load"),
        ):
            body = {"model": model} if method == "POST" else None
            status = s.request(method, path, body, timeout=120)[0]
            if status not in (200, 409, 503):
                case(f"{method} {path}", False, status)


def calm(s):
    now = s.json("GET", "/health", timeout=120)[1]
    return now["active_requests"] == 0 and now["queued_requests"] == 0


def busy(s):
    return [x for x in s.json("GET", "/slots")[1] if x["is_processing"]]


def storm(folder):
    flags = ("--context", "1024", "--max-connections", "200", "--request-timeout", "20")
    with Server(folder + "/a.gguf", folder + "/b.gguf", *flags) as s:
        models = [m["id"] for m in s.json("GET", "/v1/models")[1]["data"]]
        right = [s.json("POST", URL, dict(CHAT, model=m), timeout=120)[1] for m in models]
        stop = threading.Event()
        other = threading.Thread(target=shuffle, args=(s, models[1], stop))
        other.start()
        clients = [
            threading.Thread(target=client, args=(s, seed, models)) for seed in range(CLIENTS)
        ]
        for t in clients:
            t.start()
        for t in clients:
            t.join()
        stop.set()
        other.join()
        case(
            "all work ends",
            wait_until(lambda: calm(s), 20) is not None,
            s.json("GET", "/health"),
        )
        for model, before in zip(models, right):
            after = s.json("POST", URL, dict(CHAT, model=model), timeout=120)[1]
            case(f"answers of {model}", after["choices"] == before["choices"], (before, after))
        free = wait_until(lambda: not busy(s), 10)
        case("all seats are free", free is not None, busy(s))
        # ends while clients are still at it
        late = [
            threading.Thread(target=client_until_closed, args=(s, seed, models))
            for seed in range(4)
        ]
        for t in late:
            t.start()
        time.sleep(0.3)
        status = s.stop(90)
        case("ends with status 0", status == 0, (status, s.log_lines[-3:]))
        for t in late:
            t.join()
        found = [line for line in s.log_lines if any(word in line for word in REPORTS)]
        case("nothing to report", not found, found[:3])
        if found:
            sys.stderr.write("\n".join(s.log_lines[-2000:]))


def client_until_closed(s, seed, models):
    try:
        client(s, seed, models)
    except OSError:
        pass


with tempfile.TemporaryDirectory() as place:
    for name in ("a", "b"):
        shutil.copy(MODEL, f"{place}/{name}.gguf")
    cases.run("storm", lambda: storm(place))
sys.exit(1 if cases.failed else 0)

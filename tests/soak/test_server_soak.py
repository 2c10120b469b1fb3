#!/usr/bin/env python3
"""Three minutes of 64 streams at once: random lengths, aborts, shared prompts, priorities, and
clients that stop reading. Every greedy answer must equal the one computed alone, every page must
come back, and memory must not grow.

INGOT_SOAK_SECONDS and INGOT_SOAK_CLIENTS make it shorter, for the sanitizer builds."""

import json
import os
import random
import socket
import sys
import threading
import time

sys.path.insert(
    0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "api")
)
from live_server import Cases, Server, events, parse, read_all, real_model, wait_until  # noqa

SECONDS = float(os.environ.get("INGOT_SOAK_SECONDS", "180"))
CLIENTS = int(os.environ.get("INGOT_SOAK_CLIENTS", "64"))
LENGTHS = (1, 3, 8, 16, 24)
WAIT = 600
cases = Cases()
MODEL = real_model("the server soak")
QUESTIONS = [
    f"{prefix * repeat} Question {i}: what happens next?"
    for prefix, repeat in (
        ("You are in a long story about a lighthouse. ", 10),
        ("Count the ships, then the birds, then the stars. ", 4),
        ("", 0),
    )
    for i in range(6)
]


def body(question, n, **more):
    return dict(
        messages=[{"role": "user", "content": question}], max_tokens=n, temperature=0, **more
    )


def rss(server):
    with open(f"/proc/{server.process.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def send(c, request):
    data = json.dumps(request).encode()
    c.sendall(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n" % len(data) + data
    )


def streamed_text(server, request):
    """The text of a stream, or what was wrong with it."""
    with server.connect(WAIT) as c:
        send(c, dict(request, stream=True))
        frames = events(parse(read_all(c, WAIT))[2])
    if not frames or frames[-1] != "[DONE]":
        return f"a stream without an end: {frames[-1:]}"
    chunks = [json.loads(f) for f in frames[:-1]]
    if any("error" in c for c in chunks):
        return str(chunks[-1])
    return "".join(
        c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"]
    )


def whole_text(server, request):
    status, answer = server.json("POST", "/v1/chat/completions", request, timeout=WAIT)
    return answer["choices"][0]["message"]["content"] if status == 200 else str(answer)


def abort(server, request, rng):
    with server.connect(WAIT) as c:
        send(c, dict(request, max_tokens=200, stream=True))
        time.sleep(rng.random() * rng.choice((0.01, 0.1, 1, 3)))


def stop_reading(server, request, rng):
    """A long stream into a socket that holds little and is never read."""
    with socket.socket() as c:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        c.settimeout(WAIT)
        c.connect(("127.0.0.1", server.port))
        send(c, dict(request, max_tokens=400, stream=True, ignore_eos=True))
        time.sleep(2 + 3 * rng.random())


def one_request(server, rng, expected):
    (question, n), text = rng.choice(list(expected.items()))
    request = body(question, n, priority=rng.choice((0, 5, 5, 5, 9)))
    kind = rng.random()
    if kind < 0.25:
        abort(server, request, rng)
        return "aborted", None
    if kind < 0.27:
        stop_reading(server, request, rng)
        return "not read", None
    found = (streamed_text if kind < 0.7 else whole_text)(server, request)
    return ("right" if found == text else "wrong"), (question, n, found, text)


def client(server, seed, expected, until, results):
    rng = random.Random(seed)
    while time.monotonic() < until:
        try:
            results.append(one_request(server, rng, expected))
        except (OSError, ValueError, KeyError) as e:
            results.append(("wrong", f"{type(e).__name__}: {e}"))


def storm(server, expected, seconds):
    results, until = [], time.monotonic() + seconds
    threads = [
        threading.Thread(target=client, args=(server, i, expected, until, results))
        for i in range(CLIENTS)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


def at_rest(server):
    """Seconds until no request is held, or None; then what the pages say."""
    idle = wait_until(lambda: server.json("GET", "/health")[1]["active_requests"] == 0, 60)
    return idle, server.json("GET", "/health")[1]["pages"]


with Server(
    MODEL, "--context", "2048", "--parallel", "64", "--concurrency", "256", "--cache", "64"
) as s:
    expected = {(q, n): whole_text(s, body(q, n)) for q in QUESTIONS for n in LENGTHS}
    storm(s, expected, min(SECONDS, 20))  # every buffer has met its largest use

    at_rest(s)
    before = rss(s)
    results = storm(s, expected, SECONDS)
    idle, pages = at_rest(s)
    kinds = {kind: sum(r[0] == kind for r in results) for kind, _ in results}
    wrong = [r for r in results if r[0] == "wrong"]
    cases.case("every answer equals the one alone", not wrong, (len(wrong), wrong[:2]))
    cases.case("there were answers and aborts", {"right", "aborted"} <= set(kinds), kinds)
    cases.case("all work ends", idle is not None)
    cases.case("no page is kept", pages["used"] == 0, pages)
    cases.case("memory does not grow", rss(s) < before * 1.05 + 8192, (before, rss(s)))
    cases.case("ends with status 0", s.stop() == 0, s.log_lines[-3:])
    print(f"# {kinds}")
sys.exit(1 if cases.failed else 0)

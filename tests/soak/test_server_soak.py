#!/usr/bin/env python3
"""Three minutes of many clients at once: random lengths, aborts, shared prompts, one that never
reads. Every greedy answer must equal the one computed alone, and memory must not grow."""
import json
import os
import random
import sys
import threading
import time

sys.path.insert(
    0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "api")
)
from live_server import Cases, Server, real_model, wait_until  # noqa: E402

SECONDS = float(os.environ.get("INGOT_SOAK_SECONDS", "180"))
CLIENTS = 16
cases = Cases()
MODEL = real_model("the server soak")


def body(question, n, **more):
    return dict(
        messages=[{"role": "user", "content": question}],
        max_tokens=n,
        temperature=0,
        **more,
    )


def rss(server):
    with open(f"/proc/{server.process.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def client(server, seed, expected, until, results):
    rng = random.Random(seed)
    while time.monotonic() < until:
        question = rng.choice(list(expected))
        if rng.random() < 0.3:
            with server.connect() as c:
                data = json.dumps(body(question, 200, stream=True)).encode()
                c.sendall(
                    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                    b"Content-Length: %d\r\n\r\n" % len(data) + data
                )
                time.sleep(rng.random())
            results.append(("aborted", None))
            continue
        status, answer = server.json("POST", "/v1/chat/completions", body(question, 24))
        text = answer["choices"][0]["message"]["content"] if status == 200 else str(answer)
        results.append(("right" if text == expected[question] else "wrong", (question, text)))


with Server(MODEL, "--context", "2048") as s:
    prefix = "You are in a long story about a lighthouse. " * 10
    questions = [f"{prefix} Question {i}: what happens next?" for i in range(8)]
    expected = {}
    for q in questions:
        answer = s.json("POST", "/v1/chat/completions", body(q, 24))[1]
        expected[q] = answer["choices"][0]["message"]["content"]
    before = rss(s)
    results, until = [], time.monotonic() + SECONDS
    threads = [
        threading.Thread(target=client, args=(s, i, expected, until, results))
        for i in range(CLIENTS)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    wrong = [r for r in results if r[0] == "wrong"]
    cases.case("every answer equals the one alone", not wrong, wrong[:2])
    cases.case("there were answers and aborts", len({r[0] for r in results}) == 2, len(results))
    idle = wait_until(lambda: s.json("GET", "/health")[1]["active_requests"] == 0, 10)
    cases.case("all work ends", idle is not None)
    pages = s.json("GET", "/health")[1]["pages"]
    cases.case("no page is kept", pages["used"] == 0, pages)
    cases.case("memory does not grow", rss(s) < before * 1.1 + 32768, (before, rss(s)))
    cases.case("ends with status 0", s.stop() == 0, s.log_lines[-3:])
sys.exit(1 if cases.failed else 0)

#!/usr/bin/env python3
"""ingot bench --url against a live server, and against answers that are none."""

import json
import os
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import ROOT, Cases, Server, real_model  # noqa: E402

cases = Cases()
MODEL = real_model("bench --url")
INGOT = os.environ.get("INGOT", os.path.join(ROOT, "build", "release", "ingot"))


def bench(*arguments):
    done = subprocess.run(
        [INGOT, "bench", *arguments], capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


def answering(data):
    """The port of a server that answers one connection with these bytes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection = listener.accept()[0]
        connection.recv(65536)
        connection.sendall(data)
        connection.close()
        listener.close()

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def live():
    with Server(MODEL, "--context", "2048", "--api-key", "k") as s:
        url = f"http://127.0.0.1:{s.port}/v1/"
        flags = ["-p", "64", "-n", "8", "-s", "1,2", "-r", "2", "--json"]
        code, out, err = bench("--url", url, "--api-key", "k", *flags)
        rows = json.loads(out) if code == 0 else []
        names = [r["test"] for r in rows]
        cases.case("tests", names == ["pp64", "tg8", "tg8 x 2"], out + err)
        cases.case("rates", rows and all(0 < r["avg_ts"] <= r["best_ts"] for r in rows), rows)
        for wait in ("ttft_ms", "gap_ms"):
            good = [0 < r[wait]["p50"] <= r[wait]["p95"] <= r[wait]["p99"] for r in rows[1:]]
            cases.case(wait, good == [True, True], rows)
        log = s.json("GET", "/metrics/json")[1]["requests_detail"]["success"]
        cases.case("requests arrived", log == 3 + 3 + 6, log)
        code, out, err = bench(
            *("--url", url, "--api-key", "k", "-p", "64", "-n", "8"),
            *("-d", "32,64", "-r", "1", "--json"),
        )
        rows = json.loads(out) if code == 0 else []
        found = [(r["test"], r["n_depth"]) for r in rows]
        expected = [("pp64", 0), ("tg8 @ d32", 32), ("tg8 @ d64", 64)]
        cases.case("a depth is the prompt before what is written", found == expected, out + err)
        code, out, err = bench("--url", url, "-p", "8", "-n", "0")
        cases.case("no key", code == 1 and "401" in err and err.count("\n") == 1, err)


def refusals():
    for url, status, part in (
        ("https://127.0.0.1:1", 1, "there is no TLS"),
        ("127.0.0.1:1", 1, "expected http://"),
        ("http://127.0.0.1:1", 1, "refused"),
    ):
        code, _, err = bench("--url", url)
        cases.case(f"refused: {url}", code == status and part in err, err)
    code, _, err = bench("--url", "http://127.0.0.1:1", "model.gguf")
    cases.case("a model beside it", code == 2 and "--url" in err, err)
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for name, data, part in (
        ("nothing", b"", "found the end"),
        ("a chunk cut short", chunked + b"ff\r\n{", "breaks off"),
        ("no size of a chunk", chunked + b"zz\r\n{", "breaks off"),
        ("a huge chunk", chunked + b"f" * 40 + b"\r\n{", "breaks off"),
        ("no JSON", b"HTTP/1.1 200 OK\r\n\r\nhello", "JSON"),
        ("no models", b"HTTP/1.1 200 OK\r\n\r\n{}", "n_vocab"),
        ("a wrong status", b"HTTP/1.1 503 Busy\r\n\r\nlater", "503 Busy: later"),
    ):
        code, _, err = bench("--url", f"http://127.0.0.1:{answering(data)}")
        cases.case(f"refused: {name}", code == 1 and part in err, err)


cases.run("live", live)
cases.run("refusals", refusals)
sys.exit(1 if cases.failed else 0)

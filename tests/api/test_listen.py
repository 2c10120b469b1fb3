#!/usr/bin/env python3
"""Where the server listens: what lies at unix:PATH, a port in use, kill -9, SIGTERM."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import ROOT, Cases, Server, parse, read_all, wait_until  # noqa: E402

cases = Cases()
case = cases.case
MODEL = os.path.join(ROOT, "tests", "data", "golden", "llama-base", "model.gguf")
INGOT = os.environ.get("INGOT", os.path.join(ROOT, "build", "release", "ingot"))
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def refused(name, *flags, words):
    """A server that must not start: one line of error, status 1."""
    done = subprocess.run(
        [INGOT, "serve", MODEL, "-t", "1", *flags], capture_output=True, text=True, timeout=60
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("ingot:")]
    good = done.returncode == 1 and len(lines) == 1 and all(w in lines[0] for w in words)
    case(name, good, (done.returncode, done.stderr))


def ask_unix(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(path)
        s.sendall(GET)
        return parse(read_all(s))[0]


def unix_paths(folder):
    path = os.path.join(folder, "s")
    host = ("--host", "unix:" + path)
    with open(path, "w") as f:
        f.write("mine")
    refused("a file is not replaced", *host, words=(path, "another file"))
    case("the file is still there", open(path).read() == "mine")
    os.unlink(path)
    os.mkdir(path)
    refused("nor a folder", *host, words=(path, "a folder"))
    os.rmdir(path)
    os.symlink("/nowhere", path)
    refused("nor a link", *host, words=(path, "another file"))
    os.unlink(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(path)
        refused("nor a socket of another kind", *host, words=(path,))
        case("that socket is still there", os.path.exists(path))
    os.unlink(path)
    refused("a folder that is not there", "--host", "unix:" + path + "/x/y", words=(path,))
    refused("a long path", "--host", "unix:/" + "a" * 200, words=("107",))


def two_servers(folder):
    path = os.path.join(folder, "t")
    host = ("--host", "unix:" + path)
    with Server(MODEL, *host) as first:
        case("a unix socket answers", ask_unix(path) == 200)
        refused("a socket in use is not taken", *host, words=(path, "answers on it"))
        case("the first still answers", ask_unix(path) == 200)
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(20)
    case("kill -9 leaves the socket", os.path.exists(path))
    with Server(MODEL, *host) as second:
        case("which the next server replaces", ask_unix(path) == 200)
        os.unlink(path)
        with Server(MODEL, *host) as third:
            case("status 0", second.stop() == 0, second.log_lines)
            case("a server removes no socket but its own", ask_unix(path) == 200)
            case("status 0 again", third.stop() == 0, third.log_lines)
    case("removed at the end", not os.path.exists(path))


def ports():
    with Server(MODEL) as first:
        refused("port in use", "--port", str(first.port), words=(str(first.port), "--port"))
        case("the first answers", first.request("GET", "/health")[0] == 200)
        port = first.port
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(20)
    again = subprocess.Popen(
        [INGOT, "serve", MODEL, "-t", "1", "--port", str(port)],
        stderr=subprocess.PIPE,
        text=True,
    )
    listening = any(line.startswith("listening on") for line in again.stderr)
    again.send_signal(signal.SIGTERM)
    again.communicate(timeout=30)
    case("the port is free after kill -9", listening and again.returncode == 0)


def stream_body(n):
    body = {"prompt": [1, 2, 3], "max_tokens": n, "ignore_eos": True, "stream": True}
    data = json.dumps(dict(body, logit_bias={"0": 1})).encode()
    return (
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        % len(data)
        + data
    )


def log_unread():
    """Whoever starts a server and never reads its log gets answers all the same."""
    with Server(MODEL) as s:
        s.pause_log.set()
        body = json.dumps({"prompt": [1], "max_tokens": 1}).encode()
        sizes = [s.request("POST", "/v1/completions", body)[0] for _ in range(1500)]
        case("a log that nobody reads", set(sizes) == {200}, sorted(set(sizes)))
        s.pause_log.clear()

        def is_said():
            s.request("POST", "/v1/completions", body)
            return any("lines were lost" in x for x in s.log_lines)

        found = wait_until(is_said, 10)
        case("what was lost is said", found is not None, s.log_lines[-3:])


def log_full():
    """A log on a full disk stops nobody, and is told once."""
    with Server(MODEL, "--log-file", "/dev/full") as s:
        body = json.dumps({"prompt": [1], "max_tokens": 1}).encode()
        good = [s.request("POST", "/v1/completions", body)[0] for _ in range(3)]
        s.stop()
        said = [x for x in s.log_lines if "the log cannot be written: No space" in x]
        case("a log on a full disk", good == [200] * 3 and len(said) == 1, s.log_lines)


def no_descriptors():
    """Whatever cannot be opened first, its error says why."""
    for most in range(5, 9):
        done = subprocess.run(
            ["sh", "-c", f'ulimit -n {most}; exec "$@"', "sh", INGOT, "serve", MODEL]
            + ["-t", "1", "--port", "0"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        if "cannot start the HTTP server" in done.stderr:
            break
    why = "cannot start the HTTP server on 127.0.0.1 port 0: Too many open files"
    case("no descriptor is left", done.returncode == 1 and why in done.stderr, done.stderr)


def sigterm():
    """Streams end when --drain-timeout is over; others are told so meanwhile."""
    with Server(MODEL, "--context", "30000", "--drain-timeout", "1") as s:
        kept = s.connect()
        kept.sendall(GET.replace(b"Connection: close\r\n", b""))
        kept.recv(65536)
        stream = s.connect()
        stream.sendall(stream_body(29000))
        stream.recv(1000)
        s.process.send_signal(signal.SIGTERM)
        wait_until(lambda: s.process.poll() is not None, 0.2)
        kept.sendall(stream_body(1))
        status, headers, body = parse(read_all(kept))
        case(
            "503 while it drains",
            status == 503 and headers.get("connection") == "close" and b"shutting" in body,
            (status, body),
        )
        rest = read_all(stream)
        took = wait_until(lambda: s.process.poll() is not None, 10)
        case("ended by --drain-timeout", took is not None, s.log_lines)
        case("status 0", s.process.poll() == 0, s.process.poll())
        case("no false end of the stream", b'"finish_reason":"' not in rest[-500:], rest[-500:])
        kept.close()
        stream.close()


with tempfile.TemporaryDirectory() as temporary:
    cases.run("unix paths", lambda: unix_paths(temporary))
    cases.run("two servers", lambda: two_servers(temporary))
cases.run("ports", ports)
cases.run("SIGTERM", sigterm)
cases.run("unread log", log_unread)
cases.run("full log", log_full)
cases.run("descriptors", no_descriptors)
sys.exit(1 if cases.failed else 0)

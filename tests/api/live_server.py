"""Starts `ingot serve` on a free port for a test, and speaks raw HTTP to it."""

import json
import os
import signal
import socket
import subprocess
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Server:
    """with Server(model, "--api-key", "k") as s: s.request("GET", "/health")"""

    def __init__(self, model, *flags, env=None):
        self.log_lines = []
        program = os.environ.get("INGOT", os.path.join(ROOT, "build", "release", "ingot"))
        self.process = subprocess.Popen(
            [program, "serve", model, "--port", "0", "--threads", "1", *flags],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env=env,
        )
        self.port, self.announced, self.pause_log = None, threading.Event(), threading.Event()
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()
        self.announced.wait()
        if self.port is None:
            raise RuntimeError("the server did not start: " + " | ".join(self.log_lines))

    def read_log(self):
        """Reads on to the end, so that a long log never fills the pipe."""
        for line in self.process.stderr:
            while self.pause_log.is_set():
                time.sleep(0.01)
            self.log_lines.append(line.rstrip())
            if self.port is None and line.startswith("listening on"):
                tail = line.rstrip().rsplit(":", 1)[1]
                self.port = int(tail) if tail.isdigit() else 0  # 0: a socket in the file system
                self.announced.set()
        self.announced.set()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()

    def stop(self, wait=30):
        """SIGTERM; returns the exit status, or None if it had to be killed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(wait)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = None
        self.reader.join(10)
        return status

    def connect(self, timeout=20):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        return s

    def raw(self, data, timeout=20):
        """Sends bytes, reads until the server closes or falls silent; returns what came."""
        with self.connect(timeout) as s:
            s.sendall(data)
            return read_all(s, timeout)

    def request(self, method, path, body=None, headers=None, timeout=60):
        """One request on its own connection: (status, headers, body bytes)."""
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
        lines += [f"{k}: {v}" for k, v in (headers or {}).items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        with self.connect(timeout) as s:
            s.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + (body or b""))
            return parse(read_all(s, timeout))

    def json(self, method, path, body=None, headers=None, timeout=60):
        status, _, data = self.request(method, path, body, headers, timeout)
        return status, json.loads(data)


def read_all(s, timeout=20):
    s.settimeout(timeout)
    data = b""
    try:
        while True:
            piece = s.recv(65536)
            if not piece:
                return data
            data += piece
    except (socket.timeout, ConnectionResetError):
        return data


def parse(data):
    """One response: (status, {lower-case header: value}, body with chunks joined)."""
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    status = int(lines[0].split()[1]) if lines[0].startswith("HTTP/") else 0
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("transfer-encoding") == "chunked":
        joined = b""
        while body:
            size, _, body = body.partition(b"\r\n")
            n = int(size.split(b";")[0] or b"0", 16)
            if n == 0:
                break
            joined, body = joined + body[:n], body[n + 2 :]
        body = joined
    return status, headers, body


def told(reply):
    """(text, cached tokens, prompt tokens) of what Server.json gave for a chat completion."""
    status, answer = reply
    assert status == 200, answer
    usage = answer["usage"]
    return (
        answer["choices"][0]["message"]["content"],
        usage["prompt_tokens_details"]["cached_tokens"],
        usage["prompt_tokens"],
    )


def cache_source(reply):
    """Where the reused tokens of the same were; None: nothing was reused."""
    return reply[1]["timings"]["cache_source"]


def events(body):
    """The data of each server-sent event."""
    return [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]


def real_model(what):
    """Path of SmolLM2; without it says that `what` is not run, and ends."""
    path = os.environ.get("INGOT_SMOLLM2")
    if not path:
        print(f"not run: {what} (there is no SmolLM2)")
        raise SystemExit(0)
    return path


class Cases:
    """Prints the protocol of tools/check.py."""

    def __init__(self):
        self.failed = 0

    def case(self, name, good, why=""):
        text = str(why).replace("\n", " ")[:300]
        print(f"ok {name}" if good else f"not ok {name}: {text}", flush=True)
        self.failed += not good

    def run(self, name, function):
        try:
            function()
        except Exception as e:  # a broken case is a failed case
            self.case(name, False, f"{type(e).__name__}: {e}")


def wait_until(condition, seconds):
    """Seconds until condition() held, or None."""
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        if condition():
            return time.monotonic() - start
        time.sleep(0.005)
    return None

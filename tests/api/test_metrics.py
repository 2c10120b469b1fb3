#!/usr/bin/env python3
"""/metrics against a live server, read by the parser of Prometheus' own client library."""

import os
import sys

from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from live_server import Cases, Server, real_model  # noqa: E402

cases = Cases()
case = cases.case
MODEL = real_model("metrics of a live server")
CHAT = {
    "messages": [{"role": "user", "content": "Hi"}],
    "max_tokens": 5,
    "temperature": 0,
    "ignore_eos": True,
}


def series(server, headers=None):
    """{(name, labels): value} and the families' kinds."""
    status, _, body = server.request("GET", "/metrics", headers=headers)
    if status != 200:
        return status, {}, {}
    values, kinds = {}, {}
    for family in text_string_to_metric_families(body.decode()):
        kinds[family.name] = family.type
        for s in family.samples:
            values[(s.name, tuple(sorted(s.labels.items())))] = s.value
    return status, values, kinds


def counts(server):
    _, before, kinds = series(server)
    case("page parses", len(before) > 50, len(before))
    case(
        "kinds",
        kinds.get("ingot_itl_seconds") == "histogram"
        and kinds.get("ingot_generated_tokens") == "counter"
        and kinds.get("ingot_pages") == "gauge",
        kinds,
    )
    _, answer = server.json("POST", "/v1/chat/completions", CHAT)
    server.json("POST", "/v1/chat/completions", dict(CHAT, temperature="hot"))
    _, after, _ = series(server)

    def grown(name, **labels):
        key = (name, tuple(sorted(labels.items())))
        return after[key] - before[key]

    usage = answer["usage"]
    case("generated tokens", grown("ingot_generated_tokens_total") == 5)
    read = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
    case("prompt tokens", grown("ingot_prompt_tokens_total") == read)
    case("success", grown("ingot_request_lifecycle_total", outcome="success") == 1)
    case("rejected", grown("ingot_request_lifecycle_total", outcome="rejected") == 1)
    case("gaps", grown("ingot_itl_seconds_count") == 4)
    case("first token", grown("ingot_ttft_seconds_count") == 1)
    case("duration", grown("ingot_request_duration_seconds_count") == 1)
    buckets = [v for (n, l), v in after.items() if n == "ingot_itl_seconds_bucket"]
    case("cumulative", buckets == sorted(buckets) and buckets[-1] >= 4, buckets)


def json_form(server):
    for what, path, headers in [
        ("path", "/metrics/json", None),
        ("query", "/metrics?format=json", None),
        ("accept", "/metrics", {"Accept": "application/json"}),
    ]:
        status, body = server.json("GET", path, headers=headers)
        case(f"json by {what}", status == 200 and body["requests_detail"]["success"] >= 1, body)


def key():
    with Server(MODEL, "--api-key", "k") as server:
        case("no key on loopback", series(server)[0] == 200)
    with Server(MODEL, "--api-key", "k", "--host", "0.0.0.0") as server:
        case("key elsewhere", series(server)[0] == 401)
        case("with key", series(server, {"x-api-key": "k"})[0] == 200)
    with Server(MODEL, "--api-key", "k", "--host", "0.0.0.0", "--metrics-public") as server:
        case("public", series(server)[0] == 200)


with Server(MODEL) as live:
    counts(live)
    json_form(live)
key()
sys.exit(1 if cases.failed else 0)

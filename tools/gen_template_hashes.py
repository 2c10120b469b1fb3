#!/usr/bin/env python3
"""Writes tests/data/jinja/expected_hashes.json: what published templates must render to.

The templates and their renderings are other people's text, so the repository keeps only the
hashes. Usage: tools/gen_template_hashes.py FOLDER > tests/data/jinja/expected_hashes.json
FOLDER holds published.json (names, files, hashes of the templates) and expected/NAME.json
(per conversation {"expect": TEXT, "expect_lenient": TEXT} or {"error": KIND, "message": TEXT}).
An outcome is the SHA-256 of the text, or the kind of the failure; of one that the template
raised itself, the message too.
"""
import hashlib
import json
import os
import sys


def outcome(case):
    text = case.get("expect_lenient", case.get("expect"))
    if text is not None:
        return hashlib.sha256(text.encode()).hexdigest()
    if case["error"] == "raised":
        return "raised: " + case["message"]
    return case["error"]


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = sys.argv[1]
    with open(os.path.join(folder, "published.json")) as f:
        published = json.load(f)
    out = {"package": "llama-cpp-python==0.3.36",
           "path": "llama_cpp_python-0.3.36/vendor/llama.cpp/models/templates",
           "clock": published["clock"].replace(" ", "T"), "templates": {}}
    for template in published["templates"]:
        with open(os.path.join(folder, template["expected"])) as f:
            cases = json.load(f)
        out["templates"][os.path.basename(template["file"])] = {
            "sha256": template["sha256"],
            "outcomes": {name: outcome(case) for name, case in cases.items()}}
    json.dump(out, sys.stdout, indent=1, ensure_ascii=False)
    print()
    return 0


sys.exit(main())

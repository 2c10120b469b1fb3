"""What every command does the same way: help, exit states, errors in one line, completion."""
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile

from cases import INGOT, case, finish, not_run, run

TINY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                    "data", "golden", "llama-base", "model.gguf")


def refused(name, arguments, part, status=2):
    code, out, err = run(*arguments)
    case(name, code == status and part in err and out == "" and err.count("\n") == 1,
         f"status {code}, {err!r}")


def commands():
    _, out, _ = run("--help")
    block = out.split("Commands\n")[1].split("\n\n")[0]
    return re.findall(r"^  (\S+)", block, re.M)


def test_help():
    code, out, err = run("--version")
    case("--version", code == 0 and re.fullmatch(r"ingot \d+\.\d+\.\d+\n", out) and err == "", out)
    for name in commands():
        code, out, err = run(name, "--help")
        case(f"{name} --help", code == 0 and f"usage: ingot {name}" in out and err == "", err)
        case(f"--help {name} is the same", run("--help", name)[1] == out)
    for theme in ("model", "template", "sampling", "engine", "devices", "server", "output"):
        code, out, _ = run("--help", theme)
        case(f"--help {theme}", code == 0 and "--" in out)
    code, out, _ = run("--help")
    case("lines of help fit 100 columns", all(len(line) <= 100 for line in out.split("\n")))


def test_refusals():
    refused("no command", [], "expected a command")
    refused("unknown command", ["docter"], "did you mean doctor?")
    refused("unknown command without a near one", ["qqqqqqqq"], "ingot --help")
    refused("unknown global flag", ["--hepl"], "did you mean --help?")
    refused("unknown theme", ["--help", "nothing"], "themes: model")
    refused("unknown flag", ["doctor", "--jsn"], "did you mean --json?")
    refused("value missing", ["doctor", "--port"], "--port needs a value")
    refused("value out of range", ["doctor", "--port", "70000"], "from 1 to 65535")
    refused("argument too many", ["completion", "bash", "a"], 'unexpected argument "a"')
    refused("argument missing", ["completion"], "expected bash")
    for name in ("grammar", "parse", "imatrix"):
        refused(f"{name} is not built yet", [name, "--anything", "x"], f"{name} is not built yet")
        refused(f"--help {name}", ["--help", name], f"{name} is not built yet")
    refused("--draft-logits", ["eval", "m", "--draft-logits", "x"], "--draft-logits is refused")
    refused("two prompts", ["generate", "m", "-p", "a", "-f", "b"],
            "expected one prompt, found two: --prompt and --file")
    refused("no prompt", ["generate", "m"], "expected a prompt")
    refused("a count that is none", ["generate", "m", "-p", "a", "-n", "x"],
            'expected a whole number from 1 to 1000000000 or -1, found "x"')
    for bias in ("5", "x=1", "-1=1", "5=1e300", "5=nan", "5=-1000001"):
        refused(f"--logit-bias {bias}", ["generate", "m", "-p", "a", "--logit-bias", bias],
                f'expected ID=B, B from -1000000 to 1000000, found "{bias}"')
    refused("--logit-bias in chat", ["chat", "m", "-l", "5"], "chat: --logit-bias: expected ID=B")
    refused("--logit-bias outside the vocabulary",
            ["generate", TINY, "--raw", "-p", "a", "-q", "-l", "99999999=1"],
            "logit bias: expected a token id below ", 1)
    refused("a host cache beyond 64 bits", ["plan", "m", "--cache", "99999999999999"],
            "expected a number of MiB, or a size such as 512M or 8G")
    refused("two models for doctor", ["doctor", "a", "-m", "b"], "doctor takes one model")
    refused("a type that is none", ["quantize", "a", "b", "--type", "Q99"],
            "cannot write type Q99; writable types: F32")
    refused("unknown shell", ["completion", "tcsh"], "expected bash, zsh or fish")


def test_no_model():
    """A command line that names no model, where none lies about, is a usage error everywhere."""
    needed = {"generate": ["-p", "a"], "eval": ["--perplexity", "f"], "tokenize": ["--text", "a"],
              "detokenize": ["--ids", "f"], "render": ["--messages", "f"], "chat": [], "serve": [],
              "inspect": [], "plan": [], "bench": []}
    program = os.path.abspath(INGOT)
    with tempfile.TemporaryDirectory() as folder:
        for name, flags in needed.items():
            done = subprocess.run([program, name, *flags], cwd=folder, capture_output=True,
                                  text=True, stdin=subprocess.DEVNULL, timeout=60)
            case(f"{name} without a model", done.returncode == 2 and done.stdout == "" and
                 "no model given" in done.stderr and done.stderr.count("\n") == 1, done)
            done = subprocess.run([program, name, "gone.gguf", *flags], cwd=folder,
                                  capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                  timeout=60)
            case(f"{name} with a model that is not there", done.returncode == 1, done)
    with_argument = [name for name in commands()
                     if "MODEL" in run(name, "--help")[1].split("\n")[2]]
    case("every command that takes a model is looked at",
         set(with_argument) - {"doctor"} == set(needed), with_argument)


def test_bench_url_flags():
    for flag in (["-t", "2"], ["--device", "cpu"], ["-b", "64"], ["-ctk", "f32"], ["-ctv", "f32"],
                 ["--exact"], ["--peak"], ["--write", "f"], ["--shape", "qwen3-8b:Q4_K_M"]):
        refused(f"bench --url {flag[0]}", ["bench", "--url", "http://127.0.0.1:1", *flag],
                "has no meaning with --url")
    refused("bench --api-key without --url", ["bench", "m", "--api-key", "k"], "--url")


def test_output_errors():
    with open("/dev/full", "w") as full:
        result = subprocess.run([INGOT, "--help"], stdout=full, stderr=subprocess.PIPE)
    case("no space for the output", result.returncode == 1 and
         b"cannot write the output: No space left" in result.stderr, result)


def test_completion():
    for shell in ("bash", "zsh", "fish"):
        code, out, _ = run("completion", shell)
        case(f"completion {shell} names every command", code == 0 and
             all(re.search(rf"\b{name}\b", out) for name in commands()))
        if shutil.which(shell):
            check = subprocess.run([shell, "-n"], input=out.encode(), capture_output=True)
            case(f"{shell} reads its completion", check.returncode == 0, check.stderr)
    script = run("completion", "bash")[1] + """
COMP_WORDS=(ingot doc) COMP_CWORD=1; _ingot; echo "${COMPREPLY[*]}"
COMP_WORDS=(ingot doctor --js) COMP_CWORD=2; _ingot; echo "${COMPREPLY[*]}"
"""
    out = subprocess.run(["bash", "-c", script], capture_output=True).stdout.decode()
    case("bash completes commands and flags", out == "doctor\n--json\n", out)


def test_man_page():
    code, out, _ = run("--man")
    case("--man names every command", code == 0 and
         all(".SS ingot " + name.replace("-", "\\-") in out for name in commands()))
    if shutil.which("groff"):
        check = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=out.encode(),
                               capture_output=True)
        case("groff reads the man page", check.returncode == 0 and check.stderr == b"",
             check.stderr)


def test_doctor():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        free = s.getsockname()[1]
    code, out, err = run("doctor", "--port", free)
    lines = out.rstrip("\n").split("\n")
    case("doctor on a machine that can serve", code == 0 and lines[-1] == "this install can serve",
         out + err)
    case("doctor's lines", all(re.match(r"\[(ok|warn|FAIL)\] +[\w ]+: .|       -> .", line)
                               for line in lines[:-1]), out)
    case("doctor without colour on a pipe", "\033" not in out)
    code, out, _ = run("doctor", "--port", free, "--json")
    report = json.loads(out)
    case("doctor --json", code == 0 and report["can_serve"] is True and
         all(f["level"] in ("ok", "warn", "FAIL") for f in report["findings"]), out)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        code, out, _ = run("doctor", "--port", port)
        case("doctor names who has the port", code == 1 and
             re.search(rf"\[FAIL\] port: 127.0.0.1:{port} is taken by \S+ \({os.getpid()}\)", out)
             and out.endswith("this install cannot serve: 1 problem\n"), out)
    _, out, _ = run("doctor", "--port", free, env={"LLAMA_ARG_CTX_SIZE": "1",
                                                   "INGOT_NONSENSE": "1"})
    case("doctor names variables that are not read",
         "[warn] variables: LLAMA_ARG_CTX_SIZE is set and is not read" in out and
         "[warn] variables: INGOT_NONSENSE is set but names no flag" in out, out)
    code, out, _ = run("doctor", "--port", free, env={"XDG_CACHE_HOME": "/dev/null/x"})
    case("doctor: a folder that cannot be written", code == 1 and "[FAIL] cache folder" in out, out)


def test_doctor_model():
    """A sound model, its side files, and each thing that can be wrong with one."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    hostile = "tests/data/hostile/gguf/"
    for path, part, fix in (
            ("/nowhere.gguf", "[FAIL] model: /nowhere.gguf", "-> check the path"),
            (hostile + "magic_bad.gguf", "[FAIL] model: ", "fetch the model again"),
            (hostile + "architecture_wrong_type.gguf", "[FAIL] family: ", "a known family"),
            (hostile + "ok_no_tensors.gguf", "[FAIL] ", "-> ")):
        code, out, err = run("doctor", path, "--port", port)
        case("doctor MODEL: " + path, code == 1 and part in out and fix in out and
             "this install cannot serve" in out, out + err)
    _, out, _ = run("doctor", "--port", port, env={"LC_ALL": "C"})
    case("doctor names a locale without UTF-8", "[warn] locale: " in out and
         "-> export LC_ALL=C.UTF-8" in out, out)
    _, out, _ = run("doctor", "--port", port, env={"LC_ALL": "xx_XX"})
    case("doctor names a locale that is not there", "[warn] locale: the one" in out, out)
    _, out, _ = run("doctor", "--port", port, env={"LC_ALL": "C.UTF-8"})
    case("doctor: a good locale", "[ok]   locale: UTF-8" in out, out)
    model = os.environ.get("INGOT_SMOLLM2")
    if not model:
        not_run("doctor with a real model", "there is no SmolLM2")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.gguf")
        os.symlink(os.path.abspath(model), path)
        for name in ("m.imatrix.gguf", "mmproj-m.gguf", "m-draft.gguf"):
            open(os.path.join(folder, name), "w").close()
        with open(os.path.join(folder, "generation_config.json"), "w") as f:
            f.write("{}")
        code, out, err = run("doctor", path, "--port", port, "--json")
        found = {f["name"]: f for f in json.loads(out)["findings"]}
        beside = [f["finding"] for f in json.loads(out)["findings"] if f["name"] == "side file"]
        case("doctor MODEL --json", code == 0 and found["family"]["finding"] == "llama" and
             found["tokenizer"]["finding"] == "49152 tokens" and
             found["chat template"]["level"] == "ok" and
             "weights and scratch" in found["model memory"]["finding"], out + err)
        case("doctor lists what lies beside", len(beside) == 4 and
             all(any(b.startswith(n) for b in beside) for n in
                 ("m.imatrix.gguf", "mmproj-m.gguf", "m-draft.gguf", "generation_config.json")),
             beside)


test_help()
test_refusals()
test_no_model()
test_bench_url_flags()
test_output_errors()
test_completion()
test_man_page()
test_doctor()
test_doctor_model()
finish()

#!/usr/bin/env python3
"""What a command does when something runs out or is broken: memory, locked memory, disk space,
numbers that are none, damaged models. Always status 1 and one line that says what."""

import ctypes
import glob
import os
import resource
import struct
import sys
import time
import subprocess
import tempfile

from cases import INGOT, case, finish, not_run, run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(ROOT, "tests", "data")
TINY = os.path.join(DATA, "golden", "llama-base", "model.gguf")
folder = tempfile.TemporaryDirectory()
IDS = os.path.join(folder.name, "ids.txt")


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def sparse_llama(path, layers, kv_heads):
    """A llama of large geometry whose weights are a hole in the file."""
    width, head, vocab, ffn = 256, 128, 64, 256
    keys = [
        ("general.architecture", "llama"),
        ("llama.context_length", 32768),
        ("llama.embedding_length", width),
        ("llama.block_count", layers),
        ("llama.feed_forward_length", ffn),
        ("llama.attention.head_count", kv_heads),
        ("llama.attention.head_count_kv", kv_heads),
        ("llama.attention.key_length", head),
        ("llama.attention.value_length", head),
        ("llama.rope.dimension_count", head),
        ("llama.attention.layer_norm_rms_epsilon", 1e-5),
        ("llama.vocab_size", vocab),
    ]
    shapes = {"token_embd.weight": (width, vocab), "output_norm.weight": (width,)}
    for i in range(layers):
        for name, shape in (
            ("attn_norm", (width,)),
            ("ffn_norm", (width,)),
            ("attn_q", (width, kv_heads * head)),
            ("attn_k", (width, kv_heads * head)),
            ("attn_v", (width, kv_heads * head)),
            ("attn_output", (kv_heads * head, width)),
            ("ffn_gate", (width, ffn)),
            ("ffn_up", (width, ffn)),
            ("ffn_down", (ffn, width)),
        ):
            shapes[f"blk.{i}.{name}.weight"] = shape
    out = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(keys))
    for key, value in keys:
        kind = {str: 8, int: 4, float: 6}[type(value)]
        out += text(key) + struct.pack("<I", kind)
        out += text(value) if kind == 8 else struct.pack("<I" if kind == 4 else "<f", value)
    offset = 0
    for name, shape in shapes.items():
        n = 4
        for d in shape:
            n *= d
        out += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset)
        offset += -(-n // 32) * 32
    with open(path, "wb") as f:
        f.write(out)
        f.truncate(-(-len(out) // 32) * 32 + offset)
    return path


def usable_bytes():
    with open("/proc/meminfo") as f:
        free = next(int(x.split()[1]) * 1024 for x in f if x.startswith("MemAvailable"))
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            with open("/sys/fs/cgroup/" + limit) as a, open("/sys/fs/cgroup/" + used) as b:
                free = min(free, int(a.read()) - int(b.read()))
        except (OSError, ValueError):
            pass
    return free


def contexts():
    # 32768 tokens of f16 keys and values take four times what is free
    kv_heads = 64
    layers = max(1, round(4 * usable_bytes() / (32768 * kv_heads * 128 * 2 * 2)))
    path = sparse_llama(os.path.join(folder.name, "wide.gguf"), layers, kv_heads)
    status, out, err = run("plan", path, "--json")
    case(
        "a context that does not fit shrinks and says so",
        status == 0 and "context shrunk from 32768 to" in err and '"context": 32768' not in out,
        f"{status} {err}",
    )
    for value in (32768, 0):
        status, _, err = run("plan", path, "--context", value)
        case(
            f"--context {value} is refused when it does not fit",
            status == 1 and "32768 tokens needs" in err and "are free" in err,
            err,
        )
    status, _, err = run("plan", path, "--context", 64)
    case("a small one is taken", status == 0, err)


def locked(limit):
    def prepare():
        ctypes.CDLL(None).prctl(24, 14, 0, 0, 0)  # root would lock without limit: CAP_IPC_LOCK
        resource.setrlimit(
            resource.RLIMIT_MEMLOCK,
            (limit, resource.RLIM_INFINITY if hard == resource.RLIM_INFINITY else hard),
        )

    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    p = subprocess.run(
        [INGOT, "generate", TINY, "--tokens", IDS, "--ids", "-n", "1", "--mlock"],
        capture_output=True,
        text=True,
        preexec_fn=prepare,
        timeout=60,
    )
    return p.returncode, p.stderr


def memory_lock():
    status, err = locked(4096)
    case(
        "--mlock beyond the limit is refused",
        status == 1 and "mlock of" in err and "ulimit -l" in err and "4096" in err,
        err,
    )
    most = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    if most != resource.RLIM_INFINITY and most < 8 << 20:
        not_run("--mlock within the limit", f"the hard limit is {most} bytes")
        return
    status, err = locked(8 << 20)
    case("--mlock within the limit", status == 0, err)


def maps_while_waiting(path, *flags):
    """What a generate that has loaded and waits for its prompt has mapped; and its answer."""
    p = subprocess.Popen(
        [
            INGOT,
            "generate",
            path,
            "--tokens",
            "-",
            "--ids",
            "-n",
            "4",
            "--temperature",
            "0",
            *flags,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    maps = ""
    for _ in range(600):
        with open(f"/proc/{p.pid}/syscall") as f:
            waits = f.read().startswith("0 0x0 ")  # read() of descriptor 0
        if waits:
            break
        time.sleep(0.05)
    with open(f"/proc/{p.pid}/maps") as f:
        maps = f.read()
    out, err = p.communicate("1 2 3", timeout=60)
    return maps, p.returncode, out, err


def no_mmap():
    hf = os.path.join(DATA, "golden", "llama-base", "hf")
    for name, path, part in (("GGUF", TINY, "model.gguf"), ("safetensors", hf, ".safetensors")):
        maps, status, expected, err = maps_while_waiting(path)
        case(f"{name} is mapped", status == 0 and part in maps, err)
        maps, status, out, err = maps_while_waiting(path, "--no-mmap")
        case(f"{name} --no-mmap maps no file", status == 0 and part not in maps, err)
        case(
            f"{name} --no-mmap answers the same", out == expected and len(out.split()) == 4, out
        )


def no_space():
    for name, arguments in {
        "eval --logits": ("eval", TINY, "--tokens", IDS, "--logits", "/dev/full"),
        "quantize": ("quantize", TINY, "/dev/full", "--type", "F16", "-q"),
    }.items():
        status, _, err = run(*arguments)
        case(
            f"{name}: no space", status == 1 and "/dev/full: cannot write: No space" in err, err
        )
    case(
        "a device is not replaced",
        os.path.exists("/dev/full") and not os.path.isfile("/dev/full"),
    )
    for arguments in (
        ("generate", TINY, "--tokens", IDS, "--ids", "-n", "2"),
        ("inspect", TINY),
        ("plan", TINY, "--json"),
        ("--help",),
    ):
        with open("/dev/full", "w") as full:
            p = subprocess.run(
                [INGOT, *arguments], stdout=full, stderr=subprocess.PIPE, text=True
            )
        case(
            f"{arguments[0]} to a full device",
            p.returncode == 1 and "No space left" in p.stderr,
            p.stderr,
        )
    out = os.path.join(folder.name, "out.gguf")
    p = subprocess.run(
        [INGOT, "quantize", TINY, out, "--type", "F16", "-q"],
        text=True,
        stderr=subprocess.PIPE,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)),
    )
    left = [n for n in os.listdir(folder.name) if n.startswith("out")]
    case(
        "a limit on file sizes is an error and leaves nothing",
        p.returncode == 1 and "File too large" in p.stderr and not left,
        f"{p.stderr} {left}",
    )


def not_numbers():
    with open(TINY, "rb") as f:
        data = bytearray(f.read())
    # the last norm in f32, found by its offset in the list of tensors
    name = text("output_norm.weight")
    at = data.index(name) + len(name)
    n_dims, n = struct.unpack_from("<IQ", data, at)
    kind, offset = struct.unpack_from("<IQ", data, at + 4 + 8 * n_dims)
    end = tensors_end(data)
    start = -(-end // 32) * 32 + offset
    struct.pack_into("<f", data, start, float("nan"))
    path = os.path.join(folder.name, "nan.gguf")
    with open(path, "wb") as f:
        f.write(data)
    case("the norm is f32", kind == 0 and n_dims == 1 and n > 1)
    for arguments in (
        ("generate", path, "--tokens", IDS, "--ids", "-n", "4"),
        ("generate", path, "--tokens", IDS, "--ids", "-n", "4", "--temperature", "0"),
    ):
        status, out, err = run(*arguments)
        case("NaN in the logits is an error", status == 1 and "NaN" in err, f"{out} {err}")


def tensors_end(data):
    sys.path.insert(0, os.path.join(ROOT, "tests", "api"))
    from untied import text_end, value_end

    n_tensors, n_keys = struct.unpack_from("<QQ", data, 8)
    at = 24
    for _ in range(n_keys):
        at = text_end(data, at)
        at = value_end(data, at + 4, struct.unpack_from("<I", data, at)[0])
    for _ in range(n_tensors):
        at = text_end(data, at)
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 12
    return at


def plans():
    for path in sorted(glob.glob(os.path.join(DATA, "golden", "*-*"))):
        model = os.path.join(path, "model.gguf")
        model = model if os.path.exists(model) else os.path.join(path, "hf")
        status, _, err = run("plan", model)
        case(f"plan of {os.path.basename(path)}", status == 0, err)


def damaged():
    wrong = []
    files = sorted(glob.glob(os.path.join(DATA, "hostile", "*", "*.*")))
    for path in files:
        for arguments in (
            ("inspect",),
            ("plan",),
            ("generate", "--tokens", IDS, "-n", "1"),
            ("tokenize", "--text", "a", "--ids"),
            ("serve", "--port", "0"),
            ("quantize", os.path.join(folder.name, "q.gguf"), "--type", "F32"),
        ):
            status, _, err = run(arguments[0], path, *arguments[1:], timeout=20)
            useless = arguments[0] in ("plan", "generate", "serve")
            lines = [x for x in err.splitlines() if x.startswith("ingot: ")]
            if status not in (0, 1) or (useless and status != 1) or (status == 1) != len(lines):
                wrong.append((os.path.basename(path), arguments[0], status, err))
    case(f"{len(files)} damaged files, six commands", len(files) > 50 and not wrong, wrong[:3])
    with open(TINY, "rb") as f:
        data = f.read()
    path, wrong = os.path.join(folder.name, "cut.gguf"), []
    for percent in range(100):
        with open(path, "wb") as f:
            f.write(data[: len(data) * percent // 100])
        status, _, err = run("generate", path, "--tokens", IDS, "--ids", "-n", "1", timeout=20)
        if status != 1 or path not in err or len(err.strip().splitlines()) != 1:
            wrong.append((percent, status, err))
    case("a model cut at every hundredth", not wrong, wrong[:3])


with folder:
    with open(IDS, "w") as f:
        f.write("1 2 3\n")
    for part in (contexts, memory_lock, no_mmap, no_space, not_numbers, plans, damaged):
        part()
finish()

"""ingot inspect: any well-formed container is described, whatever its architecture."""
import glob
import json
import os
import struct
import tempfile

from cases import case, finish, not_run, run


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def pair(key, kind, value):
    formats = {4: "<I", 6: "<f", 7: "<?"}
    data = text(value) if kind == 8 else struct.pack(formats[kind], value)
    return text(key) + struct.pack("<I", kind) + data


def strings(key, items):
    return text(key) + struct.pack("<IIQ", 9, 8, len(items)) + b"".join(map(text, items))


def gguf(path, pairs, tensors=()):
    """Tensors are (name, dims fastest first, f32 values)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs)
    data = b""
    for name, dims, values in tensors:
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 0, len(data))
        data += struct.pack(f"<{len(values)}f", *values)
        data += b"\0" * (-len(data) % 32)
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + data)
    return path


def llama(**changes):
    numbers = dict(block_count=2, embedding_length=64, feed_forward_length=128, context_length=96,
                   **{"attention.head_count": 4, "attention.head_count_kv": 2})
    numbers.update(changes)
    return [pair("general.architecture", 8, "llama"), pair("llama.vocab_size", 4, 10),
            pair("llama.attention.layer_norm_rms_epsilon", 6, 1e-5),
            *(pair("llama." + k, 4, v) for k, v in numbers.items())]


def report(*arguments):
    code, out, err = run("inspect", *arguments, "--json")
    return (json.loads(out) if code == 0 else {}), code, err


def test_families(folder):
    path = gguf(folder + "/llama.gguf", llama(), [("token_embd.weight", (64, 10), [0.5] * 640)])
    r, code, err = report(path)
    case("a known family", code == 0 and r["family"] == "llama" and r["geometry"]["layers"] == 2 and
         r["geometry"]["head_dim"] == 16 and r["geometry"]["context"] == 96 and
         r["parameters"] == r["embedding_parameters"] == 640 and r["problem"] is None, err or r)
    case("bytes by type", r.get("types") == {"F32": {"tensors": 1, "elements": 640, "bytes": 2560}},
         r)
    case("tensors", r.get("tensors") == [{"name": "token_embd.weight", "type": "F32",
                                          "shape": [10, 64], "bytes": 2560}], r)
    r, code, err = report(gguf(folder + "/bad.gguf", llama(**{"attention.head_count": 0})))
    case("a refused configuration is a finding, not a failure", code == 0 and
         r["family"] == "llama" and r["geometry"] is None and "head_count" in r["problem"],
         err or r)
    r, code, err = report(gguf(folder + "/odd.gguf", [pair("general.architecture", 8, "odd")]))
    case("an unknown architecture", code == 0 and r["family"] is None and
         r["architecture"] == "odd" and r["geometry"] is None, err or r)
    r, code, err = report(gguf(folder + "/none.gguf", []))
    case("no architecture", code == 0 and r["family"] is None and r["architecture"] is None and
         r["n_tensors"] == 0, err or r)


def test_text_parts(folder):
    words = [f"w{i}" for i in range(20)]
    path = gguf(folder + "/vocabulary.gguf",
                [pair("general.name", 8, "Na\x1b[31mme"), pair("tokenizer.ggml.model", 8, "gpt2"),
                 pair("tokenizer.ggml.pre", 8, "smollm"), strings("tokenizer.ggml.tokens", words),
                 pair("tokenizer.chat_template", 8, "{{ messages }}\n")])
    r, code, err = report(path)
    case("tokenizer and template", code == 0 and r["chat_template"] is True and
         r["tokenizer"] == {"kind": "gpt2", "pre": "smollm", "tokens": 20}, err or r)
    array = r.get("metadata", {}).get("tokenizer.ggml.tokens", {})
    case("arrays are cut short", array == {"array_of": "string", "count": 20, "first": words[:8]},
         r)
    code, out, err = run("inspect", path, "--template")
    case("--template is exact", code == 0 and out == "{{ messages }}\n", out + err)
    code, out, err = run("inspect", path)
    case("text without control characters of the file", code == 0 and "\x1b" not in out and
         "split as smollm, 20 tokens" in out, out + err)
    code, out, err = run("inspect", path, "--metadata")
    case("--metadata", code == 0 and 'tokenizer.ggml.pre = "smollm"' in out, out + err)
    code, out, err = run("inspect", gguf(folder + "/plain.gguf", []), "--template")
    case("--template without one", code == 1 and "no chat template" in err, err)


def test_values(folder):
    nan = float("nan")
    good = gguf(folder + "/good.gguf", [], [("a", (32, 2), [1.0] * 64)])
    bad = gguf(folder + "/nan.gguf", [], [("a", (32,), [1.0] * 32),
                                           ("b", (32,), [1.0] * 7 + [nan] * 25)])
    code, out, err = run("inspect", good, "--check")
    case("--check of good values", code == 0 and "all finite" in out, err)
    code, out, err = run("inspect", bad, "--check")
    case("--check names the tensor", code == 1 and "tensor b" in err and "NaN" in err and
         "element 7" in err and out == "", err)
    code, out, err = run("inspect", bad, "--tensors")
    case("--tensors does not look at values", code == 0 and "b [32]" in out, out + err)


def test_folder(folder):
    path = folder + "/hf"
    os.mkdir(path)
    config = {"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 3,
              "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
              "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 50,
              "rms_norm_eps": 1e-6}
    with open(path + "/config.json", "w") as f:
        json.dump(config, f)
    header = json.dumps({"lm_head.weight": {"dtype": "BF16", "shape": [2, 3],
                                            "data_offsets": [0, 12]}}).encode()
    with open(path + "/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header + bytes(12))
    r, code, err = report(path)
    case("a Hugging Face folder", code == 0 and r["family"] == "qwen3" and
         r["geometry"]["layers"] == 3 and r["geometry"]["head_dim"] == 32 and
         r["tokenizer"] is None and r["types"]["BF16"]["bytes"] == 12 and
         r["metadata"] == config, err or r)
    r, code, err = report(path + "/model.safetensors")
    case("a .safetensors file alone", code == 0 and r["family"] is None and
         r["format"] == "safetensors" and r["types"]["BF16"]["bytes"] == 12, err or r)
    for command in (("generate", "-p", "hi"), ("tokenize", "--text", "hi"), ("plan",)):
        code, out, err = run(command[0], path + "/model.safetensors", *command[1:])
        case(f"{command[0]} asks for its folder", code == 1 and out == "" and "folder" in err and
             err.count("\n") == 1, err)
    with open(path + "/tokenizer.json", "w") as f:
        json.dump({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}}}, f)
    r, code, err = report(path + "/tokenizer.json")
    case("a tokenizer alone", code == 0 and r["format"] == "tokenizer.json" and
         r["tokenizer"] == {"kind": "BPE", "pre": None, "tokens": 2}, err or r)


def test_hostile():
    with open("tests/data/hostile/expected.json") as f:
        expected = json.load(f)
    for name in sorted(glob.glob("*/*.*", root_dir="tests/data/hostile")):
        want = expected[name]["expect"]
        code, out, err = run("inspect", "tests/data/hostile/" + name, "--json")
        right = {"loads": [0], "error": [1], "either": [0, 1]}[want]
        case(name, code in right and (json.loads(out) if code == 0 else err.count("\n") == 1),
             f"status {code}, {err}")


def test_real():
    path = os.environ.get("INGOT_SMOLLM2")
    if not path:
        not_run("inspect SmolLM2", "no package registry")
        return
    r, code, err = report(path)
    case("SmolLM2", code == 0 and r["family"] == "llama" and r["geometry"]["layers"] == 30 and
         r["chat_template"] and 134e6 < r["parameters"] < 164e6, err or r)


def test_folder_of_gguf(folder):
    inner = os.path.join(folder, "only-gguf")
    os.mkdir(inner)
    code, out, err = run("inspect", inner)
    case("a folder with nothing", code == 1 and inner in err and "did you mean" not in err, err)
    for name in ("b.gguf", "a.gguf", ".hidden.gguf"):
        gguf(os.path.join(inner, name), [])
    code, out, err = run("inspect", inner)
    case("a folder with GGUF files names one", code == 1 and
         f"did you mean {inner}/a.gguf? (2 .gguf" in err and err.count("\n") == 1, err)


with tempfile.TemporaryDirectory() as temporary:
    test_families(temporary)
    test_text_parts(temporary)
    test_values(temporary)
    test_folder(temporary)
    test_folder_of_gguf(temporary)
test_hostile()
test_real()
finish()

#include "cli/option_groups.h"

static const struct option output_rows[] = {
    OPT_FLAG("--verbose -v --timings --debug", NULL, "say more on stderr"),
    OPT_FLAG("--quiet -q", NULL, "results and errors only"),
};
const struct option_group output_options = OPTION_GROUP("output", "Output", output_rows);

static const struct option model_rows[] = {
    OPT_TEXT("--model -m", "MODEL", NULL,
             "the model, instead of the first argument: a .gguf file (first shard of a split) or "
             "a Hugging Face folder"),
    OPT_TEXT("--tokenizer", "PATH", NULL,
             "take the vocabulary from this tokenizer.json or GGUF file"),
};
const struct option_group model_options = OPTION_GROUP("model", "Model", model_rows);

static const struct option template_rows[] = {
    OPT_TEXT("--chat-template", "TEMPLATE", NULL,
             "use this Jinja template instead of the model's own"),
    OPT_TEXT("--chat-template-file", "FILE", NULL, "the same, read from a file"),
    OPT_TEXT("--chat-template-kwargs", "JSON", NULL,
             "an object of variables handed to the template"),
    OPT_FLAG("--enable-thinking --thinking", NULL,
             "ask the template for (or, with --no-, against) thinking"),
    OPT_FLAG("--parse-special", "off",
             "spellings of control tokens in message text become control tokens"),
};
const struct option_group template_options =
    OPTION_GROUP("template", "Chat template", template_rows);

static const struct option sampling_rows[] = {
    OPT_REAL("--temperature --temp", "X", NULL, 0, 100,
             "randomness, 0 takes the likeliest token (the model's own setting, else 0.8)"),
    OPT_INT("--top-k", "N", NULL, 0, 1000000,
            "keep the N likeliest tokens, 0 keeps all (the model's own, else 40)"),
    OPT_REAL_ABOVE("--top-p", "X", NULL, 0, 1,
                   "keep the likeliest tokens that sum up to X (the model's own, else 0.95)"),
    OPT_REAL("--min-p", "X", NULL, 0, 1,
             "drop tokens less likely than X times the likeliest (the model's own, else 0.05)"),
    OPT_REAL_ABOVE("--typical-p --typical", "X", NULL, 0, 1,
                   "keep locally typical tokens that sum up to X (1: off)"),
    OPT_REAL_ABOVE("--repetition-penalty --repeat-penalty", "X", NULL, 0, 2,
                   "divide the score of generated tokens by X (1: off)"),
    OPT_REAL("--presence-penalty", "X", NULL, -2, 2,
             "subtract X from the score of tokens already generated (0: off)"),
    OPT_REAL("--frequency-penalty", "X", NULL, -2, 2,
             "subtract X per earlier occurrence (0: off)"),
    OPT_INT("--penalty-window --repeat-last-n", "N", NULL, -1, 1e9,
            "how many generated tokens the penalties see: 0 switches them off, -1 is all (64)"),
    OPT_U64_OR("--seed", "N", "random|-1", NULL,
               "equal seeds give equal answers (random when not given)"),
    OPT_INT_OR("--max-tokens -n --predict --n-predict --max-new-tokens", "N", "-1", NULL, 1, 1e9,
               "end after N tokens (until the model stops or the context is full)"),
};
const struct option_group sampling_options = OPTION_GROUP("sampling", "Sampling", sampling_rows);

static const struct option answer_rows[] = {
    OPT_LIST("--logit-bias -l", "ID=B", "add B to the score of token ID (repeatable)"),
    OPT_LIST("--stop -r --reverse-prompt", "TEXT", "end before this text (repeatable)"),
    OPT_INT("--min-tokens", "N", "0", 0, 1e9, "no end token before N generated tokens"),
    OPT_FLAG("--ignore-eos", "off", "go on past the end token"),
};
const struct option_group answer_options = OPTION_GROUP("answer", "One answer", answer_rows);

static const struct option engine_rows[] = {
    OPT_INT("--context -c --ctx-size --ctx --context-window", "N", NULL, 0, 1e9,
            "tokens of prompt and answer together (the model's own, at most 32768; 0: the "
            "model's own in full)"),
    OPT_INT_OR("--batch-size -b -ub --ubatch-size", "N", "auto", "auto", 1, 1e6,
               "token budget of one pass, so the largest prompt chunk"),
    OPT_CHOICE("--cache-type-k -ctk", CACHE_TYPES, "f16", "format of cached keys"),
    OPT_CHOICE("--cache-type-v -ctv", CACHE_TYPES, "f16", "format of cached values"),
    OPT_SETS("--kv-type --kv-dtype --kv-cache-type", "TYPE", "cache-type-k cache-type-v",
             "both of them"),
    OPT_MIB("--cache", "auto|off", "auto",
            "host memory for displaced conversations, of all models (auto: 1/8 of what is free, at "
            "most 8 GiB)"),
    OPT_FLAG("--cache-prompt", "on",
             "take over what is known of a prompt; with --no-cache-prompt every prompt is "
             "read whole"),
    OPT_TEXT("--cache-dir", "FOLDER", NULL,
             "keep conversations in this folder, for after a restart; one process at a time"),
    OPT_MIB("--cache-dir-limit", NULL, "8192",
            "size of that folder at most, and of --session-dir; what is worth least goes first"),
    OPT_TEXT("--session-dir --slot-save-path", "FOLDER", NULL,
             "keep named sessions in this folder (--cache-dir's, if there is one)"),
    OPT_INT("--checkpoint-interval", "N", "256", 64, 1e6,
            "tokens between copies of recurrent state, rounded up to whole pages of 64"),
    OPT_FLAG("--exact --quality", "off",
             "f32 activations and cache, exact functions, fixed order of summation"),
    OPT_FLAG("--deterministic", "off",
             "equal bits whatever else is computed at the same time"),
    OPT_INT("--lookup", "N", "0", 0, 31,
            "guess up to N tokens from earlier text and check them in one pass: the same answer, "
            "sooner where it repeats (0: never)"),
    OPT_FLAG("--loop-guard", "off",
             "end an answer that says up to 256 tokens four times over and for 256 tokens"),
    OPT_TEXT("--script", "FILE", NULL,
             "replay these turns through the real sampler: a JSON array of raw texts"),
};
const struct option_group engine_options = OPTION_GROUP("engine", "Engine", engine_rows);

static const struct option device_rows[] = {
    OPT_TEXT("--device -dev --backend", "DEVICE", "auto", "where to compute: auto or cpu"),
    OPT_INT_OR("--threads -t --cpu-threads", "N", "auto", "auto", 1, 1024,
               "compute threads (auto: the physical cores that the process may use)"),
    OPT_FLAG("--mmap", "on",
             "map the model's files; with --no-mmap they are read into memory, and may change "
             "afterwards"),
    OPT_FLAG("--mlock", "off", "keep the model in memory, or fail with the limit named"),
};
const struct option_group device_options = OPTION_GROUP("devices", "Devices", device_rows);

static const struct option server_rows[] = {
    OPT_TEXT("--host", "ADDRESS", "127.0.0.1", "listen on this address, or on unix:PATH"),
    OPT_INT("--port", "N", "8080", 0, 65535, "listen on this port (0: any free one, printed)"),
    OPT_LIST("--api-key", "KEY",
             "demand this key (repeatable; open when none is given); 'KEY priority=N' gives its "
             "requests that priority, 0 to 9, and no higher"),
    OPT_TEXT("--api-keys --api-key-file", "FILE", NULL, "keys, one a line, written like --api-key"),
    OPT_LIST("--cors-origin --cors-origins", "ORIGIN",
             "let pages of this origin call the server (repeatable; none by default)"),
    OPT_TEXT("--model-name --alias -a", "NAME", NULL,
             "names in the API, the first is shown (from the file)"),
    OPT_TEXT("--models-dir", "FOLDER", NULL, "offer every model in this folder that can be served"),
    OPT_INT("--models-max", "N", "0", 0, 10000, "models loaded at once (0: what memory holds)"),
    OPT_FLAG("--models-autoload", "on", "load a model when a request names it"),
    OPT_REAL("--model-idle-unload --sleep-idle-seconds", "SECONDS", "0", 0, 1e9,
             "unload a model that nobody used for so long (0: never)"),
    OPT_FLAG("--strict-model", "off", "answer 404 to any other model name"),
    OPT_FLAG("--metrics-public", "off", "GET /metrics needs no key from other machines either"),
    OPT_INT_OR("--parallel -np --n-slots", "N", "auto", "auto", 1, 4096,
               "sequences computed together"),
    OPT_INT_OR("--admission-window", "MS", "auto", "auto", 0, 150,
               "at most: an idle server waits for requests that come together (0: never)"),
    OPT_INT("--concurrency --max-concurrent-requests --max-concurrent", "N", "64", 1, 100000,
            "admitted requests, beyond: 429"),
    OPT_INT("--max-connections", "N", "128", 1, 100000, "open connections, beyond: 503"),
    OPT_INT("--max-output-tokens", "N", "0", 0, 1e9, "refuse requests for more (0: none)"),
    OPT_REAL("--body-timeout --request-timeout-seconds", "SECONDS", "30", 0, 1e6,
             "to receive a request whole"),
    OPT_REAL("--request-timeout --timeout", "SECONDS", "0", 0, 1e6,
             "for a whole request (0: unlimited)"),
    OPT_REAL("--write-timeout", "SECONDS", "30", 0, 1e6,
             "a client that reads nothing for so long is cancelled"),
    OPT_REAL("--idle-timeout", "SECONDS", "900", 0, 1e6, "idle connections are closed"),
    OPT_REAL("--drain-timeout", "SECONDS", "30", 0, 1e6,
             "after SIGTERM running requests may finish"),
    OPT_REAL("--sse-ping-interval --sse-keepalive-seconds", "SECONDS", "10", -1, 1e6,
             "keep-alive frames in silent streams (-1: none)"),
    OPT_FLAG("--warmup", "on", "one pass before listening"),
    OPT_FLAG("--log-json --log-jsonl", "off", "one JSON object per log line"),
    OPT_TEXT("--log-file", "FILE", NULL, "append the log to this file"),
};
const struct option_group server_options = OPTION_GROUP("server", "Server", server_rows);

static const struct option foreign_rows[] = {
    OPT_IGNORED("--flash-attn -fa", NULL, "on|off|auto", "always the best path"),
    OPT_IGNORED("--jinja --cont-batching -cb --perf --no-perf --log-prefix --log-timestamps "
                "--reuse-port --escape -e --kv-unified --swa-full --repack --no-repack "
                "--op-offload --color --interactive-first --lazy-mode --no-host --paged-kv "
                "--batch --cuda-graphs --metrics --slots --chat",
                NULL, NULL, "built in"),
    OPT_IGNORED("--log-colors", NULL, "on|off|auto", "colour only on a terminal"),
    OPT_IGNORED("--scratch-context --cache-reuse --slot-prompt-similarity --defrag-thold "
                "--ctx-checkpoints --prefill-checkpoint-slots --numa --prio --poll --cpu-range "
                "--threads-batch -tb --threads-http --log-level --verbosity -lv",
                "VALUE", NULL, "decided by itself"),
    OPT_REFUSED("-s", "it is the seed in one program and the system prompt in another; write "
                      "--seed or --system"),
    OPT_REFUSED("--lora --lora-scaled", "adapters are not supported"),
    OPT_REFUSED("--context-shift --keep", "nothing of a prompt is dropped; a prompt that is too "
                                          "long is an error with both numbers"),
    OPT_REFUSED("-hf --hf-repo -hff -mu --model-url -cl --offline",
                "nothing is downloaded; fetch a model first, for example with hf download "
                "--local-dir DIR"),
    OPT_REFUSED("--draft-model -md --model-draft --mtp-model --assistant --draft-depth "
                "--draft-max --speculation --spec --spec-type --draft-logits",
                "this version drafts by --lookup only"),
    OPT_REFUSED("--grammar --grammar-file --json-schema -j -jf",
                "this version does not constrain answers"),
    OPT_REFUSED("--gpu-layers -ngl --n-gpu-layers --tensor-split -ts --split-mode -sm "
                "--override-tensor -ot --gpu-mem-util",
                "this version computes on the CPU"),
    OPT_REFUSED("--samplers --mirostat --mirostat-lr --mirostat-ent --dry-multiplier --dry-base "
                "--dry-allowed-length --dry-penalty-last-n --xtc-probability --xtc-threshold "
                "--top-nsigma --dynatemp-range --dynatemp-exp",
                "this sampler does not exist here"),
    OPT_REFUSED("--rope-scaling --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx "
                "--yarn-ext-factor --yarn-attn-factor --yarn-beta-fast --yarn-beta-slow "
                "--override-kv",
                "the model's own settings are used"),
    OPT_REFUSED("--tools --mcp-config --agent --ui-mcp-proxy",
                "the server runs no tools and proxies nothing"),
    OPT_REFUSED("--mmproj --image --image-model", "this version reads no images"),
    OPT_REFUSED("--rpc --workers --tensor-parallel --pipeline-parallel",
                "this version runs in one process"),
};
const struct option_group foreign_options = {
    "foreign", "Spellings of other programs", foreign_rows, ARRAY_SIZE(foreign_rows), true,
};

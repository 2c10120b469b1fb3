/* The names of tokenizer.ggml.pre and the expressions that the tokenizers of those names publish
 * in their tokenizer.json. */
#include "base/strbuf.h"
#include "text/tokenizer/tokenizer_spec.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"

#define QWEN2 CONTRACTIONS "|" LETTERS "|\\p{N}|" TAIL
#define LLAMA3 CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" TAIL
#define QWEN35                                                              \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"            \
                 "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define K2_HORIZON \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}\\x{200C}\\x{200D}]+|\\p{N}{1,3}|" TAIL

/* Words by case: upper-case and caseless characters, then lower-case and caseless ones. */
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define CASED(suffix)                                            \
    "[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]*[" LOWER "]+" suffix      \
    "|[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]+[" LOWER "]*" suffix
#define CASED_TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT4O CASED(CONTRACTIONS "?") "|\\p{N}{1,3}" CASED_TAIL
#define TEKKEN CASED("") "|\\p{N}" CASED_TAIL

#define KIMI_UPPER "[" UPPER "&&[^\\p{Han}]]"
#define KIMI_LOWER "[" LOWER "&&[^\\p{Han}]]"
#define KIMI_K2                                                                          \
    "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?" KIMI_UPPER "*" KIMI_LOWER "+" CONTRACTIONS "?"  \
    "|[^\\r\\n\\p{L}\\p{N}]?" KIMI_UPPER "+" KIMI_LOWER "*" CONTRACTIONS "?"             \
    "|\\p{N}{1,3}|" TAIL

#define BAILING                                                                  \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}"                \
    "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define SEED_CODER \
    CONTRACTIONS "|" LETTERS "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define EXAONE_MOE                                                                      \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}"  \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"

#define CJK "[一-龥\\x{3040}-ゟ゠-ヿ]+"
#define DEEPSEEK_WORDS                                                            \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"                       \
    "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*"     \
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* deepseek-llm lists the letters that have case. */
#define DEEPSEEK_LETTERS \
    "\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}" \
    "-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}" \
    "\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}" \
    "\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-" \
    "\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-" \
    "\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-" \
    "\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-" \
    "\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}" \
    "-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-" \
    "\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-" \
    "\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}" \
    "\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}" \
    "\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}" \
    "-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-" \
    "\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-" \
    "\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-" \
    "\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+"

#define STEP(expression) { { expression, sizeof(expression) - 1 }, false, SPLIT_ISOLATED }

static const struct pretokenizer_name known[] = {
    { "gpt-2 phi-2 mpt olmo jais trillion granite-docling gigachat exaone4 modern-bert a.x-4.0 "
      "mellum jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe",
      { STEP(PRETOKENIZER_GPT2) }, 1, false, false, false },
    { "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
      { STEP("\\p{N}"), STEP(PRETOKENIZER_GPT2) }, 2, false, false, false },
    { "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez", { STEP(QWEN2) }, 1, true, false, false },
    { "stablelm2 hunyuan solar-open grok-2", { STEP(QWEN2) }, 1, false, false, false },
    { "qwen35", { STEP(QWEN35) }, 1, true, false, false },
    { "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
      { STEP(LLAMA3) }, 1, false, true, true },
    { "glm4 glm5", { STEP(LLAMA3) }, 1, false, true, false },
    { "dbrx smaug-bpe chatglm-bpe", { STEP(LLAMA3) }, 1, false, false, false },
    { "minicpm5",
      { STEP("\\p{N}{1,3}"), STEP(CONTRACTIONS "|" LETTERS "|\\p{N}+|" TAIL) },
      2, false, true, false },
    { "k2-horizon", { STEP(K2_HORIZON) }, 1, false, false, false },
    { "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
      { STEP("\\p{N}{1,3}"), STEP(CJK), STEP(DEEPSEEK_WORDS) }, 3, false, false, false },
    { "deepseek-coder",
      { STEP("[\\r\\n]"), STEP("\\s?\\p{L}+"), STEP("\\s?\\p{P}+"),
        STEP("[一-龥ࠀ-一\\x{AC00}-\\x{D7FF}]+"), STEP("\\p{N}") },
      5, false, false, false },
    { "deepseek-llm",
      { STEP("[\\r\\n]"), STEP(DEEPSEEK_LETTERS),
        STEP("\\s?[!-/:-~！-／：-～‘-‟\\x{3000}-。]+"), STEP("\\s+$"),
        STEP("[一-龥ࠀ-一\\x{AC00}-\\x{D7FF}]+"), STEP("\\p{N}+") },
      6, false, false, false },
    { "gpt-4o o200k llama4 kanana2 talkie minimax-m2", { STEP(GPT4O) }, 1, false, false, false },
    { "granite-embed-multi-97m", { STEP(GPT4O) }, 1, false, true, false },
    { "tekken", { STEP(TEKKEN) }, 1, false, true, true },
    { "kimi-k2", { STEP(KIMI_K2) }, 1, false, false, false },
    { "laguna", { STEP("[^\\n]+|[\\n]+"), STEP(QWEN2) }, 2, false, false, false },
    { "bailingmoe bailingmoe2 llada-moe", { STEP(BAILING) }, 1, false, false, false },
    { "seed-coder", { STEP(SEED_CODER) }, 1, false, false, false },
    { "exaone-moe", { STEP(EXAONE_MOE) }, 1, false, false, false },
    { "falcon",
      { STEP("[\\p{P}\\$\\+<=>\\^~\\|`]+"), STEP(PRETOKENIZER_GPT2), STEP("[0-9][0-9][0-9]") },
      3, false, false, false },
    { "default",
      { STEP("[\\p{P}\\$\\+<=>\\^~\\|]+"), STEP(PRETOKENIZER_GPT2), STEP("\\p{N}+"),
        STEP("[0-9][0-9][0-9]") },
      4, false, false, false },
};

static bool lists(const char *names, struct str name)
{
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, " ");
        if (n == name.len && memcmp(p, name.ptr, n) == 0)
            return true;
        p += n;
        p += *p == ' ';
    }
    return false;
}

const struct pretokenizer_name *pretokenizer_find(struct str name)
{
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (lists(known[i].names, name))
            return &known[i];
    return NULL;
}

void pretokenizer_list_names(struct strbuf *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        const char *names = known[i].names;
        for (; *names; names++) {
            if (*names == ' ')
                strbuf_puts(out, ", ");
            else
                strbuf_putc(out, *names);
        }
        strbuf_puts(out, i + 1 < ARRAY_SIZE(known) ? ", " : "");
    }
}

#include "engine/state_fingerprint.h"

#include <string.h>

#include "base/strbuf.h"
#include "cpu/cpu_device.h"
#include "formats/model_source.h"
#include "tensor/kv_balance.h"

/* Raised when the layout of a page or slot changes. */
#define LAYOUT_VERSION 1
#define SAMPLE_BYTES 256
#define CONFIG_MOST (64u << 20)

/* FNV-1a. */
static void mix(uint64_t *h, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++)
        *h = (*h ^ p[i]) * 0x100000001b3u;
}

static void mix_number(uint64_t *h, int64_t number)
{
    mix(h, &number, sizeof(number));
}

static void mix_text(uint64_t *h, const char *text)
{
    mix(h, text, strlen(text) + 1);
}

static void mix_weights(uint64_t *h, const struct weight_file *f)
{
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct weight_tensor *t = &f->tensors[i];
        size_t n = MIN(t->n_bytes, SAMPLE_BYTES);
        mix(h, t->name.ptr, t->name.len);
        mix_number(h, (int64_t)t->type);
        mix_number(h, (int64_t)t->n_bytes);
        mix(h, t->bytes, n);
        mix(h, t->bytes + (t->n_bytes - n) / 2, n);
        mix(h, t->bytes + t->n_bytes - n, n);
    }
}

/* Of a GGUF all that stands before its tensors, of a folder its config.json. */
static void mix_config(uint64_t *h, const struct model_source *source)
{
    const struct weight_file *f = source->weights;
    if (source->gguf) {
        size_t n = f->parts[0].size;
        for (size_t i = 0; i < f->n_tensors; i++)
            if (f->tensors[i].part == 0)
                n = MIN(n, (size_t)(f->tensors[i].bytes - f->parts[0].bytes));
        mix(h, f->parts[0].bytes, n);
    } else if (source->hf && source->hf->config) {
        struct strbuf text;
        strbuf_init(&text, CONFIG_MOST);
        json_write(&text, source->hf->config);
        mix(h, text.ptr, text.len);
        strbuf_release(&text);
    }
}

static void mix_balance(uint64_t *h, const struct kv_balance *b)
{
    size_t bytes = b ? (size_t)b->n_heads * (size_t)b->dim * sizeof(float) : 0;
    if (bytes == 0)
        return;
    mix(h, b->shift, bytes);
    mix(h, b->gain, bytes);
}

static void mix_state(uint64_t *h, const struct engine_model *m)
{
    const struct state_layout *layout = &m->model->state;
    mix_text(h, m->model->family->name);
    mix_number(h, (int64_t)m->sizes.state.k_type);
    mix_number(h, (int64_t)m->sizes.state.v_type);
    mix_number(h, STATE_PAGE_TOKENS);
    for (int32_t i = 0; i < layout->n_pieces; i++) {
        const struct state_piece *p = &layout->piece[i];
        const int64_t numbers[] = { p->kind,  p->layer,  p->n_kv_heads, p->k_dim,
                                    p->v_dim, p->window, p->fixed_bytes };
        mix_text(h, p->name);
        mix(h, numbers, sizeof(numbers));
        mix_balance(h, m->pool->kv[i].balance);
    }
}

uint64_t state_fingerprint(const struct engine_model *m)
{
    const struct engine *e = m->engine;
    uint64_t h = 0xcbf29ce484222325u;
    mix_number(&h, LAYOUT_VERSION);
    mix_text(&h, e->dev->name);
    mix_text(&h, cpu_device_isa(e->dev));
    mix_number(&h, e->options.exact);
    mix_number(&h, e->options.deterministic);
    mix_state(&h, m);
    mix_config(&h, m->source);
    mix_weights(&h, m->source->weights);
    return h;
}

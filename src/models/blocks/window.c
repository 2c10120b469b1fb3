#include "models/blocks/window.h"

/* layer_types of config.json. */
static enum status from_layer_types(int32_t *window, const struct hparams *h,
                                    const struct model_source *s, int32_t size,
                                    struct arena *arena, struct error *err)
{
    struct str *type = arena_array(arena, struct str, (size_t)h->n_layers);
    TRY(config_get_str_each(&s->config, NULL, "layer_types", type, (size_t)h->n_layers, err));
    for (int32_t i = 0; i < h->n_layers; i++) {
        if (!str_is(type[i], "sliding_attention") && !str_is(type[i], "full_attention"))
            return error_set(err, STATUS_UNSUPPORTED,
                             "layer_types: layer %d: expected sliding_attention or full_attention, "
                             "found %.*s", i, STR_ARG(type[i]));
        window[i] = str_is(type[i], "sliding_attention") ? size : 0;
    }
    return STATUS_OK;
}

enum status window_read_qwen(int32_t **out, const struct hparams *h, const struct model_source *s,
                             struct arena *arena, struct error *err)
{
    const struct config_source *c = &s->config;
    int32_t *window = *out = arena_array(arena, int32_t, (size_t)h->n_layers);
    bool use;
    int32_t size, full_layers;
    TRY(config_get_bool_or(c, NULL, "use_sliding_window", false, &use, err));
    if (!use)
        return STATUS_OK;
    TRY(config_get_i32_or(c, NULL, "sliding_window", 1, INT32_MAX, 4096, &size, err));
    if (config_has(c, NULL, "layer_types"))
        return from_layer_types(window, h, s, size, arena, err);
    TRY(config_get_i32_or(c, NULL, "max_window_layers", 0, INT32_MAX, 28, &full_layers, err));
    for (int32_t i = full_layers; i < h->n_layers; i++)
        window[i] = size;
    return STATUS_OK;
}

enum status window_read_gemma(int32_t **out, const struct hparams *h, const struct model_source *s,
                              int32_t default_window, struct arena *arena, struct error *err)
{
    static const char gguf_pattern[] = "attention.sliding_window_pattern";
    static const char hf_pattern[] = "sliding_window_pattern|_sliding_window_pattern";
    const struct config_source *c = &s->config;
    int32_t *window = *out = arena_array(arena, int32_t, (size_t)h->n_layers);
    int32_t size, period;
    /* A GGUF without the key has no window; config.json without it has the class's. */
    TRY(config_get_i32_or(c, "attention.sliding_window", "sliding_window", 0, INT32_MAX,
                          h->gguf ? 0 : default_window, &size, err));
    if (size == 0)
        return STATUS_OK;
    if (config_has(c, NULL, "layer_types"))
        return from_layer_types(window, h, s, size, arena, err);
    size_t n = 1;
    if (config_has(c, gguf_pattern, hf_pattern))
        TRY(config_count(c, gguf_pattern, hf_pattern, &n, err));
    if (n > 1) {
        bool *slides = arena_array(arena, bool, (size_t)h->n_layers);
        TRY(config_get_bool_each(c, gguf_pattern, NULL, slides, (size_t)h->n_layers, err));
        for (int32_t i = 0; i < h->n_layers; i++)
            window[i] = slides[i] ? size : 0;
        return STATUS_OK;
    }
    TRY(config_get_i32_or(c, gguf_pattern, hf_pattern, 1, INT32_MAX, 6, &period, err));
    for (int32_t i = 0; i < h->n_layers; i++)
        window[i] = (i + 1) % period ? size : 0;
    return STATUS_OK;
}

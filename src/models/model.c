#include "models/family.h"

#include "base/mem.h"
#include "models/weight_set.h"

static enum status open_as(const struct model_source *source, const struct model_family *family,
                           struct model **out, struct error *err)
{
    if (!family)
        TRY(model_family_find(source, &family, err));
    struct model *m = mem_new(struct model);
    m->family = family;
    arena_init(&m->arena, 0);
    enum status s = family->read_config(m, source, err);
    if (s != STATUS_OK) {
        model_free(m);
        return s;
    }
    *out = m;
    return STATUS_OK;
}

enum status model_open_config(const struct model_source *source, struct model **out,
                              struct error *err)
{
    return open_as(source, NULL, out, err);
}

/* Binds all weights; in a planning set nothing becomes resident. */
static enum status bind(struct weight_set *set, struct error *err)
{
    TRY(set->model->family->bind(set->model, set, err));
    return weight_set_finish(set, err);
}

enum status model_load(const struct model_source *source, const struct model_family *family,
                       struct device *dev, struct model **out,
                       const struct model_progress *progress, struct error *err)
{
    struct model *m;
    struct weight_set set;
    TRY(open_as(source, family, &m, err));
    m->dev = dev;
    enum status s = weight_set_init(&set, source, m, dev, err);
    set.progress = progress;
    if (s == STATUS_OK)
        s = bind(&set, err);
    weight_set_release(&set);
    if (s != STATUS_OK) {
        model_free(m);
        return s;
    }
    *out = m;
    return STATUS_OK;
}

void model_free(struct model *m)
{
    if (!m)
        return;
    for (int32_t i = 0; i < m->n_weights; i++)
        if (m->weights[i]->dev)
            m->weights[i]->dev->ops->weight_release(m->weights[i]->dev, m->weights[i]);
    arena_release(&m->arena);
    mem_free(m);
}

enum status model_plan_bytes(const struct model_source *source, const struct model_family *family,
                             struct device *dev, int64_t *weight_bytes, int64_t *mapped_bytes,
                             struct error *err)
{
    struct model *m;
    struct weight_set set;
    TRY(open_as(source, family, &m, err));
    enum status s = weight_set_init(&set, source, m, dev, err);
    set.plan = true;
    if (s == STATUS_OK)
        s = bind(&set, err);
    *weight_bytes = set.planned_bytes;
    *mapped_bytes = set.mapped_bytes;
    weight_set_release(&set);
    model_free(m);
    return s;
}

#include "engine/prefix_order.h"

#include "base/mem.h"
#include "engine/prefix_tree.h"

void prefix_order_init(struct prefix_order *o, enum prefix_order_kind kind, bool deepest_first)
{
    *o = (struct prefix_order){ .kind = kind, .deepest_first = deepest_first };
}

void prefix_order_release(struct prefix_order *o)
{
    CHECK(o->n == 0);
    mem_free(o->heap);
    *o = (struct prefix_order){ 0 };
}

static bool before(const struct prefix_order *o, const struct prefix_place *a,
                   const struct prefix_place *b)
{
    if (a->rank < b->rank || b->rank < a->rank)
        return a->rank < b->rank;
    return o->deepest_first ? a->level > b->level : a->level < b->level;
}

static void stand(struct prefix_order *o, int32_t i, struct prefix_place place)
{
    o->heap[i] = place;
    place.node->place[o->kind] = i + 1;
}

/* Puts it at i or wherever it belongs above or below. */
static void settle(struct prefix_order *o, int32_t i, struct prefix_place place)
{
    while (i > 0 && before(o, &place, &o->heap[(i - 1) / 2])) {
        stand(o, i, o->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    for (int32_t child = 2 * i + 1; child < o->n; child = 2 * i + 1) {
        if (child + 1 < o->n && before(o, &o->heap[child + 1], &o->heap[child]))
            child++;
        if (!before(o, &o->heap[child], &place))
            break;
        stand(o, i, o->heap[child]);
        i = child;
    }
    stand(o, i, place);
}

void prefix_order_put(struct prefix_order *o, struct prefix_node *n, double rank)
{
    int32_t i = n->place[o->kind] - 1;
    if (i < 0) {
        mem_reserve((void **)&o->heap, &o->capacity, (size_t)o->n + 1, sizeof *o->heap);
        i = o->n++;
    }
    settle(o, i, (struct prefix_place){ rank, n->level, n });
}

void prefix_order_drop(struct prefix_order *o, struct prefix_node *n)
{
    int32_t i = n->place[o->kind] - 1;
    if (i < 0)
        return;
    n->place[o->kind] = 0;
    if (i != --o->n)
        settle(o, i, o->heap[o->n]);
}

struct prefix_node *prefix_order_first(const struct prefix_order *o)
{
    return o->n > 0 ? o->heap[0].node : NULL;
}

/* prefix_order: nodes of the prefix tree in the order of what they are worth, the least first.
 *
 * A binary heap whose nodes know where they stand, so that one of a hundred thousand moves or
 * leaves as fast as one of a few. Of equal worth the deepest comes first, or the highest.
 * Ownership: nodes are borrowed and must leave before they end. Threads: the engine thread. */
#ifndef ENGINE_PREFIX_ORDER_H
#define ENGINE_PREFIX_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prefix_node; /* engine/prefix_tree.h */

enum prefix_order_kind {
    PREFIX_ORDER_PAGES,   /* have a page on the device */
    PREFIX_ORDER_SLIDING, /* have one of a sliding window */
    PREFIX_ORDER_HOST,    /* have something in host memory */
    PREFIX_ORDERS,
};

struct prefix_order {
    struct prefix_place {
        double rank;
        int32_t level;
        struct prefix_node *node;
    } *heap; /* [n] */
    size_t capacity;
    int32_t n;
    enum prefix_order_kind kind;
    bool deepest_first;
};

void prefix_order_init(struct prefix_order *o, enum prefix_order_kind kind, bool deepest_first);
void prefix_order_release(struct prefix_order *o);
void prefix_order_put(struct prefix_order *o, struct prefix_node *n, double rank); /* or moves */
void prefix_order_drop(struct prefix_order *o, struct prefix_node *n); /* it need not be there */
struct prefix_node *prefix_order_first(const struct prefix_order *o);  /* NULL: there is none */

#endif

/* op_kernels: one entry per op of ops.h, as a device implements it. Shapes are checked already.
 * Entries marked optional may be NULL: ops.c composes them from the others. The products and
 * attention are called in measuring steps too, where they take their scratch and return. */
#ifndef TENSOR_OP_KERNELS_H
#define TENSOR_OP_KERNELS_H

#include "tensor/ops.h"

struct op_kernels {
    enum status (*embed)(struct step *, struct tensor *, const struct weight *, const int32_t *,
                         float);
    enum status (*rms_norm)(struct step *, struct tensor *, const struct tensor *,
                            const struct weight *, float);
    enum status (*linear)(struct step *, struct tensor *, const struct tensor *,
                          const struct weight *, const struct linear_options *);
    enum status (*linear_group)(struct step *, const struct tensor *, int,
                                const struct linear_item *,
                                const struct norm_before *); /* optional */
    enum status (*linear_glu)(struct step *, struct tensor *, const struct tensor *,
                              const struct weight *, const struct weight *, enum activation,
                              const struct norm_before *); /* optional */
    enum status (*rope)(struct step *, struct tensor *, const struct rope *);
    enum status (*kv_append)(struct step *, const struct kv_layer *, const struct tensor *,
                             const struct tensor *);
    enum status (*attention)(struct step *, struct tensor *, const struct tensor *,
                             const struct kv_layer *, const struct attention_options *);
    enum status (*causal_conv)(struct step *, struct tensor *, const struct tensor *,
                               const struct causal_conv *);
    enum status (*delta_net)(struct step *, struct tensor *, const struct delta_net *);
    enum status (*add)(struct step *, struct tensor *, const struct tensor *);
    enum status (*multiply)(struct step *, struct tensor *, const struct tensor *);
    enum status (*scale)(struct step *, struct tensor *, float);
    enum status (*softcap)(struct step *, struct tensor *, float);
    enum status (*activate)(struct step *, struct tensor *, enum activation);
    enum status (*select_rows)(struct step *, struct tensor *, const struct tensor *,
                               const int32_t *, int32_t);
};

#endif

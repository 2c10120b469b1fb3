/* jinja_filters: the filters of sequences and numbers, for the table in jinja_filters.c. */
#ifndef TEXT_JINJA_FILTERS_H
#define TEXT_JINJA_FILTERS_H

#include "text/template/jinja_library.h"

#define JINJA_SEQUENCE_FILTERS(X)                                                             \
    X(filter_batch) X(filter_dict_sort) X(filter_first) X(filter_group_by) X(filter_items)    \
    X(filter_join) X(filter_last) X(filter_length) X(filter_list) X(filter_max) X(filter_min) \
    X(filter_random) X(filter_reverse) X(filter_slice) X(filter_sort) X(filter_sum)           \
    X(filter_unique)
#define JINJA_FILTER_DECLARE(name) struct jv name(struct jinja *r, struct jv self, struct jv *arg);
JINJA_SEQUENCE_FILTERS(JINJA_FILTER_DECLARE)
#define JINJA_NUMBER_FILTERS(X) \
    X(filter_abs) X(filter_int) X(filter_float) X(filter_round) X(filter_file_size)
JINJA_NUMBER_FILTERS(JINJA_FILTER_DECLARE)
#undef JINJA_FILTER_DECLARE

struct jv filter_map(struct jinja *r, struct jv self, const struct jargs *args);
struct jv filter_select(struct jinja *r, struct jv self, const struct jargs *args);
struct jv filter_reject(struct jinja *r, struct jv self, const struct jargs *args);
struct jv filter_select_attr(struct jinja *r, struct jv self, const struct jargs *args);
struct jv filter_reject_attr(struct jinja *r, struct jv self, const struct jargs *args);

#endif

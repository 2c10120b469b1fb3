/* jinja_methods: the methods of strings, for the look-up in jinja_methods.c. */
#ifndef TEXT_JINJA_METHODS_H
#define TEXT_JINJA_METHODS_H

#include "text/template/jinja_library.h"

const struct jinja_callable *jinja_string_method_find(struct str name);

/* jinja_string_classes.c */
#define JINJA_CLASS_METHODS(X) \
    X(method_is_alpha) X(method_is_digit) X(method_is_decimal) X(method_is_numeric) \
    X(method_is_alnum) X(method_is_space) X(method_is_printable) X(method_is_ascii) \
    X(method_is_upper) X(method_is_lower) X(method_is_title) X(method_is_identifier)
#define JINJA_METHOD_DECLARE(name) struct jv name(struct jinja *r, struct jv self, struct jv *arg);
JINJA_CLASS_METHODS(JINJA_METHOD_DECLARE)
#undef JINJA_METHOD_DECLARE

#endif

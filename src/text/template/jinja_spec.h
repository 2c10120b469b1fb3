/* jinja_spec: format specifications, as "%..." and "{:...}" share them. */
#ifndef TEXT_JINJA_SPEC_H
#define TEXT_JINJA_SPEC_H

#include "text/template/jinja_library.h"

struct jspec {
    uint32_t fill; /* 0: not given */
    char align, sign, grouping, type;
    bool alternate, zero;
    int width, precision; /* -1: not given */
};

/* A VALUE failure: the reason, and the type character unless it is 0. */
struct jv jspec_fault(struct jinja *r, const char *why, char type);
/* Append the value; NONE, or the failure. */
struct jv jspec_integer(struct jbuild *b, const struct jspec *spec, struct jv v);
struct jv jspec_float(struct jbuild *b, const struct jspec *spec, double f);
struct jv jspec_text(struct jbuild *b, const struct jspec *spec, struct jstr *s);

#endif

/* jinja_methods: the methods of strings, for the look-up in jinja_methods.c. */
#ifndef TEXT_JINJA_METHODS_H
#define TEXT_JINJA_METHODS_H

#include "text/template/jinja_library.h"

const struct jinja_callable *jinja_string_method_find(struct str name);

#endif

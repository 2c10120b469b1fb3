/* jinja_ast: the compiled form of a template. Immutable once jinja_compile() returned it, so
 * that threads may share it; everything lives in the template's arena. */
#ifndef TEXT_JINJA_AST_H
#define TEXT_JINJA_AST_H

#include "base/strmap.h"
#include "text/template/jinja_value.h"

enum jnode_type {
    /* expressions */
    JN_CONST,    /* value */
    JN_NAME,     /* symbol */
    JN_LIST,     /* kids */
    JN_TUPLE,    /* kids */
    JN_DICT,     /* kids: key, value, key, value, ... */
    JN_ATTR,     /* a . value.s */
    JN_ITEM,     /* a [ b ] */
    JN_SLICE,    /* a [ kids[0] : kids[1] : kids[2] ], absent ones NULL */
    JN_CALL,     /* a ( arguments ) */
    JN_FILTER,   /* a | entry ( arguments ); a is NULL in a filter block */
    JN_TEST,     /* a is entry ( arguments ) */
    JN_NOT,      /* not a */
    JN_NEGATIVE, /* - a */
    JN_POSITIVE, /* + a */
    JN_ARITH,    /* kids[0] op kids[1] op kids[2] ..., left to right, same precedence */
    JN_COMPARE,  /* the same, chained as in Python */
    JN_AND,      /* a and b */
    JN_OR,       /* a or b */
    JN_IF_ELSE,  /* a if b else c; c may be NULL */
    JN_CONCAT,   /* kids[0] ~ kids[1] ~ ... */
    /* statements */
    JN_TEXT,       /* value */
    JN_PRINT,      /* a */
    JN_BODY,       /* kids */
    JN_IF,         /* if a: b, else c (a JN_IF for elif) */
    JN_FOR,        /* target a in b [if c]: kids[0], else kids[1]; op: enum jfor_flags */
    JN_SET,        /* target a = b */
    JN_SET_BLOCK,  /* target a = filters b of the output of c */
    JN_MACRO,      /* symbol, parameters, body a */
    JN_CALL_BLOCK, /* call a with the caller b (a JN_MACRO) */
    JN_FILTER_BLOCK, /* filters a of the output of b */
    JN_WITH,       /* kids: target, value, ...; body a */
    JN_SCOPE,      /* body a in its own scope */
    JN_BLOCK,      /* symbol, body a; op: scoped */
    JN_AUTOESCAPE, /* a: body b */
    JN_LOADER,     /* include, import, from, extends: refused when reached */
    JN_BREAK,
    JN_CONTINUE,
    JN_NAMESPACE_TARGET, /* symbol . value.s, on the left of set */
};

enum jfor_flags {
    JFOR_RECURSIVE = 1,
    /* The body is one `if` whose condition cannot change while it is false: the first time it
     * is, the rest of the loop does nothing. Templates search backwards in this way. */
    JFOR_ENDS_WHEN_FALSE = 2,
};

enum jop {
    JOP_ADD, JOP_SUB, JOP_MUL, JOP_DIV, JOP_FLOOR_DIV, JOP_MOD, JOP_POW,
    JOP_EQ, JOP_NE, JOP_LT, JOP_LE, JOP_GT, JOP_GE, JOP_IN, JOP_NOT_IN,
};

struct jarguments {
    struct jnode **values; /* positional ones first, then the keywords' */
    struct jstr **names;   /* of the keyword ones */
    uint32_t n_positional, n_keywords;
    struct jnode *star, *star_star; /* *a, **b or NULL */
};

struct jparameters {
    uint32_t *symbols;
    struct jstr **names;
    struct jnode **defaults; /* NULL where there is none */
    uint32_t n;
    bool uses_varargs, uses_kwargs, uses_caller;
};

struct jnode {
    uint8_t type, op;
    uint32_t line, symbol, n;
    struct jnode *a, *b, *c;
    struct jnode **kids;
    uint8_t *ops; /* n - 1 operators of ARITH and COMPARE */
    struct jv value;
    const struct jinja_callable *entry; /* of FILTER and TEST; NULL: unknown */
    struct jarguments *arguments;
    struct jparameters *parameters;
};

struct jinja_template {
    struct arena arena;
    struct str source; /* newlines as \n */
    struct jnode *body;
    struct strmap symbol_map; /* variable name to symbol */
    struct jstr **symbols;
    size_t n_symbols, symbol_capacity;
    struct jnode **blocks; /* by name, for self.NAME() */
    size_t n_blocks, block_capacity;
};

/* Well-known names, interned first so that their symbols are constants. */
#define JINJA_FIXED_SYMBOLS(X) \
    X(LOOP, "loop") X(SELF, "self") X(CALLER, "caller") X(VARARGS, "varargs") X(KWARGS, "kwargs")
enum {
#define JINJA_SYMBOL_ENUM(id, name) JINJA_SYMBOL_##id,
    JINJA_FIXED_SYMBOLS(JINJA_SYMBOL_ENUM)
#undef JINJA_SYMBOL_ENUM
};

#endif

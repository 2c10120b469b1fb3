/* jinja_lex: template text to tokens, white-space control included.
 *
 * The token array and decoded strings live in the arena; names and numbers point into the source,
 * whose newlines must be \n already. */
#ifndef TEXT_JINJA_LEX_H
#define TEXT_JINJA_LEX_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

/* id, what error messages call it */
#define JINJA_TOKENS(X)                                                                     \
    X(EOF, "end of template") X(TEXT, "template data text") X(PRINT, "begin of print statement") \
    X(PRINT_END, "end of print statement") X(TAG, "begin of statement block")               \
    X(TAG_END, "end of statement block") X(NAME, "name") X(INTEGER, "integer")              \
    X(FLOAT, "float") X(STRING, "string") X(ADD, "+") X(SUB, "-") X(MUL, "*") X(DIV, "/")   \
    X(FLOOR_DIV, "//") X(POW, "**") X(MOD, "%") X(TILDE, "~") X(LEFT_BRACKET, "[")          \
    X(RIGHT_BRACKET, "]") X(LEFT_PAREN, "(") X(RIGHT_PAREN, ")") X(LEFT_BRACE, "{")         \
    X(RIGHT_BRACE, "}") X(EQ, "==") X(NE, "!=") X(GT, ">") X(GE, ">=") X(LT, "<")           \
    X(LE, "<=") X(ASSIGN, "=") X(DOT, ".") X(COLON, ":") X(PIPE, "|") X(COMMA, ",")         \
    X(SEMICOLON, ";")

enum jtoken_type {
#define JINJA_TOKEN_ENUM(id, text) JT_##id,
    JINJA_TOKENS(JINJA_TOKEN_ENUM)
#undef JINJA_TOKEN_ENUM
};

#define JINJA_LEX_MAX_BRACKETS 400

struct jtoken {
    enum jtoken_type type;
    uint32_t line;
    struct str text; /* decoded for STRING */
};

const char *jtoken_name(enum jtoken_type type);

struct jtokens {
    struct jtoken *items;
    size_t n, capacity;
};

MUST_CHECK enum status jinja_lex(struct arena *a, struct str source, struct jtokens *out,
                                 struct error *err);
/* A copy with \r\n and \r as \n and without one final newline. */
struct str jinja_normalize(struct arena *a, struct str source);

#endif

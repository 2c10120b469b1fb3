/* pass_cost: how long a forward pass of n rows takes on this machine, measured as it goes.
 *
 * One running mean per power of two of rows; between them a straight line. Decides only how much
 * is computed at once (prompt chunks, drafts), never what comes out. Threads: the engine thread. */
#ifndef ENGINE_PASS_COST_H
#define ENGINE_PASS_COST_H

#include <stdint.h>

#define PASS_COST_SIZES 16

struct pass_cost {
    struct pass_cost_point {
        double rows, seconds; /* running means; 0: nothing measured */
    } point[PASS_COST_SIZES];
};

void pass_cost_note(struct pass_cost *c, int32_t rows, double seconds);
/* 0 while nothing is known. Beyond what was measured a pass grows with its rows. */
double pass_cost_seconds(const struct pass_cost *c, double rows);

#endif

#include "engine/pass_cost.h"

#include <stddef.h>

/* Weight of a new measurement. */
#define FRESHNESS 0.125
/* One pass in a stall of the machine says nothing about the next. */
#define STALL 4.0

static int size_class(int32_t rows)
{
    int class = 0;
    while (class < PASS_COST_SIZES - 1 && rows > 1) {
        rows = (rows + 1) / 2;
        class++;
    }
    return class;
}

void pass_cost_note(struct pass_cost *c, int32_t rows, double seconds)
{
    struct pass_cost_point *p = &c->point[size_class(rows)];
    if (p->rows == 0) {
        *p = (struct pass_cost_point){ rows, seconds };
        return;
    }
    if (seconds > STALL * p->seconds)
        seconds = STALL * p->seconds;
    p->rows += FRESHNESS * (rows - p->rows);
    p->seconds += FRESHNESS * (seconds - p->seconds);
}

double pass_cost_seconds(const struct pass_cost *c, double rows)
{
    const struct pass_cost_point *below = NULL, *above = NULL;
    for (int i = 0; i < PASS_COST_SIZES; i++) {
        const struct pass_cost_point *p = &c->point[i];
        if (p->rows == 0)
            continue;
        if (p->rows <= rows)
            below = p;
        else if (!above)
            above = p;
    }
    if (!below)
        return above ? above->seconds : 0;
    if (!above)
        return below->seconds * rows / below->rows;
    double part = (rows - below->rows) / (above->rows - below->rows);
    double seconds = below->seconds + part * (above->seconds - below->seconds);
    return seconds > 0 ? seconds : below->seconds;
}

#include "engine/admission_window.h"

#include "base/compiler.h"

#define MS 1e6
#define PROBE_LEAST (0.25 * MS)
#define PROBE_MOST (3 * MS)
#define QUIET_LEAST (1 * MS)
#define QUIET_MOST (12 * MS)
#define BURST_FEWEST 1.5 /* below this mean requests come alone */
#define NEW_SHARE 0.25   /* of what was seen last in the means */

void admission_window_init(struct admission_window *w, int32_t most_ms, int32_t n_seats)
{
    *w = (struct admission_window){
        .most_ns = (uint64_t)(MAX(most_ms, 0) * MS),
        .n_seats = n_seats,
        .burst = 1,
    };
}

static double clamp(double value, double least, double most)
{
    return MIN(MAX(value, least), most);
}

static void learn(double *mean, double seen)
{
    *mean += NEW_SHARE * (seen - *mean);
}

static void end_burst(struct admission_window *w)
{
    if (w->n > 0)
        learn(&w->burst, w->n);
    w->n = 0;
}

void admission_window_rest(struct admission_window *w)
{
    end_burst(w);
    w->idle = true;
}

void admission_window_arrive(struct admission_window *w, uint64_t now_ns)
{
    double gap = (double)(now_ns - w->last_ns);
    if (w->idle)
        w->first_ns = now_ns;
    else if (w->n > 0 && gap <= QUIET_MOST)
        learn(&w->gap_ns, gap);
    else
        end_burst(w);
    w->n += w->idle || w->n > 0;
    w->last_ns = now_ns;
    w->idle = false;
}

uint64_t admission_window_left(const struct admission_window *w, uint64_t now_ns)
{
    if (w->most_ns == 0 || w->n == 0 || w->n >= w->n_seats)
        return 0;
    double most = (double)w->most_ns;
    double expected = w->burst < BURST_FEWEST ? 0 : 2 * w->gap_ns;
    double probe = clamp(expected, PROBE_LEAST, PROBE_MOST);
    double quiet = clamp(3 * w->gap_ns, QUIET_LEAST, QUIET_MOST);
    double hard = MIN(MIN(6, 2 + w->n_seats / 8) * quiet, most);
    double passed = (double)(now_ns - w->first_ns);
    double wanted = w->n == 1 ? probe : (double)(w->last_ns - w->first_ns) + quiet;
    double end = MIN(wanted, hard);
    return end > passed ? (uint64_t)(end - passed) : 0;
}

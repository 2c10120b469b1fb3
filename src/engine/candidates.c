#include "engine/candidates.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "cpu/logit_scan.h"

#define N_BINS 4096
/* A larger set is not sorted: its nucleus is narrowed down by histograms first. */
#define SORT_LIMIT 1024
/* Keys further than this below the best share the last bin. */
#define BIN_RANGE 40.0f

static void list_init(struct candidate_list *l, size_t n)
{
    l->value = mem_array(float, n);
    l->id = mem_array(int32_t, n);
    l->key = mem_array(float, n);
}

static void list_release(struct candidate_list *l)
{
    mem_free(l->value);
    mem_free(l->id);
    mem_free(l->key);
}

void candidates_init(struct candidates *c, int32_t capacity)
{
    size_t n = (size_t)MAX(capacity, 1);
    *c = (struct candidates){ .capacity = capacity };
    list_init(&c->set, n);
    list_init(&c->work, n);
    c->mass = mem_array(double, MAX(N_BINS, n / LOGIT_BLOCK + 1));
}

void candidates_release(struct candidates *c)
{
    list_release(&c->set);
    list_release(&c->work);
    mem_free(c->mass);
    *c = (struct candidates){ 0 };
}

float logits_maximum(const float *logits, int32_t n, bool *has_nan)
{
    return logit_scan_best()->maximum(logits, n, has_nan);
}

double logits_exp_sum(const float *logits, int32_t n, float maximum)
{
    return logit_scan_best()->mass(logits, n, maximum, 1.0f);
}

static bool better(const struct candidate_list *l, int32_t a, int32_t b)
{
    return l->key[a] > l->key[b] || (l->key[a] == l->key[b] && l->id[a] < l->id[b]);
}

static void list_move(struct candidate_list *to, int32_t t, const struct candidate_list *from,
                      int32_t f)
{
    to->value[t] = from->value[f];
    to->id[t] = from->id[f];
    to->key[t] = from->key[f];
}

static void swap(struct candidate_list *l, int32_t a, int32_t b)
{
    float value = l->value[a], key = l->key[a];
    int32_t id = l->id[a];
    list_move(l, a, l, b);
    l->value[b] = value;
    l->id[b] = id;
    l->key[b] = key;
}

/* Reorders [0, n) so that the best k come first: quickselect with the middle of three. */
static void select_best(struct candidate_list *l, int32_t n, int32_t k)
{
    int32_t low = 0, high = n - 1;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (better(l, middle, low))
            swap(l, middle, low);
        if (better(l, high, low))
            swap(l, high, low);
        if (better(l, high, middle))
            swap(l, high, middle);
        float pivot = l->key[middle];
        int32_t pivot_id = l->id[middle], i = low, j = high;
        while (i <= j) {
            while (l->key[i] > pivot || (l->key[i] == pivot && l->id[i] < pivot_id))
                i++;
            while (l->key[j] < pivot || (l->key[j] == pivot && l->id[j] > pivot_id))
                j--;
            if (i <= j)
                swap(l, i++, j--);
        }
        if (k - 1 <= j)
            high = j;
        else if (k - 1 >= i)
            low = i;
        else
            return;
    }
}

static void sift_down(struct candidate_list *l, int32_t from, int32_t root, int32_t n)
{
    for (;;) {
        int32_t child = 2 * root + 1;
        if (child >= n)
            return;
        if (child + 1 < n && better(l, from + child, from + child + 1))
            child++;
        if (!better(l, from + root, from + child))
            return;
        swap(l, from + root, from + child);
        root = child;
    }
}

/* Sorts [from, from + n) best first. A heap: no recursion and no bad case. */
static void sort_best_first(struct candidate_list *l, int32_t from, int32_t n)
{
    for (int32_t root = n / 2 - 1; root >= 0; root--)
        sift_down(l, from, root, n);
    for (int32_t last = n - 1; last > 0; last--) {
        swap(l, from, from + last);
        sift_down(l, from, 0, last);
    }
}

static float lowest_key(const struct candidate_list *l, int32_t n)
{
    float low = l->key[0];
    for (int32_t i = 1; i < n; i++)
        low = l->key[i] < low ? l->key[i] : low;
    return low;
}

void candidates_select(struct candidates *c, const float *logits, int32_t n, int32_t k)
{
    /* Ids rise while scanning, so a later logit that only equals the k-th best never wins. The
     * set is cut back to k whenever it has grown to `room`. */
    int32_t room = k < c->capacity / 2 ? MIN(c->capacity, MAX(2 * k, LOGIT_BLOCK)) : c->capacity;
    const struct logit_scan *scan = logit_scan_best();
    float threshold = -INFINITY;
    c->n = 0;
    for (int32_t i = scan->next_above(logits, 0, n, threshold); i < n;
         i = scan->next_above(logits, i + LOGIT_LANES, n, threshold)) {
        int32_t width = MIN(LOGIT_LANES, n - i);
        if (c->n + width > room) {
            select_best(&c->set, c->n, k);
            c->n = k;
            threshold = lowest_key(&c->set, k);
        }
        for (int32_t j = i; j < i + width; j++)
            if (logits[j] > threshold) {
                c->set.value[c->n] = c->set.key[c->n] = logits[j];
                c->set.id[c->n++] = j;
            }
    }
    if (c->n > k) {
        select_best(&c->set, c->n, k);
        c->n = k;
    }
    sort_best_first(&c->set, 0, c->n);
    c->maximum = c->n > 0 ? c->set.value[0] : -INFINITY;
}

void candidates_all(struct candidates *c, const float *logits, int32_t n)
{
    int32_t m = 0;
    for (int32_t i = 0; i < n; i++) { /* key follows when a filter needs it */
        c->set.value[m] = logits[i];
        c->set.id[m] = i;
        m += logits[i] > -INFINITY;
    }
    bool has_nan;
    c->n = m;
    c->maximum = logits_maximum(c->set.value, m, &has_nan);
}

static double mass_of(const struct candidates *c, int32_t i)
{
    return logit_scan_best()->mass(&c->set.value[i], 1, c->maximum, 1.0f);
}

HOT_INLINE int32_t bin_of(float best, float key, float scale)
{
    float bin = (best - key) * scale;
    return bin < (float)(N_BINS - 1) ? (int32_t)bin : N_BINS - 1;
}

/* Splits [kept, n) by a histogram of keys: what is surely inside the nucleus moves to the front,
 * the bin where it ends stays behind it, the rest goes. Returns the new `kept`. */
static int32_t narrow(struct candidates *c, int32_t kept, double *missing)
{
    const float *key = c->set.key;
    float best = key[kept], worst = best;
    for (int32_t i = kept + 1; i < c->n; i++) {
        best = key[i] > best ? key[i] : best;
        worst = key[i] < worst ? key[i] : worst;
    }
    float range = best - worst < BIN_RANGE ? best - worst : BIN_RANGE;
    float scale = (float)N_BINS / range;
    memset(c->mass, 0, N_BINS * sizeof(*c->mass));
    float *weight = c->work.key; /* unused until the edge is moved */
    logit_scan_best()->weights(weight + kept, c->set.value + kept, c->n - kept, c->maximum);
    for (int32_t i = kept; i < c->n; i++)
        c->mass[bin_of(best, key[i], scale)] += (double)weight[i];
    int32_t edge = 0;
    while (edge < N_BINS - 1 && c->mass[edge] < *missing)
        *missing -= c->mass[edge++];
    int32_t n_edge = 0;
    for (int32_t i = kept, n = c->n; i < n; i++) {
        int32_t bin = bin_of(best, key[i], scale);
        if (bin < edge)
            list_move(&c->set, kept++, &c->set, i);
        else if (bin == edge)
            list_move(&c->work, n_edge++, &c->set, i);
    }
    for (int32_t i = 0; i < n_edge; i++)
        list_move(&c->set, kept + i, &c->work, i);
    c->n = kept + n_edge;
    return kept;
}

/* Keeps the best by key until their mass reaches `missing`. */
static void keep_mass(struct candidates *c, double missing)
{
    int32_t kept = 0;
    while (c->n - kept > SORT_LIMIT) {
        float first = c->set.key[kept];
        int32_t i = kept + 1;
        while (i < c->n && c->set.key[i] == first)
            i++;
        if (i == c->n)
            break; /* all equal: id order is the order */
        int32_t n = c->n, kept_before = kept;
        kept = narrow(c, kept, &missing);
        if (c->n == n && kept == kept_before) { /* keys too close for a bin to part them */
            sort_best_first(&c->set, kept, n - kept);
            break;
        }
    }
    if (c->n - kept <= SORT_LIMIT)
        sort_best_first(&c->set, kept, c->n - kept);
    double mass = 0.0;
    while (kept < c->n && mass < missing)
        mass += mass_of(c, kept++);
    c->n = MAX(kept, 1);
}

/* Candidates that each hold less than 1 / n of the mass outside the nucleus hold less than that
 * together, so none of them is inside. */
static float tail_end(float maximum, double outside, int32_t n)
{
    return outside > 0.0 ? maximum + (float)log(outside / n) - 1e-3f : -INFINITY;
}

/* Takes the values from `least` on into the set, in order: most of a vocabulary goes in whole
 * vectors. The values and ids may be the set's own; ids NULL: the positions. */
static void collect(struct candidates *c, const float *value, const int32_t *id, int32_t n,
                    float least)
{
    const struct logit_scan *scan = logit_scan_best();
    int32_t m = 0;
    for (int32_t i = scan->next_from(value, 0, n, least); i < n;
         i = scan->next_from(value, i + LOGIT_LANES, n, least)) {
        for (int32_t j = i; j < MIN(i + LOGIT_LANES, n); j++)
            if (value[j] >= least) {
                c->set.value[m] = value[j];
                c->set.id[m++] = id ? id[j] : j;
            }
    }
    c->n = m;
}

void candidates_top_p(struct candidates *c, double p)
{
    if (c->n <= 1)
        return;
    double all = logits_exp_sum(c->set.value, c->n, c->maximum);
    if (c->n > SORT_LIMIT)
        collect(c, c->set.value, c->set.id, c->n, tail_end(c->maximum, (1.0 - p) * all, c->n));
    memcpy(c->set.key, c->set.value, (size_t)c->n * sizeof(float));
    keep_mass(c, p * all);
}

void candidates_nucleus(struct candidates *c, const float *logits, int32_t n, float maximum,
                        double top_p, double min_p)
{
    float least = -FLT_MAX; /* the finite ones */
    if (min_p > 0.0)
        least = MIN(maximum, maximum + (float)log(min_p));
    double all = top_p < 1.0 ? logits_exp_sum(logits, n, maximum) : 0.0;
    if (top_p < 1.0)
        least = MAX(least, tail_end(maximum, (1.0 - top_p) * all, n));
    collect(c, logits, NULL, n, least);
    c->maximum = maximum;
    if (top_p >= 1.0)
        return;
    memcpy(c->set.key, c->set.value, (size_t)c->n * sizeof(float));
    keep_mass(c, top_p * all);
}

void candidates_typical(struct candidates *c, double p)
{
    if (c->n <= 1)
        return;
    double all = logits_exp_sum(c->set.value, c->n, c->maximum);
    double log_all = log(all), entropy = 0.0;
    const float *weight = c->work.key;
    logit_scan_best()->weights(c->work.key, c->set.value, c->n, c->maximum);
    for (int32_t i = 0; i < c->n; i++)
        entropy += (double)weight[i] / all * (log_all - (double)(c->set.value[i] - c->maximum));
    for (int32_t i = 0; i < c->n; i++) {
        double surprise = log_all - (double)(c->set.value[i] - c->maximum);
        c->set.key[i] = (float)-fabs(surprise - entropy);
    }
    keep_mass(c, p * all);
    bool has_nan;
    c->maximum = logits_maximum(c->set.value, c->n, &has_nan);
}

void candidates_min_p(struct candidates *c, double p)
{
    float floor_value = c->maximum + (float)log(p);
    int32_t m = 0;
    for (int32_t i = 0; i < c->n; i++)
        if (c->set.value[i] >= floor_value || c->set.value[i] == c->maximum)
            list_move(&c->set, m++, &c->set, i);
    c->n = m;
}

int32_t candidates_draw(struct candidates *c, double temperature, double uniform)
{
    double inverse = 1.0 / temperature;
    float factor = inverse < 1e30 ? (float)inverse : 1e30f;
    const struct logit_scan *scan = logit_scan_best();
    double all = 0.0;
    for (int32_t from = 0; from < c->n; from += LOGIT_BLOCK) {
        int32_t n = MIN(LOGIT_BLOCK, c->n - from);
        c->mass[from / LOGIT_BLOCK] = scan->mass(c->set.value + from, n, c->maximum, factor);
        all += c->mass[from / LOGIT_BLOCK];
    }
    double left = uniform * all;
    int32_t from = 0;
    while (from + LOGIT_BLOCK < c->n && left >= c->mass[from / LOGIT_BLOCK])
        left -= c->mass[from / LOGIT_BLOCK], from += LOGIT_BLOCK;
    int32_t drawn = -1;
    for (int32_t i = from; i < c->n; i++) {
        double mass = scan->mass(c->set.value + i, 1, c->maximum, factor);
        if (mass > 0.0)
            drawn = i;
        left -= mass;
        if (left < 0.0 && drawn >= 0)
            break;
    }
    for (int32_t i = 0; drawn < 0 && i < c->n; i++) /* rounding ran off a tail of zero mass */
        if (c->set.value[i] == c->maximum)
            drawn = i;
    return drawn < 0 ? -1 : c->set.id[drawn];
}

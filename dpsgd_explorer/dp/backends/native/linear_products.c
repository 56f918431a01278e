/* Per-sample gradients of linear maps, and their squared norms.

   The gradient of a sample is a sum over positions t:

       weight[o][k] = sum_t g[t][o] * x[t][k],    bias[o] = sum_t g[t][o]

   A tile of ROWS outputs o by PANEL inputs k is summed in registers over all positions,
   in order.  A position reads ROWS + PANEL numbers and writes nothing.  Before the sums
   leave the registers, their squares are added to the sample's squared norm.

   Inputs and backprops are first copied to panels, in which the numbers of a position
   are contiguous.  Without the copy, rows with a power of two of numbers would compete
   for few lines of the cache.  While a tile is summed, the cache lines of its results
   and of the next panel are prefetched.

   The loops use the vector types of GCC and Clang, and are compiled for AVX-512 and for
   AVX2.  On other processors lanes() is 0, and the functions here must not be called.
*/

#include <string.h>

#include "units.h"

/* UNIT: outputs of a unit of work, a multiple of ROWS.  PANEL: inputs of a panel. */
enum { UNIT = 64, PANEL = 16 };

/* One linear map. */
struct map {
    const float *x;         /* [batch, positions, inputs], inputs contiguous */
    const float *g;         /* [batch, positions, outputs], outputs contiguous */
    ptrdiff_t positions, inputs, outputs;
    ptrdiff_t x_sample, x_position, g_sample, g_position; /* strides */
    ptrdiff_t weight, bias; /* offset in a sample's gradients; bias -1: not trained */
    ptrdiff_t column;       /* first column of this map in the table of units */
};

struct job {
    struct team team;       /* row: a sample; column: UNIT outputs of a map */
    const struct map *maps;
    float *gradients;       /* for each weight and bias [samples, numbers] */
    double *squares;        /* [samples, columns], squared norms of the units */
    float *norms;           /* [maps, samples], squared norms times margin */
    float *scratch;         /* [threads, panels] */
    ptrdiff_t count;        /* number of maps */
    ptrdiff_t first, samples; /* range of the maps' samples that the job computes */
    ptrdiff_t panels;       /* numbers per thread: most positions * (UNIT + PANEL) */
    ptrdiff_t length;       /* floats per vector, at most lanes() */
    ptrdiff_t done;         /* number of finished units */
    double margin;          /* factor that makes a squared norm an upper bound */
};

/* A caller compares this size with its definitions of the structs before it calls. */
EXPORT size_t job_bytes(void) { return sizeof(struct job) + sizeof(struct map); }

#if defined(__x86_64__)

/* Copies columns of x [positions, stride] to [positions, width], padded with zeros. */
INLINE void pack(const float *x, ptrdiff_t stride, ptrdiff_t positions,
                 ptrdiff_t columns, const ptrdiff_t width, float *to) {
    if (columns >= width) {
        for (ptrdiff_t t = 0; t < positions; t++, x += stride, to += width)
            for (ptrdiff_t k = 0; k < width; k++) to[k] = x[k];
        return;
    }
    for (ptrdiff_t t = 0; t < positions; t++, x += stride, to += width)
        for (ptrdiff_t k = 0; k < width; k++) to[k] = k < columns ? x[k] : 0;
}

/* Defines NAME(map, x, g, outputs, weight, bias, next, scratch) for vectors of LANES
   floats.  It computes the gradients of one unit (a sample's UNIT outputs) and returns
   their squared norm: up to PANEL squares are added in float, the rest in double.
   next: the backprops of the next unit, to be prefetched, or NULL. */
#define PRODUCTS(NAME, LANES, ROWS, TARGET)                                            \
    typedef float NAME##_vector __attribute__((vector_size(4 * LANES), aligned(4)));   \
    typedef double NAME##_doubles __attribute__((vector_size(8 * LANES), aligned(8))); \
    enum { NAME##_vectors = PANEL / LANES };                                           \
                                                                                       \
    INLINE TARGET void NAME##_tile(                                                    \
        const float *rows, const float *columns, ptrdiff_t positions, float *out,      \
        ptrdiff_t stride, NAME##_doubles *squares, const float *ahead,                 \
        ptrdiff_t step) {                                                              \
        _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++)                        \
            __builtin_prefetch(out + r * stride, 1);                                   \
        NAME##_vector sum[ROWS][NAME##_vectors] = {0}, square = {0};                   \
        for (ptrdiff_t t = 0; t < positions; t++) {                                    \
            NAME##_vector column[NAME##_vectors];                                      \
            _Pragma("GCC unroll 4") for (int v = 0; v < NAME##_vectors; v++)           \
                column[v] = *(const NAME##_vector *)(columns + v * LANES);             \
            _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++)                    \
                _Pragma("GCC unroll 4") for (int v = 0; v < NAME##_vectors; v++)       \
                    sum[r][v] += rows[r] * column[v];                                  \
            __builtin_prefetch(ahead);                                                 \
            rows += ROWS, columns += PANEL, ahead += step;                             \
        }                                                                              \
        _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++)                        \
            _Pragma("GCC unroll 4") for (int v = 0; v < NAME##_vectors; v++) {         \
                *(NAME##_vector *)(out + r * stride + v * LANES) = sum[r][v];          \
                square += sum[r][v] * sum[r][v];                                       \
            }                                                                          \
        *squares += __builtin_convertvector(square, NAME##_doubles);                   \
    }                                                                                  \
                                                                                       \
    static TARGET double NAME(                                                         \
        const struct map *map, const float *x, const float *g, ptrdiff_t outputs,      \
        float *weight, float *bias, const float *next, float *scratch) {               \
        const ptrdiff_t positions = map->positions, inputs = map->inputs;              \
        float *columns = scratch + positions * UNIT, part[ROWS * PANEL];               \
        NAME##_doubles squares = {0};                                                  \
        double total = 0;                                                              \
        for (ptrdiff_t o = 0; o < outputs; o += ROWS) {                                \
            const float *rows = scratch + positions * o;                               \
            pack(g + o, map->g_position, positions, outputs - o, ROWS,                 \
                 scratch + positions * o);                                             \
            float sum[ROWS] = {0};                                                     \
            for (ptrdiff_t t = 0; t < positions; t++)                                  \
                for (int r = 0; r < ROWS; r++) sum[r] += rows[t * ROWS + r];           \
            for (int r = 0; bias && r < ROWS && o + r < outputs; r++) {                \
                bias[o + r] = sum[r];                                                  \
                total += (double)sum[r] * sum[r];                                      \
            }                                                                          \
        }                                                                              \
        for (ptrdiff_t k = 0; k < inputs; k += PANEL) {                                \
            const ptrdiff_t left = inputs - k;                                         \
            pack(x + k, map->x_position, positions, left, PANEL, columns);             \
            for (ptrdiff_t o = 0; o < outputs; o += ROWS) {                            \
                const float *rows = scratch + positions * o;                           \
                float *out = weight + o * inputs + k;                                  \
                const float *ahead = columns;                                          \
                ptrdiff_t step = 0;                                                    \
                if (o == 0 && left > PANEL)                                            \
                    ahead = x + k + PANEL, step = map->x_position;                     \
                else if (o == ROWS && k < UNIT && next)                                \
                    ahead = next + k, step = map->g_position;                          \
                if (left >= PANEL && outputs - o >= ROWS) {                            \
                    NAME##_tile(rows, columns, positions, out, inputs, &squares,       \
                                ahead, step);                                          \
                    continue;                                                          \
                }                                                                      \
                NAME##_tile(rows, columns, positions, part, PANEL, &squares, ahead,    \
                            step);                                                     \
                const size_t bytes = 4 * (left < PANEL ? left : PANEL);                \
                for (ptrdiff_t r = 0; r < ROWS && o + r < outputs; r++)                \
                    memcpy(out + r * inputs, part + r * PANEL, bytes);                 \
            }                                                                          \
        }                                                                              \
        for (int lane = 0; lane < LANES; lane++) total += squares[lane];               \
        return total;                                                                  \
    }

PRODUCTS(products_avx512, 16, 16, __attribute__((target("avx512f,fma"))))
PRODUCTS(products_avx2, 8, 4, __attribute__((target("avx2,fma"))))

#endif

/* Returns the map of a column; the search starts at a given map. */
INLINE const struct map *map_of(const struct job *job, const struct map *map,
                                ptrdiff_t column) {
    const struct map *last = job->maps + job->count - 1;
    while (map->column > column) map--;
    while (map < last && map[1].column <= column) map++;
    return map;
}

/* Returns the backprops of a unit. */
INLINE const float *backprops(const struct map *map, ptrdiff_t sample,
                              ptrdiff_t column) {
    return map->g + sample * map->g_sample + (column - map->column) * UNIT;
}

/* Returns the backprops of the unit that this thread is likely to take next; NULL if
   that unit belongs to another map. */
INLINE const float *next_backprops(const struct job *job, const struct map *map,
                                   const struct unit *unit) {
    const int is_last = unit->column + 1 == unit->end;
    const ptrdiff_t column = is_last ? unit->first : unit->column + 1;
    const ptrdiff_t row = unit->row + is_last;
    if (row == job->samples || map_of(job, map, column) != map) return 0;
    return backprops(map, job->first + row, column);
}

INLINE void add_squares(const struct job *job) {
    const ptrdiff_t columns = job->team.columns;
    for (ptrdiff_t m = 0; m < job->count; m++) {
        const ptrdiff_t end = m + 1 < job->count ? job->maps[m + 1].column : columns;
        for (ptrdiff_t i = 0; i < job->samples; i++) {
            double sum = 0;
            for (ptrdiff_t k = job->maps[m].column; k < end; k++)
                sum += job->squares[i * columns + k];
            job->norms[m * job->samples + i] = (float)(sum * job->margin);
        }
    }
}

/* Writes gradients and norms.  Any number of threads may share a job; the thread that
   finishes the last unit adds the squares. */
EXPORT void linear_products(struct job *job) {
#if defined(__x86_64__)
    struct unit unit = {.owner = thread_number(&job->team)};
    const ptrdiff_t is_long = job->length == 16, columns = job->team.columns;
    float *scratch = job->scratch + unit.owner * job->panels;
    const struct map *map = job->maps;
    while (take(&job->team, &unit)) {
        map = map_of(job, map, unit.column);
        const ptrdiff_t i = job->first + unit.row;
        const ptrdiff_t o = (unit.column - map->column) * UNIT, left = map->outputs - o;
        float *weight = job->gradients + job->samples * map->weight;
        float *bias = map->bias < 0 ? 0
                                    : job->gradients + job->samples * map->bias +
                                          unit.row * map->outputs + o;
        job->squares[unit.row * columns + unit.column] =
            (is_long ? products_avx512 : products_avx2)(
                map, map->x + i * map->x_sample, backprops(map, i, unit.column),
                left < UNIT ? left : UNIT,
                weight + (unit.row * map->outputs + o) * map->inputs,
                bias, next_backprops(job, map, &unit), scratch);
        if (__atomic_add_fetch(&job->done, 1, __ATOMIC_ACQ_REL) ==
            job->samples * columns)
            add_squares(job);
    }
#endif
}

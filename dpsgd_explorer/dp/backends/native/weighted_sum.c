/* Weighted sums of per-sample gradients, added to totals.

       total[k] += sum_i weight[i] * row[i][k],   i in order

   A block of numbers is summed over all samples in registers before it is written.

   The loops use the vector types of GCC and Clang, and are compiled for AVX-512 and for
   AVX2.  On other processors lanes() is 0, and the functions here must not be called.
*/

#include "units.h"

struct sum {
    const float *rows;      /* [samples, numbers] */
    const float *weights;   /* [samples] */
    float *total;           /* [numbers] */
    ptrdiff_t numbers;
    ptrdiff_t column;       /* first column of this sum in the table of units */
};

struct job {
    struct team team;       /* one row; column: a unit of numbers of a sum */
    const struct sum *sums;
    ptrdiff_t count;        /* number of sums */
    ptrdiff_t samples;
    ptrdiff_t unit;         /* numbers of a column; the last of a sum may have fewer */
    ptrdiff_t length;       /* floats per vector, at most lanes() */
};

/* A caller compares this size with its definitions of the structs before it calls. */
EXPORT size_t job_bytes(void) { return sizeof(struct job) + sizeof(struct sum); }

#if defined(__x86_64__)

/* Defines NAME(entry, first, end, samples).  It computes the numbers first to end - 1 of
   a sum, VECTORS vectors at a time. */
#define SUM(NAME, LANES, VECTORS, TARGET)                                              \
    typedef float NAME##_vector __attribute__((vector_size(4 * LANES), aligned(4)));   \
                                                                                       \
    static TARGET void NAME(const struct sum *entry, ptrdiff_t first, ptrdiff_t end,   \
                            ptrdiff_t samples) {                                       \
        const ptrdiff_t numbers = entry->numbers;                                      \
        ptrdiff_t k = first;                                                           \
        for (; k + VECTORS * LANES <= end; k += VECTORS * LANES) {                     \
            const float *row = entry->rows + k;                                        \
            NAME##_vector sum[VECTORS] = {0};                                          \
            for (ptrdiff_t i = 0; i < samples; i++, row += numbers)                    \
                _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++)              \
                    sum[v] += entry->weights[i] * *(NAME##_vector *)(row + v * LANES); \
            _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++)                  \
                *(NAME##_vector *)(entry->total + k + v * LANES) += sum[v];            \
        }                                                                              \
        for (; k < end; k++) {                                                         \
            float sum = 0;                                                             \
            for (ptrdiff_t i = 0; i < samples; i++)                                    \
                sum += entry->weights[i] * entry->rows[i * numbers + k];               \
            entry->total[k] += sum;                                                    \
        }                                                                              \
    }

SUM(sum_avx512, 16, 8, __attribute__((target("avx512f,fma"))))
SUM(sum_avx2, 8, 8, __attribute__((target("avx2,fma"))))

/* Adds to the totals.  Any number of threads may share a job. */
EXPORT void weighted_sum(struct job *job) {
    struct unit unit = {.owner = thread_number(&job->team)};
    const struct sum *entry = job->sums, *last = job->sums + job->count - 1;
    while (take(&job->team, &unit)) {
        while (entry->column > unit.column) entry--;
        while (entry < last && entry[1].column <= unit.column) entry++;
        const ptrdiff_t first = (unit.column - entry->column) * job->unit;
        const ptrdiff_t left = entry->numbers - first;
        (job->length == 16 ? sum_avx512 : sum_avx2)(
            entry, first, first + (left < job->unit ? left : job->unit), job->samples);
    }
}

#else

EXPORT void weighted_sum(struct job *job) { (void)job; }

#endif

/* Weighted sums of the samples' gradients, each added to what is there.

       total[k] += sum_i weight[i] * row[i][k],   i in order

   A block of numbers is summed over all samples in registers before it is written.

   Vectors are those of GCC and Clang; there is a copy for AVX-512 and one for AVX2.
   On other processors lanes() is 0, and nothing here may be called. */

#include "units.h"

struct sum {
    const float *rows;      /* [samples, numbers] */
    const float *weights;   /* [samples] */
    float *total;           /* [numbers] */
    ptrdiff_t numbers;
    ptrdiff_t column;       /* its first of the table */
};

struct job {
    struct team team;       /* one row; a column has unit numbers of a sum */
    const struct sum *sums;
    ptrdiff_t count;        /* sums */
    ptrdiff_t samples;
    ptrdiff_t unit;         /* numbers of a column; the last of a sum may have fewer */
    ptrdiff_t length;       /* of a vector, at most lanes() */
};

/* By which a caller sees whether it has the same structs in mind. */
EXPORT size_t job_bytes(void) { return sizeof(struct job) + sizeof(struct sum); }

#if defined(__x86_64__)

/* Defines NAME(own, first, end, samples): some numbers, VECTORS vectors at a time. */
#define SUM(NAME, LANES, VECTORS, TARGET)                                              \
    typedef float NAME##_vector __attribute__((vector_size(4 * LANES), aligned(4)));   \
                                                                                       \
    static TARGET void NAME(const struct sum *own, ptrdiff_t first, ptrdiff_t end,     \
                            ptrdiff_t samples) {                                       \
        const ptrdiff_t numbers = own->numbers;                                        \
        ptrdiff_t k = first;                                                           \
        for (; k + VECTORS * LANES <= end; k += VECTORS * LANES) {                     \
            const float *row = own->rows + k;                                          \
            NAME##_vector sum[VECTORS] = {0};                                          \
            for (ptrdiff_t i = 0; i < samples; i++, row += numbers)                    \
                _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++)              \
                    sum[v] += own->weights[i] * *(NAME##_vector *)(row + v * LANES);   \
            _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++)                  \
                *(NAME##_vector *)(own->total + k + v * LANES) += sum[v];              \
        }                                                                              \
        for (; k < end; k++) {                                                         \
            float sum = 0;                                                             \
            for (ptrdiff_t i = 0; i < samples; i++)                                    \
                sum += own->weights[i] * own->rows[i * numbers + k];                   \
            own->total[k] += sum;                                                      \
        }                                                                              \
    }

SUM(sum_avx512, 16, 8, __attribute__((target("avx512f,fma"))))
SUM(sum_avx2, 8, 8, __attribute__((target("avx2,fma"))))

/* Add to the totals.  Any number of threads may work on a job together. */
EXPORT void weighted_sum(struct job *job) {
    struct unit unit = {.owner = thread_number(&job->team)};
    const struct sum *own = job->sums, *last = job->sums + job->count - 1;
    while (take(&job->team, &unit)) {
        while (own->column > unit.column) own--;
        while (own < last && own[1].column <= unit.column) own++;
        const ptrdiff_t first = (unit.column - own->column) * job->unit;
        const ptrdiff_t left = own->numbers - first;
        (job->length == 16 ? sum_avx512 : sum_avx2)(
            own, first, first + (left < job->unit ? left : job->unit), job->samples);
    }
}

#else

EXPORT void weighted_sum(struct job *job) { (void)job; }

#endif

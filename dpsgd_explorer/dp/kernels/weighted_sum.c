/* The weighted sum of the samples' gradients, added to what is there.

       total[k] += sum_i weight[i] * row[i][k],   i in order

   A block of numbers is summed over all samples in registers before it is written.

   Vectors are those of GCC and Clang; there is a copy for AVX-512 and one for AVX2.
   On other processors lanes() is 0, and nothing here may be called. */

#include "units.h"

struct job {
    struct team team;       /* one row; a column has unit numbers of the sum */
    const float *rows;      /* [samples, numbers] */
    const float *weights;   /* [samples] */
    float *total;           /* [numbers] */
    ptrdiff_t samples, numbers;
    ptrdiff_t unit;         /* numbers of a column; the last may have fewer */
    ptrdiff_t length;       /* of a vector, at most lanes() */
};

/* By which a caller sees whether it has the same struct in mind. */
EXPORT size_t job_bytes(void) { return sizeof(struct job); }

#if defined(__x86_64__)

/* Defines NAME(job, first, end): the sums of some numbers, VECTORS vectors at a time. */
#define SUM(NAME, LANES, VECTORS, TARGET)                                              \
    typedef float NAME##_vector __attribute__((vector_size(4 * LANES), aligned(4)));   \
                                                                                       \
    static TARGET void NAME(const struct job *job, ptrdiff_t first, ptrdiff_t end) {   \
        const ptrdiff_t samples = job->samples, numbers = job->numbers;                \
        ptrdiff_t k = first;                                                           \
        for (; k + VECTORS * LANES <= end; k += VECTORS * LANES) {                     \
            const float *row = job->rows + k;                                          \
            NAME##_vector sum[VECTORS] = {0};                                          \
            for (ptrdiff_t i = 0; i < samples; i++, row += numbers)                    \
                _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++)              \
                    sum[v] += job->weights[i] * *(NAME##_vector *)(row + v * LANES);   \
            _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++)                  \
                *(NAME##_vector *)(job->total + k + v * LANES) += sum[v];              \
        }                                                                              \
        for (; k < end; k++) {                                                         \
            float sum = 0;                                                             \
            for (ptrdiff_t i = 0; i < samples; i++)                                    \
                sum += job->weights[i] * job->rows[i * numbers + k];                   \
            job->total[k] += sum;                                                      \
        }                                                                              \
    }

SUM(sum_avx512, 16, 8, __attribute__((target("avx512f,fma"))))
SUM(sum_avx2, 8, 8, __attribute__((target("avx2,fma"))))

/* Add to total.  Any number of threads may work on a job together. */
EXPORT void weighted_sum(struct job *job) {
    struct unit unit = {.owner = thread_number(&job->team)};
    while (take(&job->team, &unit)) {
        const ptrdiff_t first = unit.column * job->unit, left = job->numbers - first;
        (job->length == 16 ? sum_avx512 : sum_avx2)(
            job, first, first + (left < job->unit ? left : job->unit));
    }
}

#else

EXPORT void weighted_sum(struct job *job) { (void)job; }

#endif

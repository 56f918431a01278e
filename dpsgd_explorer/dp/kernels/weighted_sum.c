/* The weighted sum of the samples' gradients, added to what is there.

       total[k] += sum_i weight[i] * row[i][k],   i in order

   A block of numbers is summed over all samples in registers before it is written.

   Vectors are those of GCC and Clang; there is a copy for AVX-512 and one for AVX2.
   On other processors lanes() is 0, and nothing here may be called. */

#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

struct job {
    const float *rows;      /* [samples, numbers] */
    const float *weights;   /* [samples] */
    float *total;           /* [numbers] */
    ptrdiff_t samples, numbers;
    ptrdiff_t unit;         /* numbers that a thread takes at once */
    ptrdiff_t length;       /* of a vector, at most lanes() */
    ptrdiff_t next;         /* the first number that no thread has taken */
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

/* Numbers of the longest vector of this processor; 0 if there is no copy for it. */
EXPORT int lanes(void) {
    if (__builtin_cpu_supports("avx512f")) return 16;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 0;
}

/* Add to total.  Any number of threads may work on a job together. */
EXPORT void weighted_sum(struct job *job) {
    for (;;) {
        ptrdiff_t first = __atomic_fetch_add(&job->next, job->unit, __ATOMIC_RELAXED);
        if (first >= job->numbers) return;
        const ptrdiff_t left = job->numbers - first;
        (job->length == 16 ? sum_avx512 : sum_avx2)(
            job, first, first + (left < job->unit ? left : job->unit));
    }
}

#else

EXPORT int lanes(void) { return 0; }
EXPORT void weighted_sum(struct job *job) { (void)job; }

#endif

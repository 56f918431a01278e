/* Squared norms of gradients that are one outer product per sample.

   The gradients of y = W x + b are g x^T and g, with g those of y:

       ||g x^T||^2 + ||g||^2 = ||g||^2 (||x||^2 + 1)

   Some squares are added in float, the sums of these in double.

   Vectors are those of GCC and Clang; there is a copy for AVX-512 and one for AVX2.
   On other processors lanes() is 0, and nothing here may be called. */

#include "units.h"

/* Vectors that are squared side by side, and those of a sum in float. */
enum { VECTORS = 8, BLOCK = 64 };

#if defined(__x86_64__)

/* Defines NAME(x, n): the sum of squares of some numbers.  BLOCK vectors at most are
   added in float, to VECTORS sums; the rest in double. */
#define SQUARES(NAME, LANES, TARGET)                                                   \
    typedef float NAME##_vector __attribute__((vector_size(4 * LANES), aligned(4)));   \
    typedef double NAME##_doubles __attribute__((vector_size(8 * LANES), aligned(8))); \
                                                                                       \
    static TARGET double NAME(const float *x, ptrdiff_t n) {                           \
        NAME##_doubles all = {0};                                                      \
        double total = 0;                                                              \
        for (; n >= LANES;) {                                                          \
            NAME##_vector sum[VECTORS] = {0};                                          \
            ptrdiff_t left = n / LANES < BLOCK ? n / LANES : BLOCK;                    \
            n -= left * LANES;                                                         \
            for (; left >= VECTORS; left -= VECTORS, x += VECTORS * LANES)             \
                _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++) {            \
                    const NAME##_vector its = *(NAME##_vector *)(x + v * LANES);       \
                    sum[v] += its * its;                                               \
                }                                                                      \
            for (; left > 0; left--, x += LANES) {                                     \
                const NAME##_vector its = *(NAME##_vector *)x;                         \
                sum[0] += its * its;                                                   \
            }                                                                          \
            for (int v = 1; v < VECTORS; v++) sum[0] += sum[v];                        \
            all += __builtin_convertvector(sum[0], NAME##_doubles);                    \
        }                                                                              \
        for (ptrdiff_t k = 0; k < n; k++) total += (double)x[k] * x[k];                \
        for (int lane = 0; lane < LANES; lane++) total += all[lane];                   \
        return total;                                                                  \
    }

SQUARES(squares_avx512, 16, __attribute__((target("avx512f,fma"))))
SQUARES(squares_avx2, 8, __attribute__((target("avx2,fma"))))

/* Write norms [samples], times longer, of x [samples, inputs] and g [samples, outputs]
   with dense rows that are so many numbers apart. */
EXPORT void outer_norms(const float *x, ptrdiff_t x_row, ptrdiff_t inputs,
                        const float *g, ptrdiff_t g_row, ptrdiff_t outputs,
                        float *norms, ptrdiff_t samples, double longer, int length) {
    double (*squares)(const float *, ptrdiff_t) =
        length == 16 ? squares_avx512 : squares_avx2;
    for (ptrdiff_t i = 0; i < samples; i++, x += x_row, g += g_row)
        norms[i] = (float)(squares(g, outputs) * (squares(x, inputs) + 1) * longer);
}

#endif

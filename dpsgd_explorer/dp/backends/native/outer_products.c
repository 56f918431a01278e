/* Norms and weighted sums of gradients that are one outer product per sample, for many
   layers in one call.

   The gradients of y = W x + b are g x^T and g, with g those of y:

       ||g x^T||^2 + ||g||^2 = ||g||^2 (||x||^2 + 1)

   Some squares are added in float, the sums of these in double. Squares below FLT_MIN
   may count as 0; more than they can lose is added.

   Vectors are those of GCC and Clang; there is a copy for AVX-512 and one for AVX2.
   On other processors lanes() is 0, and nothing here may be called. */

#include <float.h>
#include <math.h>

#include "units.h"

/* Vectors that are squared side by side, and those of a sum in float. */
enum { VECTORS = 8, BLOCK = 64 };

#if defined(__x86_64__)

/* Defines NAME(x, n): the sum of squares of n numbers, never too small by underflow.  BLOCK vectors at most are
   added in float, to VECTORS sums; the rest in double. */
#define SQUARES(NAME, LANES, TARGET)                                                   \
    typedef float NAME##_vector __attribute__((vector_size(4 * LANES), aligned(4)));   \
    typedef double NAME##_doubles __attribute__((vector_size(8 * LANES), aligned(8))); \
                                                                                       \
    static TARGET double NAME(const float *x, ptrdiff_t n) {                           \
        NAME##_doubles all = {0};                                                      \
        double total = 0;                                                              \
        const ptrdiff_t size = n;                                                      \
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
        return total + 4.0 * FLT_MIN * size;                                           \
    }

SQUARES(squares_avx512, 16, __attribute__((target("avx512f,fma"))))
SQUARES(squares_avx2, 8, __attribute__((target("avx2,fma"))))

/* A layer's call; rows are dense, and so many numbers apart. */
struct call {
    const float *x, *g; /* [samples, inputs], [samples, outputs] */
    ptrdiff_t x_row, inputs, g_row, outputs;
};

/* What the sum of a call's gradients is made of, and added to. */
struct sum {
    struct call call;
    const float *weights; /* [samples] */
    float *scaled;        /* [samples, outputs], or NULL: products are added here */
    float *weight, *bias; /* [outputs, inputs], [outputs] */
};

EXPORT ptrdiff_t job_bytes(void) {
    return sizeof(struct call) + sizeof(struct sum);
}

/* Write norms [count, samples], times longer. */
EXPORT void squared_norms(const struct call *calls, ptrdiff_t count, float *norms,
                          ptrdiff_t samples, double longer, int length) {
    double (*squares)(const float *, ptrdiff_t) =
        length == 16 ? squares_avx512 : squares_avx2;
    for (const struct call *call = calls; call < calls + count; call++) {
        const float *x = call->x, *g = call->g;
        for (ptrdiff_t i = 0; i < samples; i++, x += call->x_row, g += call->g_row)
            *norms++ = (float)(squares(g, call->outputs) *
                               (squares(x, call->inputs) + 1) * longer);
    }
}

/* Add scale weights g to the bias.  Products of these with x are added to the weight,
   or they are written for a product of matrices. */
EXPORT __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
void add_weighted(const struct sum *sums, ptrdiff_t count, ptrdiff_t samples,
                  float scale) {
    for (const struct sum *sum = sums; sum < sums + count; sum++) {
        const struct call *call = &sum->call;
        const ptrdiff_t inputs = call->inputs, outputs = call->outputs;
        float *restrict bias = sum->bias;
        for (ptrdiff_t i = 0; i < samples; i++) {
            const float factor = sum->weights[i] * scale;
            const float *restrict g = call->g + i * call->g_row;
            if (sum->scaled) {
                float *restrict scaled = sum->scaled + i * outputs;
                for (ptrdiff_t o = 0; o < outputs; o++) {
                    scaled[o] = factor * g[o];
                    bias[o] += scaled[o];
                }
                continue;
            }
            const float *restrict x = call->x + i * call->x_row;
            for (ptrdiff_t o = 0; o < outputs; o++) {
                const float scaled = factor * g[o];
                float *restrict row = sum->weight + o * inputs;
                bias[o] += scaled;
                for (ptrdiff_t k = 0; k < inputs; k++) row[k] += scaled * x[k];
            }
        }
    }
}

/* Write sums [samples] of so many rows, added in double, or their roots; return whether
   all are finite. */
EXPORT __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
int add_rows(const float *const *rows, ptrdiff_t count, ptrdiff_t samples, int roots,
             float *restrict sums) {
    int finite = 1;
    for (ptrdiff_t i = 0; i < samples; i++) {
        double total = 0;
        for (ptrdiff_t k = 0; k < count; k++) total += rows[k][i];
        const float sum = (float)total;
        finite &= fabsf(sum) <= FLT_MAX;
        sums[i] = roots ? sqrtf(sum) : sum;
    }
    return finite;
}

#endif

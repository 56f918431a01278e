/* Norms and weighted sums of per-sample gradients that are one outer product, for
   several layers in one call.

   The gradients of y = W x + b are g x^T and g, with g the gradient of y:

       ||g x^T||^2 + ||g||^2 = ||g||^2 (||x||^2 + 1)

   Blocks of squares are added in float, and the blocks in double.  Squares below
   FLT_MIN may count as 0, so an upper bound of this loss is added.

   The loops use the vector types of GCC and Clang, and are compiled for AVX-512 and for
   AVX2.  On other processors lanes() is 0, and the functions here must not be called.
*/

#include <float.h>
#include <math.h>

#include "units.h"

/* VECTORS: sums that are computed side by side.  BLOCK: vectors added in float. */
enum { VECTORS = 8, BLOCK = 64 };

#if defined(__x86_64__)

/* Defines NAME(x, n): returns the sum of squares of n numbers, plus a bound of the loss
   by underflow.  Up to BLOCK vectors are added in float, to VECTORS sums; the rest in
   double. */
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
                    const NAME##_vector values = *(NAME##_vector *)(x + v * LANES);    \
                    sum[v] += values * values;                                         \
                }                                                                      \
            for (; left > 0; left--, x += LANES) {                                     \
                const NAME##_vector values = *(NAME##_vector *)x;                      \
                sum[0] += values * values;                                             \
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

/* A call of a layer.  Numbers of a row are contiguous. */
struct call {
    const float *x, *g; /* [samples, inputs], [samples, outputs] */
    ptrdiff_t x_row, inputs, g_row, outputs; /* x_row, g_row: strides of the rows */
};

/* A weighted sum of the gradients of a call. */
struct sum {
    struct call call;
    const float *weights; /* [samples] */
    float *scaled;        /* result [samples, outputs]; NULL: add_weighted uses it */
    float *weight, *bias; /* sums, [outputs, inputs] and [outputs] */
};

/* A caller compares this size with its definitions of the structs before it calls. */
EXPORT ptrdiff_t job_bytes(void) {
    return sizeof(struct call) + sizeof(struct sum);
}

/* Writes factor * squared norms, [count, samples]. */
EXPORT void squared_norms(const struct call *calls, ptrdiff_t count, float *norms,
                          ptrdiff_t samples, double factor, int length) {
    double (*squares)(const float *, ptrdiff_t) =
        length == 16 ? squares_avx512 : squares_avx2;
    for (const struct call *call = calls; call < calls + count; call++) {
        const float *x = call->x, *g = call->g;
        for (ptrdiff_t i = 0; i < samples; i++, x += call->x_row, g += call->g_row)
            *norms++ = (float)(squares(g, call->outputs) *
                               (squares(x, call->inputs) + 1) * factor);
    }
}

/* Adds sum_i s_i to the bias, with s_i = scale weights[i] g_i.  If scaled is NULL, the
   products s_i x_i^T are added to the weight.  Otherwise s_i is written to scaled, and
   the caller computes the product. */
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

/* Writes the sums of count rows, [samples], added in double, or the square roots of the
   sums.  Returns 1 if all sums are finite, else 0. */
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

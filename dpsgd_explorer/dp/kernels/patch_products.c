/* Gradients of convolutions, sample by sample, without copies of patches.

   The gradient of one sample is a sum over output positions t:

       out[k][o] = sum_t x[start(t) + offset[k]] * g[t][o]

   with k an entry of the kernel and o an output channel.  TILE entries and two vectors
   of channels are summed in registers over all positions: each step reads one vector
   of g twice and TILE numbers of x, and writes nothing.  Sums run over t in order.

   Vectors are those of GCC and Clang; there is a copy for AVX-512 and one for AVX2.
   On other processors lanes() is 0, and nothing here may be called. */

#include <stddef.h>

#define INLINE static inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))

#if defined(__x86_64__)

/* Defines SUMS(x, row, rows, width, step, offset, kernel, g, outputs, out) for vectors
   of LANES numbers; ``outputs`` is a multiple of LANES. */
#define SUMS_OF(SUMS, LANES, TILE, TARGET)                                             \
    typedef float SUMS##_vector __attribute__((vector_size(4 * LANES), aligned(4)));   \
                                                                                       \
    INLINE TARGET void SUMS##_tile(                                                    \
        const float *x, const ptrdiff_t *row, ptrdiff_t rows, ptrdiff_t width,         \
        ptrdiff_t step, const ptrdiff_t *offset, ptrdiff_t left, const float *g,       \
        ptrdiff_t outputs, float *out, const int vectors) {                            \
        SUMS##_vector sum[TILE][2] = {0};                                              \
        const float *entry[TILE];                                                      \
        for (ptrdiff_t r = 0; r < rows; r++) {                                         \
            _Pragma("GCC unroll 16") for (int k = 0; k < TILE; k++)                    \
                entry[k] = x + row[r] + offset[k < left ? k : left - 1];               \
            for (ptrdiff_t i = 0; i < width; i++, g += outputs)                        \
                _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) {            \
                    SUMS##_vector backprop = *(const SUMS##_vector *)(g + v * LANES);  \
                    _Pragma("GCC unroll 16") for (int k = 0; k < TILE; k++)            \
                        sum[k][v] += entry[k][i * step] * backprop;                    \
                }                                                                      \
        }                                                                              \
        _Pragma("GCC unroll 16") for (int k = 0; k < TILE; k++)                        \
            if (k < left)                                                              \
                _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++)              \
                    *(SUMS##_vector *)(out + k * outputs + v * LANES) = sum[k][v];     \
    }                                                                                  \
                                                                                       \
    static TARGET void SUMS(                                                           \
        const float *x, const ptrdiff_t *row, ptrdiff_t rows, ptrdiff_t width,         \
        ptrdiff_t step, const ptrdiff_t *offset, ptrdiff_t kernel, const float *g,     \
        ptrdiff_t outputs, float *out) {                                               \
        for (ptrdiff_t o = 0; o < outputs;) {                                          \
            const int pair = outputs - o >= 2 * LANES;                                 \
            for (ptrdiff_t k = 0; k < kernel; k += TILE) {                             \
                float *here = out + k * outputs + o;                                   \
                if (pair)                                                              \
                    SUMS##_tile(x, row, rows, width, step, offset + k, kernel - k,     \
                                g + o, outputs, here, 2);                              \
                else                                                                   \
                    SUMS##_tile(x, row, rows, width, step, offset + k, kernel - k,     \
                                g + o, outputs, here, 1);                              \
            }                                                                          \
            o += pair ? 2 * LANES : LANES;                                             \
        }                                                                              \
    }

SUMS_OF(sums_avx512, 16, 12, __attribute__((target("avx512f,fma"))))
SUMS_OF(sums_avx2, 8, 6, __attribute__((target("avx2,fma"))))

/* Numbers of the longest vector of this processor; 0 if there is no copy for it. */
EXPORT int lanes(void) {
    if (__builtin_cpu_supports("avx512f")) return 16;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 0;
}

#else

EXPORT int lanes(void) { return 0; }

#endif

/* Write g [channels, T] as [T, outputs]; channels beyond those there are become 0.

   A block of positions is written again and again while it is in cache. */
static void transpose(
    const float *g, ptrdiff_t channels, ptrdiff_t positions, ptrdiff_t outputs,
    float *to) {
    enum { BLOCK = 16 };
    for (ptrdiff_t t = 0; t < positions; t += BLOCK) {
        const ptrdiff_t end = positions - t < BLOCK ? positions - t : BLOCK;
        for (ptrdiff_t o = 0; o < outputs; o++)
            for (ptrdiff_t j = 0; j < end; j++)
                to[(t + j) * outputs + o] = o < channels ? g[o * positions + t + j] : 0;
    }
}

/* Write out [samples, kernel, outputs] for x [samples, entries] and g [samples,
   channels, T]; ``outputs`` is the next multiple of a vector's length.

   Position t is the (t % width)-th of row t / width; its first entry is
   row[t / width] + step * (t % width).  ``length`` is that of a vector, at most
   lanes(); ``scratch`` holds T * outputs numbers. */
EXPORT void patch_products(
    const float *x, ptrdiff_t entries, const float *g, ptrdiff_t channels, float *out,
    ptrdiff_t samples, const ptrdiff_t *row, ptrdiff_t rows, ptrdiff_t width,
    ptrdiff_t step, const ptrdiff_t *offset, ptrdiff_t kernel, ptrdiff_t outputs,
    int length, float *scratch) {
#if defined(__x86_64__)
    for (ptrdiff_t i = 0; i < samples; i++) {
        const float *own = x + i * entries;
        float *to = out + i * kernel * outputs, *its = scratch;
        transpose(g + i * channels * rows * width, channels, rows * width, outputs, its);
        if (length == 16)
            sums_avx512(own, row, rows, width, step, offset, kernel, its, outputs, to);
        else
            sums_avx2(own, row, rows, width, step, offset, kernel, its, outputs, to);
    }
#endif
}

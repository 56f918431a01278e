/* Per-sample gradients of convolutions, without copies of patches.

   The gradient of a sample is a sum over output positions t:

       out[k][o] = sum_t x[start(t) + offset[k]] * g[t][o]

   with k an entry of the kernel and o an output channel.  A tile of TILE entries by two
   vectors of channels is summed in registers over all positions, in order.  A position
   reads two vectors of g and TILE numbers of x, and writes nothing.  Before the sums
   leave the registers, their squares are added to the sample's squared norm.

   The loops use the vector types of GCC and Clang, and are compiled for AVX-512 and for
   AVX2.  On other processors lanes() is 0, and the functions here must not be called.
*/

#include "units.h"

#if defined(__x86_64__)

/* Defines SUMS(x, row, rows, width, step, offset, kernel, g, count, outputs, out) for
   vectors of LANES floats.  It computes the sums of ``count`` channels, one or two
   vectors, for all entries of the kernel, and returns the squared norm of these sums:
   2 TILE squares are added in float, the rest in double. */
#define SUMS_OF(SUMS, LANES, TILE, TARGET)                                             \
    typedef float SUMS##_vector __attribute__((vector_size(4 * LANES), aligned(4)));   \
    typedef double SUMS##_doubles __attribute__((vector_size(8 * LANES), aligned(8))); \
                                                                                       \
    INLINE TARGET void SUMS##_tile(                                                    \
        const float *x, const ptrdiff_t *row, ptrdiff_t rows, ptrdiff_t width,         \
        ptrdiff_t step, const ptrdiff_t *offset, ptrdiff_t left, const float *g,       \
        ptrdiff_t outputs, float *out, SUMS##_doubles *squares, const int vectors) {   \
        _Pragma("GCC unroll 16") for (int k = 0; k < TILE; k++)                        \
            _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++)                  \
                __builtin_prefetch(out + k * outputs + v * LANES, 1);                  \
        SUMS##_vector sum[TILE][2] = {0}, square = {0};                                \
        const float *entry[TILE];                                                      \
        for (ptrdiff_t r = 0; r < rows; r++) {                                         \
            _Pragma("GCC unroll 16") for (int k = 0; k < TILE; k++)                    \
                entry[k] = x + row[r] + offset[k < left ? k : left - 1];               \
            for (ptrdiff_t i = 0; i < width; i++, g += vectors * LANES)                \
                _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) {            \
                    SUMS##_vector backprop = *(const SUMS##_vector *)(g + v * LANES);  \
                    _Pragma("GCC unroll 16") for (int k = 0; k < TILE; k++)            \
                        sum[k][v] += entry[k][i * step] * backprop;                    \
                }                                                                      \
        }                                                                              \
        _Pragma("GCC unroll 16") for (int k = 0; k < TILE; k++)                        \
            if (k < left)                                                              \
                _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) {            \
                    *(SUMS##_vector *)(out + k * outputs + v * LANES) = sum[k][v];     \
                    square += sum[k][v] * sum[k][v];                                   \
                }                                                                      \
        *squares += __builtin_convertvector(square, SUMS##_doubles);                   \
    }                                                                                  \
                                                                                       \
    static TARGET double SUMS(                                                         \
        const float *x, const ptrdiff_t *row, ptrdiff_t rows, ptrdiff_t width,         \
        ptrdiff_t step, const ptrdiff_t *offset, ptrdiff_t kernel, const float *g,     \
        ptrdiff_t count, ptrdiff_t outputs, float *out) {                              \
        SUMS##_doubles squares = {0};                                                  \
        double total = 0;                                                              \
        for (ptrdiff_t k = 0; k < kernel; k += TILE)                                   \
            if (count > LANES)                                                         \
                SUMS##_tile(x, row, rows, width, step, offset + k, kernel - k, g,      \
                            outputs, out + k * outputs, &squares, 2);                  \
            else                                                                       \
                SUMS##_tile(x, row, rows, width, step, offset + k, kernel - k, g,      \
                            outputs, out + k * outputs, &squares, 1);                  \
        for (int lane = 0; lane < LANES; lane++) total += squares[lane];               \
        return total;                                                                  \
    }

SUMS_OF(sums_avx512, 16, 12, __attribute__((target("avx512f,fma"))))
SUMS_OF(sums_avx2, 8, 6, __attribute__((target("avx2,fma"))))

#endif

/* Writes g [channels, T] as [T, padded], padded with zeros.

   All channels of a block of positions are written while the block is in cache. */
static void transpose(
    const float *g, ptrdiff_t channels, ptrdiff_t positions, ptrdiff_t padded,
    float *to) {
    enum { BLOCK = 16 };
    for (ptrdiff_t t = 0; t < positions; t += BLOCK) {
        const ptrdiff_t end = positions - t < BLOCK ? positions - t : BLOCK;
        for (ptrdiff_t o = 0; o < padded; o++)
            for (ptrdiff_t j = 0; j < end; j++)
                to[(t + j) * padded + o] = o < channels ? g[o * positions + t + j] : 0;
    }
}

/* Positions form rows of width positions.  The offset of position t in a sample is
   row[t / width] + step * (t % width). */
struct job {
    struct team team;       /* row: a block of a sample's channels; one column */
    const float *x;         /* [samples, entries] */
    const float *g;         /* [samples, channels, rows * width] */
    float *out;             /* [samples, kernel, outputs] */
    double *squares;        /* [samples, blocks], squared norms of out */
    float *scratch;         /* [threads, rows * width, 2 * length] */
    const ptrdiff_t *row;   /* [rows] */
    const ptrdiff_t *offset; /* [kernel] */
    ptrdiff_t samples, entries, channels, rows, width, step, kernel;
    ptrdiff_t outputs;      /* channels, rounded up to a multiple of length */
    ptrdiff_t blocks;       /* of 2 * length outputs; the last may have length */
    ptrdiff_t length;       /* floats per vector, at most lanes() */
};

/* A caller compares this size with its definition of the struct before it calls. */
EXPORT size_t job_bytes(void) { return sizeof(struct job); }

/* Writes out and squares.  Any number of threads may share a job. */
EXPORT void patch_products(struct job *job) {
#if defined(__x86_64__)
    const ptrdiff_t positions = job->rows * job->width, block = 2 * job->length;
    struct unit unit = {.owner = thread_number(&job->team)};
    float *backprops = job->scratch + unit.owner * positions * block;
    while (take(&job->team, &unit)) {
        const ptrdiff_t i = unit.row / job->blocks, o = unit.row % job->blocks * block;
        const ptrdiff_t left = job->outputs - o, count = left < block ? left : block;
        const float *entries = job->x + i * job->entries;
        float *to = job->out + i * job->kernel * job->outputs + o;
        transpose(job->g + (i * job->channels + o) * positions, job->channels - o,
                  positions, count, backprops);
        job->squares[unit.row] = (job->length == 16 ? sums_avx512 : sums_avx2)(
            entries, job->row, job->rows, job->width, job->step, job->offset,
            job->kernel, backprops, count, job->outputs, to);
    }
#endif
}

/* The steps of an LSTM, forward and backward.

   Gates are in the order i, f, g, o.  h' and c' are the hidden state and the memory
   before a step.  A forward step adds W h' to the linear map of the inputs, and computes

       c = sigmoid(f) c' + sigmoid(i) tanh(g),   m = sigmoid(o) tanh(c)

   and h, which is m or a projection of m.  A backward step computes, with dm and dc the
   gradients of m and c,

       do = dm tanh(c) o (1 - o),   dc += dm o (1 - tanh(c)^2)
       di = dc g i (1 - i),   df = dc c' f (1 - f),   dg = dc i (1 - g^2),   dc' = dc f

   and dh', the gates' gradients times W.

   Samples are independent: a thread takes a unit of samples through all steps.  The
   matrices are packed, so that ROWS samples by two vectors of outputs are summed in
   registers over all inputs, in order.  The bits of a sample do not depend on the other
   samples.

   The loops use the vector types of GCC and Clang, and are compiled for AVX-512 and for
   AVX2.  On other processors lanes() is 0, and the functions here must not be called.

   The polynomial is a minimax fit, printed by `python -m tools.fit_exponential`. */

#include <stdint.h>
#include <string.h>

#include "units.h"

/* exp(r) - 1 = r + r^2 EXP(r) for |r| <= log(2) / 2 */
static const float EXP[6] = {
    0x1p-1f, 0x1.555554p-3f, 0x1.5554b2p-5f, 0x1.11118ap-7f, 0x1.6d71e6p-10f, 0x1.a0334p-13f,
};
/* log(2) as the sum of two floats.  The first has 9 binary digits, so that its products
   with an exponent are exact. */
static const float LN2[2] = {0x1.62p-1f, 0x1.c85fep-10f};
static const float LOG2E = 0x1.715476p0f;
/* Adding this to a float rounds it to an integer, which is then in the last bits. */
static const float ROUNDING_SHIFT = 0x1.8p+23f;
/* Largest argument: exp(-87) is a normal float, and 1 + exp(-87) is 1 in float. */
static const float MAX_ARGUMENT = 87;

INLINE float of_bits(int32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE int32_t bits_of(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* exp(x) = power exp(r) = power (1 + minus_one), with power a power of 2 */
struct exponential {
    float power, minus_one;
};

/* Requires |x| <= MAX_ARGUMENT.  If x is NaN, minus_one is NaN. */
INLINE struct exponential exponential(float x) {
    float shifted = x * LOG2E + ROUNDING_SHIFT, k = shifted - ROUNDING_SHIFT;
    float r = (x - k * LN2[0]) - k * LN2[1];
    float p = ((((EXP[5] * r + EXP[4]) * r + EXP[3]) * r + EXP[2]) * r + EXP[1]) * r;
    struct exponential result = {
        of_bits((int32_t)((uint32_t)bits_of(shifted) << 23) + 0x3f800000),
        r + r * r * (p + EXP[0]),
    };
    return result;
}

INLINE float sigmoid(float x) {
    x = x > MAX_ARGUMENT ? MAX_ARGUMENT : x < -MAX_ARGUMENT ? -MAX_ARGUMENT : x;
    struct exponential e = exponential(-x);
    return 1 / (1 + (e.power + e.power * e.minus_one));
}

/* Returns (1 - exp(-2 |x|)) / (1 + exp(-2 |x|)) with the sign of x. */
INLINE float hyperbolic_tangent(float x) {
    float size = x < 0 ? -x : x;
    const float max_size = MAX_ARGUMENT / 2;
    struct exponential e = exponential(-2 * (size > max_size ? max_size : size));
    float minus_one = (e.power - 1) + e.power * e.minus_one;
    float result = -minus_one / (2 + minus_one);
    return x < 0 ? -result : result;
}

/* Outputs per block of a packed matrix, [blocks, inputs, BLOCK].  The last block is
   padded with zeros. */
enum { BLOCK = 32 };

/* T steps, B samples, H hidden units, P outputs.  All arrays are contiguous. */
struct sequence {
    struct team team;       /* one row; column: a unit of samples */
    float *gates;           /* [T, B, 4 H]; backward overwrites them with gradients */
    float *unprojected;     /* m, [T, B, H] */
    float *outputs;         /* [T, B, P]; equals unprojected without a projection */
    float *tanh_memory;     /* tanh(c), [T, B, H] */
    float *memory_before;   /* c', [T, B, H] */
    float *hidden_before;   /* h', [B, T, P] */
    float *hidden;          /* h, [B, P], initial and then final; backward dh */
    float *memory;          /* c, [B, H], initial and then final; backward dc */
    const float *active;    /* [T, B], 0 where h and c do not change; NULL: all 1 */
    const float *recurrent; /* W, packed; backward its transpose */
    const float *projection; /* packed; backward its transpose; NULL: h is m */
    const float *arriving;  /* gradients of the outputs, [T, B, P]; backward only */
    float *totals;          /* gradients of the projection's results, [T, B, P] */
    float *scratch;         /* [threads, unit, P + H]; backward only */
    ptrdiff_t steps, samples, hidden_units, output_units;
    ptrdiff_t is_reverse;   /* if true, the last step runs first */
    ptrdiff_t unit;         /* samples of a column; the last may have fewer */
    ptrdiff_t length;       /* floats per vector, at most lanes() */
};

/* A caller compares this size with its definition of the struct before it calls. */
EXPORT size_t job_bytes(void) { return sizeof(struct sequence); }

INLINE void forward(float *restrict gates, const float *restrict before, int is_active,
                    float *restrict memory, float *restrict tanh_memory,
                    float *restrict output, ptrdiff_t hidden) {
    for (ptrdiff_t j = 0; j < hidden; j++) {
        const float i = sigmoid(gates[j]), f = sigmoid(gates[hidden + j]);
        const float g = hyperbolic_tangent(gates[2 * hidden + j]);
        const float o = sigmoid(gates[3 * hidden + j]);
        const float c = f * before[j] + i * g, tanh_c = hyperbolic_tangent(c);
        gates[j] = i;
        gates[hidden + j] = f;
        gates[2 * hidden + j] = g;
        gates[3 * hidden + j] = o;
        memory[j] = is_active ? c : before[j];
        tanh_memory[j] = tanh_c;
        output[j] = o * tanh_c;
    }
}

INLINE void backward(float *restrict gates, const float *restrict before,
                     const float *restrict tanh_memory, const float *restrict of_output,
                     float *restrict of_memory, ptrdiff_t hidden) {
    for (ptrdiff_t j = 0; j < hidden; j++) {
        const float i = gates[j], f = gates[hidden + j];
        const float g = gates[2 * hidden + j], o = gates[3 * hidden + j];
        const float tanh_c = tanh_memory[j], dm = of_output[j];
        const float dc = of_memory[j] + dm * o * (1 - tanh_c * tanh_c);
        gates[j] = dc * g * (i * (1 - i));
        gates[hidden + j] = dc * before[j] * (f * (1 - f));
        gates[2 * hidden + j] = dc * i * (1 - g * g);
        gates[3 * hidden + j] = dm * tanh_c * (o * (1 - o));
        of_memory[j] = dc * f;
    }
}

#if defined(__x86_64__)

INLINE ptrdiff_t at_most(ptrdiff_t n, ptrdiff_t max) { return n < max ? n : max; }

INLINE void copy(float *to, const float *from, ptrdiff_t n) { memcpy(to, from, 4 * n); }

/* Defines NAME_forward and NAME_backward(job, first, end, scratch) for vectors of LANES
   floats.  They run all steps of the samples first to end - 1. */
#define STEPS(NAME, LANES, ROWS, TARGET)                                               \
    typedef float NAME##_vector __attribute__((vector_size(4 * LANES), aligned(4)));   \
                                                                                       \
    /* Writes x [rows, inputs] times a packed matrix to out [rows, outputs], or adds   \
       the product to out. */                                                          \
    INLINE TARGET void NAME##_product(                                                 \
        const float *x, ptrdiff_t rows, ptrdiff_t inputs, const float *packed,         \
        ptrdiff_t outputs, float *out, const int adds) {                               \
        for (ptrdiff_t o = 0; o < outputs; o += 2 * LANES) {                           \
            const float *block = packed + o / BLOCK * BLOCK * inputs + o % BLOCK;      \
            const ptrdiff_t count = at_most(outputs - o, 2 * LANES);                   \
            for (ptrdiff_t first = 0; first < rows; first += ROWS) {                   \
                NAME##_vector sum[ROWS][2] = {0};                                      \
                const float *row[ROWS];                                                \
                for (int r = 0; r < ROWS; r++)                                         \
                    row[r] = x + at_most(first + r, rows - 1) * inputs;                \
                for (ptrdiff_t k = 0; k < inputs; k++) {                               \
                    const float *column = block + k * BLOCK;                           \
                    const NAME##_vector low = *(const NAME##_vector *)column;          \
                    const NAME##_vector high =                                         \
                        *(const NAME##_vector *)(column + LANES);                      \
                    _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {          \
                        sum[r][0] += row[r][k] * low;                                  \
                        sum[r][1] += row[r][k] * high;                                 \
                    }                                                                  \
                }                                                                      \
                _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {              \
                    if (first + r >= rows) break;                                      \
                    float *to = out + (first + r) * outputs + o, part[2 * LANES];      \
                    float *whole = count == 2 * LANES ? to : part;                     \
                    if (adds) copy(part, to, count);                                   \
                    NAME##_vector *low = (NAME##_vector *)whole;                       \
                    NAME##_vector *high = (NAME##_vector *)(whole + LANES);            \
                    *low = adds ? *(NAME##_vector *)part + sum[r][0] : sum[r][0];      \
                    *high = adds ? *(NAME##_vector *)(part + LANES) + sum[r][1]        \
                                 : sum[r][1];                                          \
                    if (whole == part) copy(to, part, count);                          \
                }                                                                      \
            }                                                                          \
        }                                                                              \
    }                                                                                  \
                                                                                       \
    static TARGET void NAME##_forward(                                                 \
        const struct sequence *job, ptrdiff_t first, ptrdiff_t end, float *scratch) {  \
        const ptrdiff_t hidden = job->hidden_units, width = job->output_units;         \
        (void)scratch;                                                                 \
        for (ptrdiff_t step = 0; step < job->steps; step++) {                          \
            const ptrdiff_t t = job->is_reverse ? job->steps - 1 - step : step;        \
            const ptrdiff_t row = t * job->samples, n = end - first;                   \
            NAME##_product(job->hidden + first * width, n, width, job->recurrent,      \
                           4 * hidden, job->gates + (row + first) * 4 * hidden, 1);    \
            for (ptrdiff_t b = first; b < end; b++) {                                  \
                const ptrdiff_t at = (row + b) * hidden;                               \
                float *memory = job->memory + b * hidden;                              \
                copy(job->hidden_before + (b * job->steps + t) * width,                \
                     job->hidden + b * width, width);                                  \
                copy(job->memory_before + at, memory, hidden);                         \
                forward(job->gates + 4 * at, job->memory_before + at,                  \
                        job->active == NULL || job->active[row + b] > 0, memory,       \
                        job->tanh_memory + at, job->unprojected + at, hidden);         \
            }                                                                          \
            if (job->projection)                                                       \
                NAME##_product(job->unprojected + (row + first) * hidden, n, hidden,   \
                               job->projection, width,                                 \
                               job->outputs + (row + first) * width, 0);               \
            for (ptrdiff_t b = first; b < end; b++)                                    \
                if (job->active == NULL || job->active[row + b] > 0)                   \
                    copy(job->hidden + b * width, job->outputs + (row + b) * width,    \
                         width);                                                       \
        }                                                                              \
    }                                                                                  \
                                                                                       \
    static TARGET void NAME##_backward(                                                \
        const struct sequence *job, ptrdiff_t first, ptrdiff_t end, float *scratch) {  \
        const ptrdiff_t hidden = job->hidden_units, width = job->output_units;         \
        const ptrdiff_t n = end - first;                                               \
        float *of_states = scratch, *of_hidden = scratch + n * hidden;                 \
        for (ptrdiff_t step = 0; step < job->steps; step++) {                          \
            const ptrdiff_t t = job->is_reverse ? step : job->steps - 1 - step;        \
            const ptrdiff_t row = t * job->samples;                                    \
            float *totals =                                                            \
                job->projection ? job->totals + (row + first) * width : of_states;     \
            for (ptrdiff_t b = first; b < end; b++) {                                  \
                const int is_active = job->active == NULL || job->active[row + b] > 0; \
                const float *arriving = job->arriving + (row + b) * width;             \
                const float *later = job->hidden + b * width;                          \
                float *total = totals + (b - first) * width;                           \
                for (ptrdiff_t j = 0; j < width; j++)                                  \
                    total[j] = is_active ? arriving[j] + later[j] : 0;                 \
            }                                                                          \
            if (job->projection)                                                       \
                NAME##_product(totals, n, width, job->projection, hidden, of_states,   \
                               0);                                                     \
            for (ptrdiff_t b = first; b < end; b++) {                                  \
                const ptrdiff_t at = (row + b) * hidden;                               \
                if (job->active == NULL || job->active[row + b] > 0)                   \
                    backward(job->gates + 4 * at, job->memory_before + at,             \
                             job->tanh_memory + at, of_states + (b - first) * hidden,  \
                             job->memory + b * hidden, hidden);                        \
                else                                                                   \
                    memset(job->gates + 4 * at, 0, 4 * 4 * hidden);                    \
            }                                                                          \
            NAME##_product(job->gates + (row + first) * 4 * hidden, n, 4 * hidden,     \
                           job->recurrent, width, of_hidden, 0);                       \
            for (ptrdiff_t b = first; b < end; b++)                                    \
                if (job->active == NULL || job->active[row + b] > 0)                   \
                    copy(job->hidden + b * width, of_hidden + (b - first) * width,     \
                         width);                                                       \
        }                                                                              \
    }

STEPS(steps_avx512, 16, 8, __attribute__((target("avx512f,fma"))))
STEPS(steps_avx2, 8, 4, __attribute__((target("avx2,fma"))))

typedef void run(const struct sequence *, ptrdiff_t, ptrdiff_t, float *);

/* Runs units of samples until all are taken.  Any number of threads may share a job. */
static void run_all(struct sequence *job, run *run_some) {
    struct unit unit = {.owner = thread_number(&job->team)};
    const ptrdiff_t numbers = job->unit * (job->hidden_units + job->output_units);
    float *scratch = job->scratch + unit.owner * numbers;
    while (take(&job->team, &unit)) {
        const ptrdiff_t first = unit.column * job->unit;
        run_some(job, first, at_most(first + job->unit, job->samples), scratch);
    }
}

/* Writes gates, unprojected, outputs, tanh_memory, memory_before, hidden_before, hidden
   and memory. */
EXPORT void lstm_forward(struct sequence *job) {
    run_all(job, job->length == 16 ? steps_avx512_forward : steps_avx2_forward);
}

/* Writes gates, hidden, memory and totals. */
EXPORT void lstm_backward(struct sequence *job) {
    run_all(job, job->length == 16 ? steps_avx512_backward : steps_avx2_backward);
}

#else

EXPORT void lstm_forward(struct sequence *job) { (void)job; }
EXPORT void lstm_backward(struct sequence *job) { (void)job; }

#endif

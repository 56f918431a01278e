/* The element-wise part of one step of an LSTM, forward and backward: one pass each.

   Gates are [i f g o].  Forward, from what the linear maps give:

       c = sigmoid(f) c' + sigmoid(i) tanh(g),   m = sigmoid(o) tanh(c)

   Backward, with dm and dc the gradients of m and c:

       do = dm tanh(c) o (1 - o),   dc += dm o (1 - tanh(c)^2)
       di = dc g i (1 - i),   df = dc c' f (1 - f),   dg = dc i (1 - g^2),   dc' = dc f

   The polynomial is a minimax fit, printed by `python -m tools.fit_exponential`. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* One copy for each level of x86-64; the loader chooses by the processor. */
#if defined(__x86_64__)
#define FOR_EACH_PROCESSOR \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif
#define INLINE static inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))

/* exp(r) - 1 = r + r^2 EXP(r), |r| up to log(2) / 2 */
static const float EXP[6] = {
    0x1p-1f, 0x1.555554p-3f, 0x1.5554b2p-5f, 0x1.11118ap-7f, 0x1.6d71e6p-10f, 0x1.a0334p-13f,
};
/* log(2) in two parts, of which the first has 9 digits: its multiples are exact */
static const float LN2[2] = {0x1.62p-1f, 0x1.c85fep-10f};
static const float LOG2E = 0x1.715476p0f;
/* Adding it rounds to a whole number, which the last bits then hold. */
static const float WHOLE = 0x1.8p+23f;
/* exp(-MOST) is an ordinary float, and 1 + exp(-MOST) is 1 */
static const float MOST = 87;

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

/* exp(x) - 1 = power (r + 1) - 1 with exp(x) = power exp(r) */
struct exponential {
    float power, less_one;
};

/* Of -MOST <= x <= MOST; where x is NaN, less_one is. */
INLINE struct exponential exponential(float x) {
    float shifted = x * LOG2E + WHOLE, k = shifted - WHOLE;
    float r = (x - k * LN2[0]) - k * LN2[1];
    float p = ((((EXP[5] * r + EXP[4]) * r + EXP[3]) * r + EXP[2]) * r + EXP[1]) * r;
    struct exponential result = {
        of_bits((int32_t)((uint32_t)bits_of(shifted) << 23) + 0x3f800000),
        r + r * r * (p + EXP[0]),
    };
    return result;
}

INLINE float sigmoid(float x) {
    x = x > MOST ? MOST : x < -MOST ? -MOST : x;
    struct exponential e = exponential(-x);
    return 1 / (1 + (e.power + e.power * e.less_one));
}

/* -(exp(-2 |x|) - 1) / (exp(-2 |x|) + 1), with the sign of x */
INLINE float hyperbolic_tangent(float x) {
    float size = x < 0 ? -x : x;
    struct exponential e = exponential(-2 * (size > MOST / 2 ? MOST / 2 : size));
    float less_one = (e.power - 1) + e.power * e.less_one;
    float result = -less_one / (2 + less_one);
    return x < 0 ? -result : result;
}

/* Arrays are [samples, hidden] unless said otherwise, and contiguous. */
struct step {
    float *gates;         /* [samples, 4 hidden]; their gradients overwrite them */
    const float *before;  /* c' */
    const float *active;  /* [samples], 0 where c' is kept; NULL: 1 for all */
    float *memory;        /* c */
    float *tanh_memory;
    float *output;        /* m */
    const float *dm;
    float *dc;            /* and then dc' */
    ptrdiff_t samples, hidden;
    ptrdiff_t next;       /* the first sample that no thread has taken */
};

/* By which a caller sees whether it has the same struct in mind. */
EXPORT size_t step_bytes(void) { return sizeof(struct step); }

enum { AT_ONCE = 8 }; /* samples that a thread takes */

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

/* Take the next samples, from *first to before *end; 0 if none is left.  Any number of
   threads may work on a step together. */
INLINE int take(struct step *step, ptrdiff_t *first, ptrdiff_t *end) {
    *first = __atomic_fetch_add(&step->next, AT_ONCE, __ATOMIC_RELAXED);
    *end = step->samples - *first < AT_ONCE ? step->samples : *first + AT_ONCE;
    return *first < *end;
}

/* Write gates, memory, tanh_memory and output. */
EXPORT FOR_EACH_PROCESSOR void lstm_forward(struct step *step) {
    const ptrdiff_t hidden = step->hidden;
    for (ptrdiff_t first, end; take(step, &first, &end);)
        for (ptrdiff_t b = first, at = b * hidden; b < end; b++, at += hidden)
            forward(step->gates + 4 * at, step->before + at,
                    step->active == NULL || step->active[b] > 0, step->memory + at,
                    step->tanh_memory + at, step->output + at, hidden);
}

/* Write the gradients at the gates, 0 where a sample is not active, and dc'. */
EXPORT FOR_EACH_PROCESSOR void lstm_backward(struct step *step) {
    const ptrdiff_t hidden = step->hidden;
    for (ptrdiff_t first, end; take(step, &first, &end);)
        for (ptrdiff_t b = first, at = b * hidden; b < end; b++, at += hidden)
            if (step->active == NULL || step->active[b] > 0)
                backward(step->gates + 4 * at, step->before + at,
                         step->tanh_memory + at, step->dm + at, step->dc + at, hidden);
            else
                for (ptrdiff_t j = 0; j < 4 * hidden; j++) step->gates[4 * at + j] = 0;
}

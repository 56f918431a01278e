/* Adds normal numbers from random bits to a sum and rounds it to a grid, in one pass.

   noise/secure.py describes the transform, its source and what it idealizes;
   backends/box_muller.py computes it with torch.  The polynomials are minimax fits,
   printed by `python -m tools.fit_box_muller`.  Their errors are below a seventh of the
   rounding of a float. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The compiler makes one copy for each level of x86-64, and the loader chooses one. */
#if defined(__x86_64__)
#define FOR_EACH_PROCESSOR \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif
#define INLINE static inline __attribute__((always_inline))

/* log(1 + f) = f - f^2 / 2 + f^3 LOG(f) for f from sqrt(1/2) - 1 to sqrt(2) - 1 */
static const float LOG[8] = {
    0x1.555554p-2f, -0x1.000226p-2f, 0x1.99a008p-3f, -0x1.547248p-3f,
    0x1.22da2ep-3f, -0x1.0d8534p-3f, 0x1.055afp-3f, -0x1.38b49cp-4f,
};
/* sin(x) = x + x^3 SIN(x^2), cos(x) = 1 - x^2 / 2 + x^4 COS(x^2) for |x| <= pi / 4 */
static const float SIN[3] = {-0x1.555546p-3f, 0x1.11073cp-7f, -0x1.9943e4p-13f};
static const float COS[3] = {0x1.55554ap-5f, -0x1.6c0c34p-10f, 0x1.99eb9ep-16f};
/* log(2) as the sum of two floats */
static const float LN2[2] = {0x1.62e43p-1f, -0x1.05c61p-29f};
/* radians per step of an angle of 32 bits, pi 2^-31 */
static const float TURN = 0x1.921fb6p-30f;

static const int32_t SQRT_HALF = 0x3f3504f3; /* the bits of sqrt(1/2) */
static const int32_t MAX_INT32 = 0x7fffffff;

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

/* (2^31 high + low + 1/2) 2^-62, in (0, 1) */
INLINE float fraction(int32_t high, int32_t low) {
    return fmaf((float)high, 0x1p-31f, fmaf((float)low, 0x1p-62f, 0x1p-63f));
}

INLINE float log_polynomial(float f) {
    float p = fmaf(LOG[7], f, LOG[6]);
    p = fmaf(fmaf(p, f, LOG[5]), f, LOG[4]);
    p = fmaf(fmaf(p, f, LOG[3]), f, LOG[2]);
    return fmaf(fmaf(p, f, LOG[1]), f, LOG[0]);
}

/* Returns sqrt(-log U), with U the fraction of the bits.  Near 1 a float has too few
   digits for U, but not for 1 - U, so the logarithm is computed from 1 - U. */
INLINE float radius(int64_t bits) {
    int32_t high = (int32_t)(bits >> 32) & MAX_INT32, low = (int32_t)bits & MAX_INT32;
    int32_t is_upper = high >> 30, flip = -is_upper & MAX_INT32;
    float least = fraction(high ^ flip, low ^ flip); /* the smaller of U and 1 - U */
    float u = is_upper ? 1.0f - least : least;
    int32_t exponent = (bits_of(u) - SQRT_HALF) >> 23; /* u = 2^exponent (1 + f) */
    float f = of_bits(bits_of(u) - exponent * (1 << 23)) - 1.0f;
    f = is_upper & (exponent == 0) ? -least : f;
    float square = f * f;
    float log1p = f + fmaf(square * f, log_polynomial(f), -0.5f * square);
    float k = (float)exponent;
    return sqrtf(-fmaf(k, LN2[0], fmaf(k, LN2[1], log1p)));
}

struct wave {
    float cosine, sine;
};

/* Returns cosine and sine of the angle pi 2^-31 bits.  The nearest quarter turn is
   subtracted in integers, which is exact. */
INLINE struct wave wave(int32_t bits) {
    uint32_t angle = (uint32_t)bits;
    uint32_t quarters = (angle + 0x20000000u) >> 30;
    float x = (float)(int32_t)(angle - (quarters << 30)) * TURN;
    float square = x * x;
    float s = fmaf(fmaf(SIN[2], square, SIN[1]), square, SIN[0]);
    float c = fmaf(fmaf(COS[2], square, COS[1]), square, COS[0]);
    float sine = fmaf(square * x, s, x);
    float cosine = fmaf(square * square, c, fmaf(square, -0.5f, 1.0f));
    int is_odd = quarters & 1;
    int32_t cosine_sign = (int32_t)((quarters + 1) >> 1 << 31);
    int32_t sine_sign = (int32_t)(quarters >> 1 << 31);
    struct wave result = {
        of_bits(bits_of(is_odd ? sine : cosine) ^ cosine_sign),
        of_bits(bits_of(is_odd ? cosine : sine) ^ sine_sign),
    };
    return result;
}

/* Rounds to whole grid steps: the spacing of floats near the shift, 1.5 / eps grid
   steps, is one grid step. */
INLINE float on_grid(float value, float shift) {
    return (value + shift) - shift;
}

/* Adds scale sqrt(-log U) (cos t, sin t) to the values, rounds to the grid and divides.
   Each sum is rounded once before it is rounded to the grid.  Returns the values'
   squared norm before the noise.

   values: [count]; cosines are added to the first half, sines to the second.
   radius_bits: [ceil(count / 2)], of which 62 bits each are used.
   angle_bits: [ceil(count / 2)]. */
FOR_EACH_PROCESSOR
float add_normals_and_divide(float *restrict values, ptrdiff_t count,
                             const int64_t *restrict radius_bits,
                             const int32_t *restrict angle_bits, float scale,
                             float shift, float divisor) {
    ptrdiff_t pairs = count / 2, half = count - pairs;
    float *restrict first = values, *restrict second = values + half;
    float square = 0;
#pragma omp simd reduction(+ : square)
    for (ptrdiff_t i = 0; i < pairs; i++) {
        square += first[i] * first[i] + second[i] * second[i];
        float r = radius(radius_bits[i]) * scale;
        struct wave w = wave(angle_bits[i]);
        first[i] = on_grid(fmaf(r, w.cosine, first[i]), shift) / divisor;
        second[i] = on_grid(fmaf(r, w.sine, second[i]), shift) / divisor;
    }
    if (pairs < half) { /* count is odd: the sine of the last pair is not used */
        float r = radius(radius_bits[pairs]) * scale;
        float sum = fmaf(r, wave(angle_bits[pairs]).cosine, first[pairs]);
        square += first[pairs] * first[pairs];
        first[pairs] = on_grid(sum, shift) / divisor;
    }
    return square;
}

/* Returns 1 if this processor has a fused multiply-add.  Without it, fmaf is a slow
   function of the C library. */
int rounds_once(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
#elif defined(__FP_FAST_FMAF)
    return 1;
#else
    return 0;
#endif
}

/* Units of work that torch's threads share, and the length of the processor's vectors.

   The units of a job form a table of rows and columns.  Each thread starts with a fixed
   range of columns, which depends only on the number of threads.  The gradients that a
   thread computes are therefore still in its cache when it sums the same columns in the
   next job.  A thread that has finished its columns takes units of other threads. */

#ifndef UNITS_H
#define UNITS_H

#include <stddef.h>

#define INLINE static inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))

enum { MAX_THREADS = 64 };

struct team {
    int (*number)(void);    /* number of the calling thread, from 0; NULL: one thread */
    ptrdiff_t threads;      /* at most MAX_THREADS */
    ptrdiff_t rows, columns;
    ptrdiff_t taken[MAX_THREADS]; /* number of units taken of each thread's columns */
};

struct unit {
    ptrdiff_t row, column;
    ptrdiff_t first, end;   /* columns of the owner */
    ptrdiff_t owner;        /* the thread that starts with this column */
};

INLINE ptrdiff_t thread_number(const struct team *team) {
    return team->number ? team->number() : 0;
}

/* Takes a unit that no thread has taken; returns 0 if all units are taken.  On entry,
   unit->owner is the thread whose columns are tried first: the calling thread in the
   first call, and the owner of the previous unit in later calls. */
INLINE int take(struct team *team, struct unit *unit) {
    for (ptrdiff_t tried = 0; tried < team->threads; tried++) {
        unit->first = unit->owner * team->columns / team->threads;
        unit->end = (unit->owner + 1) * team->columns / team->threads;
        const ptrdiff_t count = unit->end - unit->first;
        ptrdiff_t *taken = &team->taken[unit->owner];
        if (count && __atomic_load_n(taken, __ATOMIC_RELAXED) < team->rows * count) {
            const ptrdiff_t index = __atomic_fetch_add(taken, 1, __ATOMIC_RELAXED);
            if (index < team->rows * count) {
                unit->row = index / count;
                unit->column = unit->first + index % count;
                return 1;
            }
        }
        unit->owner = (unit->owner + 1) % team->threads;
    }
    return 0;
}

/* Returns the floats per vector of the longest vectors that this processor and the
   loops support; 0 if the processor supports neither AVX-512 nor AVX2. */
EXPORT int lanes(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return 16;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 0;
#else
    return 0;
#endif
}

#endif

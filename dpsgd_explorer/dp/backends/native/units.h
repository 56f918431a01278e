/* Units of work that torch's threads share, and the processor's vectors.

   Units lie in a table of rows and columns.  Each thread begins with some columns, the
   same ones of each table that as many threads share: what it has written stays in its
   cache, and is there when it sums what the rows of its columns hold.  A thread without
   units left takes those of others. */

#ifndef UNITS_H
#define UNITS_H

#include <stddef.h>

#define INLINE static inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))

enum { MOST_THREADS = 64 };

struct team {
    int (*number)(void);    /* of the calling thread, from 0; NULL: there is only one */
    ptrdiff_t threads;      /* at most MOST_THREADS */
    ptrdiff_t rows, columns;
    ptrdiff_t taken[MOST_THREADS]; /* units of each thread's columns */
};

struct unit {
    ptrdiff_t row, column;
    ptrdiff_t first, end;   /* columns among which it was taken */
    ptrdiff_t owner;        /* the thread whose columns these are */
};

INLINE ptrdiff_t thread_number(const struct team *team) {
    return team->number ? team->number() : 0;
}

/* Take a unit that no thread has taken; 0 if there is none left.  The unit before says
   whose columns were the last; at first it has this thread's number as its owner. */
INLINE int take(struct team *team, struct unit *unit) {
    for (ptrdiff_t tried = 0; tried < team->threads; tried++) {
        unit->first = unit->owner * team->columns / team->threads;
        unit->end = (unit->owner + 1) * team->columns / team->threads;
        const ptrdiff_t wide = unit->end - unit->first;
        ptrdiff_t *taken = &team->taken[unit->owner];
        if (wide && __atomic_load_n(taken, __ATOMIC_RELAXED) < team->rows * wide) {
            const ptrdiff_t mine = __atomic_fetch_add(taken, 1, __ATOMIC_RELAXED);
            if (mine < team->rows * wide) {
                unit->row = mine / wide;
                unit->column = unit->first + mine % wide;
                return 1;
            }
        }
        unit->owner = (unit->owner + 1) % team->threads;
    }
    return 0;
}

/* Numbers of the longest vector for which there is a copy of a loop; 0 if none is. */
EXPORT int lanes(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return 16;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 0;
#else
    return 0;
#endif
}

#endif

#pragma once
#ifndef ANSWER_H
#define ANSWER_H
#include <cassert>
#include "stdio.h"  // quoted
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define LONG_MACRO(x) \
    do {              \
        (x)++;        \
    } while (0)
#define EMPTY
#if defined(__GNUC__) && !defined(NDEBUG)
#define CHECKED 1
#elif 0
#define CHECKED 0
#else
static int checked;
#endif

int answer(int n) {
#ifdef LOCAL
    printf("%d\n", n);
#else
    LONG_MACRO(n);
#endif
    assert(n > 0 && "positive");
    return MAX(n, 42);
}
#undef MAX

#endif  // ANSWER_H

#include <cstring>
typedef int (*Compare)(const void *, const void *);
int (*table[4])(int) = {nullptr};
void visit(int *items, int n, void (*action)(int &), int (&fixed)[3], char *const names[]) {
    for (int *p = items, *end = items + n; p < end; ++p) action(*p);
    (*action)(fixed[0]);
    volatile int x = -+1;
    int **grid = new int *[n];
    for (int i = 0; i < n; i++) grid[i] = new int[n]();
    *grid[0]++ = 3;
    const char *s = reinterpret_cast<const char *>(grid);
    const_cast<char *>(s)[0] = '\0';
    auto q = static_cast<int *>(*grid);
    x = (int)*q + (x ? *q : -*q) - !x;
    delete grid[0];
}
extern "C" {
int c_function(int, ...);
}
extern "C" double c_other(double x);
union Word { int i; float f; unsigned char bytes[4]; };
struct Flags { unsigned int ready : 1, busy : 2; };
struct { int x, y; } origin = {0, 0}, corners[4];

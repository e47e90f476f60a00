

#include <bits/stdc++.h>
using namespace std;

typedef long long ll;
typedef vector<vector<ll>> Matrix;
const ll MOD = 1'000'000'007LL;

/* Multiplies two
   square matrices. */
Matrix multiply(const Matrix &a, const Matrix &b) {
    int n = (int)a.size();
    Matrix c(n, vector<ll>(n, 0));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; ++j)
            for (int k = 0; k < n; k += 1) {
                c[i][j] = (c[i][j] + a[i][k] * b[k][j] % MOD) % MOD;
            }
    return c;
}

ll fibonacci(ll n) {
    Matrix base = {{1, 1}, {1, 0}}, result = {{1, 0}, {0, 1}};
    while (n > 0) {
        if (n & 1) result = multiply(result, base);
        base = multiply(base, base);
        n >>= 1;
    }
    return result[0][1];
}

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <string>
#include <vector>
using namespace std;

int apply(function<int(int, int)> f, int a, int b) { return f(a, b); }

map<string, int> histogram(const vector<string> &words) {
    map<string, int> counts;
    for (auto &word : words) counts[word]++;
    return counts;
}

vector<int> sorted_by(vector<int> items, bool descending) {
    auto less = [](int a, int b) -> bool { return a < b; };
    auto more = [&less](int a, int b) { return less(b, a); };
    if (descending) sort(items.begin(), items.end(), more);
    else sort(items.begin(), items.end(), less);
    sort(items.begin(), items.end(), greater<int>());
    sort(items.rbegin(), items.rend(), greater<>());
    int offset = 3;
    for_each(items.begin(), items.end(), [=](int &x) mutable { x += offset; });
    transform(items.begin(), items.end(), items.begin(), [&, k = 2](int x) { return x * k; });
    function<int(int)> factorial = [&factorial](int n) { return n <= 1 ? 1 : n * factorial(n - 1); };
    auto total = accumulate(items.begin(), items.end(), 0LL, [](long long a, int b) { return a + b; });
    string lower = "ABC";
    transform(lower.begin(), lower.end(), lower.begin(), ::tolower);
    int once = [] { return 42; }();
    priority_queue<int, vector<int>, greater<int>> heap;
    items.erase(remove_if(items.begin(), items.end(), [](int x) { return x % 2 == 0; }), items.end());
    for (auto &[word, count] : histogram({"a", "b"})) { (void)word; total += count; }
    return items;
}

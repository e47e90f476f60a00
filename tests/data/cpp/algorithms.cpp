#include <algorithm>
#include <climits>
#include <cmath>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>
using namespace std;
#define INF INT_MAX
#define forn(i, n) for (int i = 0; i < (n); ++i)

struct Edge { int to; long long weight; };

vector<long long> dijkstra(const vector<vector<Edge>> &graph, int source) {
    vector<long long> distance(graph.size(), LLONG_MAX);
    priority_queue<pair<long long, int>, vector<pair<long long, int>>, greater<pair<long long, int>>> queue;
    queue.push({distance[source] = 0, source});
    while (!queue.empty()) {
        auto [d, u] = queue.top();
        queue.pop();
        if (d > distance[u]) continue;
        for (const Edge &edge : graph[u]) {
            if (long long next = d + edge.weight; next < distance[edge.to]) {
                distance[edge.to] = next;
                queue.emplace(next, edge.to);
            }
        }
    }
    return distance;
}

int longest_increasing(vector<int> a) {
    vector<int> tails;
    for (int x : a) {
        auto it = lower_bound(tails.begin(), tails.end(), x);
        if (it == tails.end()) tails.push_back(x); else *it = x;
    }
    return tails.size();
}

bool is_prime(int n) {
    if (n < 2) return false;
    for (int i = 2; (long long)i * i <= n; i += (i == 2 ? 1 : 2)) if (n % i == 0) return false;
    return true;
}

int gcd(int a, int b) { return b ? gcd(b, a % b) : a; }

int edit_distance(string s, string t) {
    int m = s.size(), n = t.size();
    int dp[m + 1][n + 1];
    for (int i = 0; i <= m; i++) for (int j = 0; j <= n; j++) {
        if (!i || !j) dp[i][j] = i + j;
        else dp[i][j] = min({dp[i - 1][j] + 1, dp[i][j - 1] + 1, dp[i - 1][j - 1] + (s[i - 1] != t[j - 1])});
    }
    return dp[m][n];
}
int main() {
    set<int> seen{3, 1, 2};
    unordered_map<string, vector<int>> index = {{"a", {1, 2}}, {"b", {}}};
    for (set<int>::iterator it = seen.begin(); it != seen.end(); it++) if (*it > 1) break;
    for (auto it = index.begin(); it != index.end(); ++it) it->second.push_back((*it).first.size());
    for (;;) { if (seen.count(3)) break; }
    double mean = round(100.0 * 2 / 3) / 100, worst = -1e9;
    int a = 1, b = 2, c; c = a > b ? a : b;
    swap(a, b), c += a * b;
    return is_prime(7) && gcd(12, 18) == 6 && mean > worst && c ? 0 : 1;
}

#include <array>
#include <iostream>
#include <map>
#include <tuple>
#include <type_traits>
#include <vector>

template <typename T>
T largest(const std::vector<T> &items) {
    T best = items[0];
    for (typename std::vector<T>::const_iterator it = items.begin(); it != items.end(); ++it)
        if (*it > best) best = *it;
    return best;
}

template <class... Args>
void print(Args &&...args) {
    (std::cout << ... << args) << '\n';
}

template <typename First, typename... Rest>
auto sum(First first, Rest... rest) {
    if constexpr (sizeof...(rest) == 0) return first;
    else return first + sum(rest...);
}

template <int N>
struct Factorial {
    static constexpr int value = N * Factorial<N - 1>::value;
};
template <>
struct Factorial<0> {
    static constexpr int value = 1;
};

template <typename T, typename = std::enable_if_t<std::is_integral<T>::value>>
constexpr T square(T x) noexcept { return x * x; }

template <typename K, typename V>
using Table = std::map<K, std::vector<V>>;

template <typename T>
class Box {
    T value;
public:
    Box(T v);
    T get() const;
};
template <typename T>
Box<T>::Box(T v) : value(v) {}
template <typename T>
T Box<T>::get() const { return value; }

int main() {
    std::array<int, 3> a{{1, 2, 3}};
    Table<std::string, std::pair<int, std::tuple<int, double>>> table;
    auto [first, second] = std::make_pair(1, 2.5);
    static_assert(Factorial<5>::value == 120, "five");
    print(first, " ", second, " ", largest<int>({1, 2}), std::get<0>(std::make_tuple(1, 'a')));
    return sum(1, 2, 3) + square(a[0] < a[1] ? 2 : 3) > 6;
}

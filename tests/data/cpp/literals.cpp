#include <chrono>
#include <string>
using namespace std::chrono_literals;
using namespace std::string_literals;

int integers[] = {0, 7, 017, 0xDEADbeef, 0b1010'0001, 1'000'000, 42u, 42UL, 42ll, 42ull};
double reals[] = {1., .5, 1.5e10, 2E-3, 1.0f, 3.0L, 6.02'2e+23};
char letters[] = {'a', '\n', '\\', '\'', '\0', '\x41', '\u0041', '"', '?'};
const char *texts[] = {"", "a\tb", "quote: \"", "\x41\102\u00e9", u8"utf", "one"
    "two", "line \
continued", R"(raw \n "text")"};
const wchar_t *wide = L"wide";
auto suffixed = "text"s + std::string("x");
bool flags[3] = {true, false, not true};
int *nothing = nullptr;
auto pause = 100ms + 2s;
constexpr long double operator""_km(long double x) { return x * 1000; }
auto distance = 1.5_km;

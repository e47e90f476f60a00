"""``cd.grammars.CPP`` beside g++ and tree-sitter: whole programs, broken programs, random walks."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from engine_tools import cases
from grammar_tools import Walker
from shared_data import CPP_PROGRAMS, programs

import cdplugin as cd

PROGRAMS = sorted((Path(__file__).parent / "data" / "cpp").glob("*.cpp"))
WORDS = (
    "int char bool double void auto const static unsigned long struct class enum union public: private: virtual override final "
    "template typename using namespace std string vector map typedef if else for while do switch case default: break continue "
    "return goto try catch throw new delete sizeof static_cast constexpr inline operator this true nullptr and or not xor "
    "friend explicit noexcept mutable extern decltype x y foo T main"
).split()
SIGNS = [
    sign.replace("·", " ")
    for sign in r"""
() ){ { } ; }; = , == + -> ++ -- && << >> :: <int> < > <a [0] [ ] [&] ( (x if( for( while( for(auto&x:v) for(int·i=0;i<n;i++)
"a" 'c' 1 10 1.5f 0x1F 1'000 R"( /*c*/ /* */ ... ? : ~ ! * & += operator+ operator() static_cast< std:: vector<int> int·x; x=y;
case·1: struct·A{ class·B:public·A{ template<typename·T> namespace·N{ int·f(int·a,const·T&b) enum·class·E{A,B=2}; {1,2}
""".split()
]
LINES = [
    "\n",
    "\n\n",
    "    ",
    "{\n",
    "}\n",
    ";\n",
    "// c\n",
    "\n#include <a.h>\n",
    "#include <b>\n",
    "\n#define A(x) x",
    "\n#ifdef A\n",
]
LINES += ["\n#else\n", "\n#endif\n"]
WALKER = Walker(WORDS, SIGNS + LINES)
BEGINNINGS = [
    "",
    "int main() {\n",
    "void f(int *x) { if (x[0]",
    "struct A {",
    "int x = ",
    "template <",
    "vector<int> f(",
    "auto f = [",
    "class A { public: A() :",
    "int f() { switch (x) { case 1:",
    "int f() { for (",
    "void g() { x",
    "bool h() { return (",
    "using ",
    "\n#include <a>\n",
    "int f(){ try {",
    "enum ",
    "void f() { a<",
    "int f() {\n#ifdef A\n",
    "template <int (*",
    "int f(enum ",
    "void f() { x = (int (*",
    "void f() { auto g = +[",
    "template <typename T> concept C = ",
    "template <class T> void f(T x) requires ",
    "void f() { f((P){",
    "void f() { int g(int x",
    "struct A { friend ",
    "void f() { static_cast<A&>(x) = ",
    "template <template <class> class C",
    "void f() { asm(",
]
QUIRKS = re.compile(
    r"new\b[^;]*(\*|\b(struct|class|union)\b)"  # new T*[n], new struct T
    r"|\btemplate\b[^<]*\b(struct|class|union)\b"  # template struct T<int>;
    r"|typeid"  # typeid(int)
    r"|\b(final|override)\b"  # as names of classes and variables
    r"|[?:]\s*throw"  # x ? y : throw z
    r"|\"\s*(PRI|SCN|__)"  # "%" PRId64
    r"|\busing\b[^=;]*?(\.\.\.|,|\btypename\b)"  # using A::b, T::operator()...;
    r"|(\.|->)(\s|/\*[^*]*\*/|//[^\n]*\n|[\w:])*\boperator\b"  # a->operator()(1), a->B::operator=(c)
    r"|::(\s|/\*[^*]*\*/|//[^\n]*\n)*\*"  # int A::*p
    r"|->\*|\.\*"  # p->*f
    r"|\binline\s+friend\b"
    r"|\benum\b[^{};]*\{[^}]*#"  # preprocessor lines in enumerations, other than #if
    r"|\b((FAST|fast)_?(IO|io)|FIO|IOS)\b"
    r"|\bco_yield\s*\{"
    r"|\b(TEST_CASE|SCENARIO|TEST_SUITE)\b"
    r"|\b__attribute__\b"  # int x __attribute__((unused)) = 1;
)
"""What tree-sitter's grammar of C++ (0.23) takes for an error although it is none."""
_WORDS = r"\b(?:return|co_return|co_yield|co_await|throw|and|or|xor|bitand|bitor|not_eq|not|compl|delete|sizeof|else|do|case)"
UNKNOWN = re.compile(
    r"(?:^|[;{}>]|(?<!:):)\s*(?!public|private|protected|default)(?:[\w\s]|::)*(?<!:):(?!:)"  # may be struct A { B::C : 3; };
    rf"|(?:^|[^\w\s>&*:]|&&|>>|{_WORDS}|[^\w\s>]\s*[*&])\s*operator\b"  # return !operator==(x);
    rf"|(?:^|[^\w\s<,]|<<|{_WORDS})\s*typename\b"  # f(typename T::type())
    r"|\b(?:unsigned|signed|long)[\s;]*[({]"  # if (unsigned(x) < 10)
    r"|\bexplicit\b[\s\S]*->"  # explicit A(int) -> A<int>;
    r"|(?:^|[;{}>])[\s;]*\w+[\s;]*\([^{}]*\)[\s;]*->[\s;]*\w+[\s;]*<"  # A(int x) -> A<int>;
    r"|\benum[\s;]*:"  # enum : int { X };
    r"|\bdecltype\b[\s\S]*?\)[\s;]*[({]"  # decltype(x){}
    r"|\boperator[\s;]*\S{1,6}[\s;]*\)?[\s;]*<"  # A::operator()<int>()
    r"|\bnew\b[\w\s:;]*\[[\s;]*\]"  # new int[]{1}
)
"""What that grammar does not know either, or may not, in texts without comments."""
HIDDEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"\(.*?\)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\#(?:[^\n\\]|\\.|\\\n)*""", re.DOTALL
)


def takes(text: str) -> bool:
    return WALKER.takes(cd.grammars.CPP, text)


def is_known(text: str) -> bool:
    """Whether nothing in ``text`` is unknown to tree-sitter's grammar."""
    return not QUIRKS.search(text) and not UNKNOWN.search(re.sub(r"//[^\n]*|/\*.*?\*/|#[^\n]*", ";", text, flags=re.DOTALL))


def compiles(text: str) -> bool:
    command = ["g++", "-std=c++17", "-fsyntax-only", "-w", "-x", "c++", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False).returncode == 0


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs(path: Path) -> None:
    assert WALKER.follow(cd.grammars.CPP, path.read_text()).is_accepting()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs_compile(path: Path) -> None:
    assert compiles(path.read_text()), "the program of the test is wrong"


def test_humaneval() -> None:
    texts = programs(CPP_PROGRAMS)
    refused = [text for text in texts if not takes(text)]
    assert len(refused) <= len(texts) // 50
    assert all(text.count("{") != text.count("}") for text in refused), refused


@pytest.mark.parametrize(
    "text",
    [
        "int x;#include <a>\n",
        "#ifdef A\nint x;\n",
        "#if A int x;\n#endif\n",
        "int main() { return 0 }",
        "int main() { return 0; ",
        "int main() { x = = 1; }",
        "int main() { x = 08; }",
        "int main() { x = 1x; }",
        "int main() { if (1and x) return 1; }",
        "int main() { if (x andy) return 1; }",
        "int main() { return (unsigned longint)x; }",
        "int f() constnoexcept;",
        "int main() { a + 1 = 2; }",
        "int main() { y = a ? 1 :::b; }",
        'int main() { s = "a" b; }',
        'int main() { s = "a"PRId64; }',
        "int f() consttry { } catch (...) { }",
        "int f() try { }",
        "int f() try : x(1) { } catch (...) { }",
        "class A { int x; #ifdef X\n#endif\n};",
        "class A {\n#ifdef X\n};",
        "int main() { x = 0x1.8; }",
        "int main() { x = 1 ++ y; }",
        "int main() { case 1: return 1; }",
        "int main() { else return 1; }",
        "int main() { try { } }",
        "int main() { for (int i = 0; i < n) x; }",
        "int main() { char c = 'ab'; }",
        'int main() { s = "a\nb"; }',
        "int main() { int class = 1; }",
        "struct A { int x; }",
        "struct A { x; };",
        "class A { public int x; };",
        "vector<int x;",
        "vector<vector<int> x;",
        "if (x) y;",
        "x = 1;",
        "int f(int x, ) { }",
        "int f(int (&&)3);",
        "struct A { int :; };",
        "A(int) -> A<int>",
        "int f() { switch (x) { case 1 ... : ; } }",
        "int f() { switch (x) { case 1...9: ; } }",
        "A<1 <> a;",
        "A<x{1}--y> a;",
        "A<a ? b> c;",
        "en<1 && > e;",
        "#if __has_include()\n#endif",
        "int A::* ;",
        "int x = a.*;",
        "void f() { repeat(i, n) x++; }",
        "void f() { for (i, n) x++; }",
        "void f() { rep(i, n) }",
        "void f() requiresC;",
        "template <template <class> classC> class A { };",
        "test(A, b) { }",
        "A(int) -> A;",
        "class A :::B { };",
        "struct A { friend int; };",
        "template <class T> using namespace std;",
        "auto x = [] { }--y;",
        "void f(T... a[2]);",
        "x.template a::b<c>();",
        "void f() { asm(x); }",
        "void f() { co_yield; }",
        "enum A { , };",
        "enum A { X,, };",
        "enum A { X\n#endif\n};",
        "int main() { FASTER }",
        "#if 0\n#else\nint x;\n#else\n#endif\n",
        "void f() { x[0] and_eqy; }",
        "void f() { x + 1 and_eq y; }",
        'auto s = R"x(a)y";',
        'auto s = R"x(a)x)";',
        "int x\ufeff;",
        "void f() { new int[]; }",
        "void f() { if (unsigned) x; }",
        "void f() { auto [a, b](); }",
        "void f() { switch (x) { case 1: } }",
        "struct A { inline friend class B; } x y;",
        "typedef int (F)(int) (G);",
        "TEST_CASE(a b) { }",
        'SECTION("a") { }',
        "FOO(x)",
        "/* open",
        "using namespace std",
        "template <typename T",
        "int\\\nx;",
        "x = a +\\\n+ b;",
        "void f() { x = 'a'b; }",
        "void f() { y++->; }",
        "void f() { ::x = ; }",
        "void f() { f(new); }",
        "enum class { };",
        "#include\n",
        "#if F(\n#endif",
        "// \\ \nint x;",
        "struct A { explicit() A(int); };",
        "struct A { bool b : = 1; };",
        "template <C T = > void f();",
        "namespace a::inline { }",
        "inline namespace a::b { }",
        "namespace [[deprecated]] a::b { }",
        "struct A { inline [[nodiscard]] virtual int f(); };",
        "auto g = [](auto x) requires { return x; };",
    ],
)
def test_refuses(text: str) -> None:
    assert not takes(text)


@pytest.mark.parametrize(
    "statement",
    [
        "a < b > c;",
        "vector<vector<int>> v;",
        "map<int, vector<pair<int, int>>> m = {{1, {}}};",
        "f<A<B<C<int>>>>(x);",
        "x = a < b >> c;",
        "x = (T)y + (int)z * (const char *)w - (a)(b);",
        "if (2 > 1 and (x) or(y)) ;",
        "x = a+++b---c;",
        "unsigned long long int n; long double d; long unsigned k; short s; signed char c;",
        "for (auto &&[k, v] : m) ;",
        "if (auto it = m.find(1); it != m.end()) ;",
        "while (int c = getchar()) ;",
        "auto f = [=, &x, this, p = std::move(q)](auto... a) mutable -> int { return 1; };",
        "int (*f)(int, char *) = nullptr, *g[3], (*h)[4];",
        "transform(s.begin(), s.end(), s.begin(), ::tolower);",
        "Point p{1, 2}, q = {.x = 1, .y = 2};",
        'string t = "a" "b" u8"c" R"(d"e)";',
        "char c = '\\'', d = '\"', e = '\\x41';",
        "outer: goto outer;",
        'throw std::runtime_error("x" + to_string(1));',
        "int a[2][3] = {{1, 2, 3}, {4, 5, 6}};",
        "x = y ? a : z ? b : c;",
        "delete[] p; delete q; p = new int[n]{}; q = new (p) T(1);",
        "auto n = sizeof(int) + sizeof x + sizeof(x) / sizeof(x[0]);",
        "[[maybe_unused]] int y = 0x1F'FFull + 0b101 + 1.5e-3f + .5 + 1.;",
        'static_assert(sizeof(int) == 4, "int");',
        "typedef unsigned long ul; using V = vector<int>;",
        "do x--; while (x > 0);",
        "namespace fs = std::filesystem; auto v = t.template get<int>(0)->template as<T>();",
        "while (t --> 0) { x >>= 1; x ^= y | 1 << 3; } for (;;);",
        "set<int, decltype(cmp)> s(cmp); vector<int>().swap(v); std::cin.tie(nullptr)->sync_with_stdio(false);",
        "bool (*f)(int) = [](int x) { return x > 0; }; int once = [] { return 1; }();",
        "if (auto [it, fresh] = m.insert(x); !fresh) delete this; else if (i < n && j > m) ; else { }",
        's = string(1, c) + "x"; d = double(x) / (double)y; memset(dp, -1, sizeof(dp)); (void)x;',
        'cout << x << \' \' << (y ? "a" : "b") << endl;',
        "auto p = std::make_unique<int[]>(5); U<int[]> q(new int[3]); auto n = sizeof(int[3]) + rank<int[3][4]>::value;",
        "y = a ? new T(1) : nullptr; z = a ? [] { return 1; } : [] { return 2; }; w = a ? ::f() : g();",
        "if (::stat(s, &b) != 0 || !::f(x)) return -::x; while (::g(a[::i])) ; x = (::f)(1) + (int)::time(nullptr) * ::k;",
        "::std::string s = static_cast<::A>(::getpid()); typename A::template rebind<B>::other x;",
        "auto g = [x](int) mutable noexcept -> int { return 1; }; auto h = []() noexcept { };",
        "s += {'a', 'b'}; B::operator=(o); void *p = ::operator new(3);",
        "auto z = 1.0 + 2i; x = a % long(b) + max(unsigned(c), unsigned(d)); alignas(16) float v[4];",
        "y = a ? 1 : ::b; z = a ? b : ::c::d(1) + 2; w = a ? ::b : ::c; v = a?b: ::c;",
        'y = x > 0 ? x : throw std::runtime_error("a"); z = x ? throw 1 : 2;',
        'printf("%" PRId64 " %" PRIu32 "\\n", x, y); printf("%08" PRIx64, x); s = "a" __FILE__ "b";',
        "double h = 0x1p-3, i = 0x.8p1 + 0xA.Bp+2f; char c = '\\101', d = '\\0';",
        "for (int i = 0; auto c : s) i++; for (auto v = f(); const auto& [a, b] : v) ;",
        "if (x) [[likely]] return; else [[unlikely]] { }",
        "static_assert(noexcept(f(1)) && !noexcept (g()));",
        "switch (c) { case 'a' ... 'z': case 1 ... 9: return 1; }",
        "unsigned __int128 p = (unsigned __int128)a * b; auto q = ::new (p) T(1);",
        "x = (a.*f)(1) + (p->*f)(2) + a.*m; int (*q)[3] = (int (*)[3])p; int A::*m = &A::x; void (A::*g)(int) const = &A::g;",
        "bitset<1 << 20> b; array<int, N() + 1> a; en<is_p<int>{} && !is_p<T>::value> e; en<(x > 2) == -1> f; B<&g, ~0> h;",
        "if (![] { return 1; }() && y) { } a.*b = c; (p->*q)(1) += 2; p->*q = 3; return [&] { return 1; }() + 1;",
        "return !operator==(x) + operator()(1)[2]; f(typename T::type(), typename U::v{1}); auto g = &T::operator();",
        'x = ::a(1) - ::b(2) * ::c; static_assert(x, "a" "b"); C<a == 0 ? b : c + 1> d; E<(v<T> && ...), -x - y> e;',
        "using A = int (*)[3]; using B = int A::*; using C = int (A::*)(int) const; auto f = []() constexpr { return 1; };",
        "rep(i, 0, n) x++; FOR(j, a + 1, b) REP(k, n) { cin >> a[k]; } rrep(i, n) if (x) y; else z; int rep = 1; rep(2);",
        "each(x, v) s += x; trav(u, g[v]) if (u != p) dfs(u, v); For(i, 0, n) fo(j, n) F0Rd(k, n) loop(l, n) foreach(e, v) { }",
        "int f(int), g(int x, char* y), h(); extern void k(int); q.push((node){x, y}); return (P){1, 2}.x + (int){3};",
        "static_cast<B&>(*this) = b; const_cast<int&>(x) += 1; if (x) static_assert(sizeof(x) > 1); auto& r = *new A();",
        "auto g = []<typename T>(const T& x) { return x; }; auto c = a <=> b < 0; using enum Color; char8_t d = u8'a';",
        "auto x = co_await f() + 1; co_await g(); co_yield x; if (x) co_return; co_return y;",
        "if constexpr (requires { x.f(); }) y; bool b = requires(T a, T b) { a + b; typename T::u; { a } noexcept -> C<T>; };",
        'asm volatile("a" "b" : "=r"(x), [y] "=m"(y) : "r"(z) : "cc", "memory"); __asm__ __volatile__("c"); asm("d" ::: "e");',
        "int i = va_arg(ap, int); char* c = va_arg(ap, char*); int a[] = {[0] = 1, [2] = 3}; f((int[]){1, 2}); x = short();",
        "if (unsigned(x) < 10 && long(y) > 1) return long(x); switch (unsigned (x)) { } for (int i = 0; long(i) < n; ++i) ;",
        "x = -long(y) * unsigned{3}; v.push_back({long(x), unsigned(y)}); f(long(x).y, (unsigned(x) + 1)); return unsigned(x);",
        "x and_eq y; a[1] or_eq b = c; *p xor_eq 3; auto n = new int[]{1, 2}; delete[] n; auto q = new char*[]{a};",
        'string s = R"x(raw )" )x", t = R"delim(a)delim" "b", u = u8R"raw(a)--)raw", v = LR"EOF()R")E)EOF"; f(R"(a)"s);',
        "cout << [&]() { return 1; }() << endl; x = 1 + [] { return 2; }(); b = c and [&] { return d; }();",
        "f.operator()<int>(1); l.template operator()<T>(x); this->A::operator=(b); x.~T<A>(); p->A::~A(); p->A<B>::~A();",
        "typeid(long (*)(double)).name(); using T = decltype(::abs(1L)); auto w = decltype(x){}; decltype(x)(1);",
        "auto [a, b](x); const auto& [c, d]{y}; do ; while (0); do if (x) y; else z; while (y); do for (;;) ; while (1);",
        "switch (x) { int y; case 1: y = 2; struct A { }; break; default: ; }",
        "switch (x) {\n#ifdef A\n case 1: g();\n#else\n case 2: case 3: h();\n#endif\n f(); }",
        "int i __attribute__((unused)) = 1, j [[maybe_unused]]; bool __attribute__((unused)) k; co_yield {1, 2};",
        'SECTION("a") { x; } BOOST_FOREACH(const A& a, v) f(a); foreach(int x, v) { } THEN("b") { }',
        "decltype(auto) x = f(1); decltype(v)::value_type y; using A = int[2][3]; auto f = reinterpret_cast<void (*)()>(g);",
        "while ((c = f(), c != 1)) x = (a = 1, b += 2); cout << (a = 2) << (b, c = 3); ((a = 1), b) ? c : d;",
        "auto x = 'a'_b; y = 'a'_b.f() + u8'c'_d; s = \"a\"\n\"b\";",
        "p++->x = 1; q = a[i]->next++->f()->y++; it++.x;",
        "::x = 1; ::x += ::y = 2; return ::f(x) ? 1 : 2; while (A a = ::f()) ::operator delete[](p, 2); static_assert(::A::v);",
        "v << new A(1) << new B; p = new const char*[n]; (void)new (q) A(1);",
    ],
)
def test_statements(statement: str) -> None:
    WALKER.follow(cd.grammars.CPP, f"void f() {{ {statement} }}\n")
    WALKER.follow(cd.grammars.CPP, f"void f() {{ /* a */ {statement} // b\n }}\n")


@pytest.mark.parametrize(
    "text",
    [
        'int S::x = 3; const std::string S::name = "a"; std::locale::id myfacet::id; int S::a[2] = {1, 2};',
        "template <class T> int A<T>::n(3); template <> int A<P>::sn = 2;",
        "S& S::operator=(S&&) = default; void A::f(int) = default;",
        "struct S : B { void f() &; void f() const & { } void g() &&; int h() const& noexcept; void k() & noexcept override; "
        "using B::operator=; template <class> friend class C; template <class T> friend void f(T); };",
        "long double operator\"\" _deg(long double x) { return x; } char constexpr c = 'a'; struct alignas(64) E { };",
        "int main() try { f(); } catch (const E& e) { return 1; } catch (...) { return 2; }",
        "S::S(int a) try : a(a) { } catch (...) { } struct S { S() try : a(1) { } catch (E) { } };",
        "struct S { int f() const try { } catch (...) { } };",
        "struct E : std::exception { const char* what() const throw() { } void f() throw() override; E() throw() : x(1) { } };",
        "struct O : T { using T::operator(); using T::operator=; };",
        "template <class... T> struct O : T... { using T::operator()...; using typename T::t...; }; using std::a, std::b;",
        "int f(B* p) { return p->operator()(1) + (*p).operator[](2) + B::operator()(3) + p->operator+(4).operator-(); }",
        "class A {\n#ifdef X\n  int x;\npublic:\n#if Y\n#else\n  A();\n#endif\n#elif Z\n#define W 1\n#endif\n  int z;\n};",
        "class A { int x;\n#undef W\n};",
        "::A f(::B x) { return ::A(x); } class A { ::std::vector<int> v; };",
        "#if !defined(A) && (B < 2 * 4 - 3) \\\n    || C\n#elif (X > 3) && defined(Y)\n#endif",
        "typename std::aligned_storage<sizeof(T), alignof(T)>::type data[N];",
        "template struct X<int>; template class A::X<char>; template int id<int>(int); template void A::g() const;",
        "template <float (*op)(float, float), typename T> T a(T x) { } template <void (*)(int)> struct Z;",
        "enum E f(enum E a, const enum E* b) { enum E c = a; return (enum E) 1; } std::vector<enum E> v;",
        "struct S* f() { return new struct S(1); } auto g = +[](int a) { return a; };",
        "F k(void* p) { return (int (*)(int, char*)) p; } int h(int x) { return (decltype(x)) 1; }",
        "template <class... T> over(T...) -> over<T...>; template <class T> constexpr bool v<T*> = true; A(int) -> A<int>;",
        "template <class T, bool = is_p<T>::value> struct B; enable_if_t<a<T>::value && b<T>::value> f();",
        "struct S { unsigned a : 1; unsigned : 4, c : 2; int : 0; explicit operator bool() const = delete; int S::*m; };",
        "int (&f())[3]; int (*g(int x))(int) { return h; } void s(int (&)[3], int (*)(int), void (A::*)() const, R C::*m);",
        "template <class R, class C, class... A> R c(R (C::*m)(A...) const, int (*f)[2]); typedef int (A::*M)(int);",
        "extern template class A<int>; extern template int f<int>(int);",
        "template <class T, bool B = x<T> && y<T>, int N = -1> struct S; auto f() noexcept(noexcept(g())) -> decltype(g());",
        "inline A::A(int x) : x(x) { } template <class T> inline A<T>::~A() { }",
        "struct A { [[nodiscard]] friend bool operator==(A, A); [[nodiscard]] operator bool(); int (A::*f)() const&; };",
        "void f(int) = delete; inline __attribute__((always_inline)) int g(); struct __attribute__((packed)) P { int x; };",
        "struct Q { } __attribute__((aligned(8))); void e(void) __attribute__((noreturn, format(printf, 1, 2)));",
        '#if __has_include(<a.h>) || __has_include("b.h")\n#elif (1 << 3) % 2 == 0x1F && A / 2 | B\n#endif',
        "template <typename T> concept C = A<T> && (B<T> || !D<T>) && requires(T t) { t.x; requires sizeof(T) > 1; };",
        "template <class T> requires C<T> && (sizeof(T) > 1) || true class X { X() requires D; void f() const requires D; };",
        "template <C T> T f(C<int> auto&& x, const C auto y, C auto... z) requires(x) { } template <C... T> void g(T... t);",
        "bool operator<=>(A, B); struct A { auto operator<=>(const A&) const = default; constexpr friend bool f(A); };",
        "constinit int x = 1; consteval int f() { return 1; } class A : public ::B, ::C { }; int g(int), h(); main() { }",
        "template <template <class> class C = std::vector, template <class> typename = D> class A { };",
        "template <class T, typename std::enable_if<p<T>::v, int>::type = 0> void f(T); template <typename A::B x> class C;",
        "struct A { void f() volatile; int g() const volatile { } virtual operator D() const = 0; }; int* volatile p;",
        '#line 3 "a.cc"\nvoid f(int *__restrict a, char * volatile * const b) { auto x = (A::B)::g(1); [...c = f(b)] { }; }',
        "TEST(A, b) { x; } BOOST_AUTO_TEST_CASE(name) { y; }",
        'TEST_CASE("a b", "[c]") { SECTION("d") { x; } } SCENARIO("x" "y") { } BENCHMARK(f); DEFINE_int32(a, 1, "b");',
        "\ufeff#include <a>\nint x;",
        "enum A { X,\n#ifdef Y\n Z,\n#else\n V = 1,\n#endif\n W }; enum { }; enum class B : int { X, Y = X | 2, }; A<+1> a;",
        "int main() { FASTIO\n int n; fast_io; IOS cin >> n; }",
        "\ufeffint x;",
        "#if (!A) && (!B) && (!(C && D))\n#endif\n#if __has_builtin(__builtin_x) || __has_attribute(unused)\n#endif",
        "struct A { int (&f())[3]; int (*g(int x))(int); const int (&h() const)[3] { return a; } virtual ~A() = 0; };",
        "auto f() -> int (&)[3]; auto g() -> int (*)(int); struct B { operator bool(void) const; ~B(void); }; A::~A(void) { }",
        "struct A { friend ostream& operator<< <>(ostream& os, const A<T>& a); friend void f<T>(A<T>); friend void B::f(A&); "
        "friend void g<>(A); inline friend int f(A) { return 1; } };",
        "typedef int (F)(int); typedef void (Fn)(); typedef char str[10], (&RF)(int); typedef int al __attribute__((x(8)));",
        "int f(void (*g)(int) = nullptr, int (&a)[3] = b, bool (*cmp)(int, int) = [](int a, int b) { return a < b; });",
        "enum class [[nodiscard]] E { A [[deprecated]], B [[deprecated]] = 2 }; namespace [[deprecated]] N { }",
        "void k([[maybe_unused]] int x, int y [[maybe_unused]], int z __attribute__((unused))); int x __attribute__((a(8)));",
        "void __attribute__((noinline)) g() { } static int y __attribute__((unused)) = 1; __attribute__((x)) int h();",
        "explicit A(int) -> A<int>; template <class T> explicit A(T*) -> A<T>; struct T { auto operator co_await() const; };",
        "template <class... A> auto f(A... a) { return (a + ... + 0) + (1 * ... * a) + (a && ... && true); }",
        "// a \\\\ b \\ c \\\nthis is a comment\nint x; // d \\\\\\\r\nand so is this\nint y;",
        "int x = \\\n 1; \\\r\n int \\\n\\\ny = a + \\\n b; struct A \\\n{ };",
        "#include FILE\n#include  FILE // a\n#define F(x)x\n#define G(x)\\\n x\n#define H()\n",
        "#if V >= W(6, 0, 0) && !defined(A) || X(b)\n#elif !Y( 1 )\n#endif",
        "using namespace ::std; enum A::B f(enum C::D x) { } enum A::B : int { X }; enum : int { Y };",
        'void f(const char a[] = "b", int x[2] = y); struct A : ::B { }; struct C : ::D::E<int>, public ::F { };',
        "struct A { [[nodiscard]] virtual int f() const = 0; constexpr virtual int g() { return 1; } explicit(true) A(int); };",
        "struct A { bool b : 1 = true; unsigned c : 2 {1}, d : 3; }; namespace a::inline b::c { int x; }",
        "template <class T> concept C = true; template <C T, C U = int> struct B { }; template <C T = int*> void f() { }",
        "template <class... T> requires ((T::x > 1) && ...) void f(T...) { } auto g = [](auto x) requires b { return x; };",
        "void f(int x) { switch (x) { [[likely]] case 1: [[unlikely]] default: return; } }",
    ],
)
def test_declarations(text: str) -> None:
    assert WALKER.follow(cd.grammars.CPP, text + "\n").is_accepting()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_broken_programs_are_refused() -> None:
    """A bracket, comma or semicolon less: what g++ refuses is refused, but where only names decide (``int ij``)."""
    rng = random.Random(1)
    texts = [path.read_text() for path in PROGRAMS]
    broken = refused = 0
    for number in range(cases(60, 4)):
        text = texts[number % len(texts)]
        hidden = {at for found in HIDDEN.finditer(text) for at in range(*found.span())}
        at = rng.choice([i for i, sign in enumerate(text) if sign in "(){}[];," and i not in hidden])
        mutant = text[:at] + text[at + 1 :]
        if not compiles(mutant):
            broken += 1
            refused += not takes(mutant)
    assert refused >= 0.95 * broken > 0


def test_a_step_has_room_whatever_was_walked_before() -> None:
    """A hashed table twice as large may outgrow what a step may take beyond the budget of all: texts that need a tenth of that
    were refused because of those before them.
    """
    walker = Walker(WORDS, SIGNS + LINES)
    walker.compiler = cd.Compiler(walker.compiler.vocab, cd.Limits(max_arena_bytes=24 << 20))
    for number in range(cases(200, 10, 140)):
        matcher = walker.follow(cd.grammars.CPP, BEGINNINGS[number % len(BEGINNINGS)])
        walker.walk(matcher, random.Random(number), 40)


@pytest.mark.parametrize("sign", ["!", "~", "- ", "*", "-- ", "not ", "sizeof ", "(int)", "1 + ", "a ? 1 : ", "a::", "x, "])
@pytest.mark.parametrize("before", ["x = ", "return ", "f(", "", "int a[] = { "])
def test_what_is_repeated_leads_to_one_state(before: str, sign: str) -> None:
    """A chain that can be gone on with in one way is one row, however long it is. There was one for each prefix of a literal,
    since ``++`` might follow at any of them: tokens of many such signs made most of all rows.
    """
    grammar = WALKER.compiler.compile(cd.grammars.CPP)
    text = "int main() { " + before + 6 * sign
    WALKER.follow(cd.grammars.CPP, text)
    rows = grammar.counters()["rows"]
    WALKER.follow(cd.grammars.CPP, text + 30 * sign)
    assert grammar.counters()["rows"] == rows


def test_walks_have_no_errors() -> None:
    tree_sitter = pytest.importorskip("tree_sitter", reason="tree-sitter is not installed (the extra 'test')")
    language = pytest.importorskip("tree_sitter_cpp", reason="tree-sitter-cpp is not installed (the extra 'test')").language()
    parser = tree_sitter.Parser(tree_sitter.Language(language))
    assert parser.parse(b"int f( {").root_node.has_error
    texts = WALKER.walks(cd.grammars.CPP, BEGINNINGS, cases(500, 20), is_known)
    faults = [text for text in texts if parser.parse(text.encode()).root_node.has_error]
    assert not faults, faults[:3]

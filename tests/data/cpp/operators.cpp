#include <ostream>
struct Fraction {
    int top, bottom;
    Fraction(int t = 0, int b = 1) : top(t), bottom(b) {}
    Fraction operator+(const Fraction& o) const { return Fraction(top * o.bottom + o.top * bottom, bottom * o.bottom); }
    Fraction operator-() const { return {-top, bottom}; }
    Fraction& operator+=(const Fraction& o) { return *this = *this + o; }
    Fraction& operator++() { top += bottom; return *this; }
    Fraction operator++(int) { Fraction old = *this; ++*this; return old; }
    bool operator<(const Fraction& o) const { return top * o.bottom < o.top * bottom; }
    int operator()(int scale) const { return top * scale / bottom; }
    operator double() const { return double(top) / bottom; }
    void* operator new(size_t size);
    Fraction* operator->() { return this; }
};
bool operator==(const Fraction& a, const Fraction& b) { return a.top * b.bottom == b.top * a.bottom; }
bool operator!=(const Fraction& a, const Fraction& b) { return !(a == b); }
std::ostream& operator<<(std::ostream& out, const Fraction& f) { return out << f.top << '/' << f.bottom; }

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace geometry {

enum class Kind : unsigned char { Circle = 1, Square, Other = 0xFF, };
enum { LIMIT = 10, STEP };

class Shape {
protected:
    std::string name;

public:
    Shape(std::string n) : name{std::move(n)} {}
    virtual double area() const = 0;
    virtual Kind kind() const { return Kind::Other; }
    virtual ~Shape() {}
};

class Circle final : public Shape {
    double r;
public:
    Circle(double radius) : Shape("circle"), r(radius) {}
    double area() const override { return 3.14159265358979 * r * r; }
    Kind kind() const final override { return Kind::Circle; }
};

struct Square : Shape {
    double side = 1.0;
    Square() : Shape("square") {}
    double area() const noexcept override { return pow(side, 2); }
};

double total(const std::vector<std::unique_ptr<Shape>>& shapes) {
    double sum = 0;
    for (const auto& shape : shapes) sum += shape->area();
    return sum;
}

}  // namespace geometry

namespace g = geometry;
using geometry::Shape;

int main(int argc, char *argv[]) {
    std::vector<std::unique_ptr<g::Shape>> shapes;
    shapes.push_back(std::make_unique<g::Circle>(2.0));
    shapes.emplace_back(new g::Square());
    return static_cast<int>(g::total(shapes));
}

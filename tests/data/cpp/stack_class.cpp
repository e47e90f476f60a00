#include <stdexcept>
#include <vector>

template <typename T, int Capacity = 16>
class Stack {
public:
    using value_type = T;
    explicit Stack(int reserve = Capacity) : count_(0), items_() { items_.reserve(reserve); }
    virtual ~Stack() = default;
    Stack(const Stack&) = delete;
    Stack& operator=(const Stack&) = delete;

    bool empty() const noexcept { return count_ == 0; }
    void push(const T& item) {
        items_.push_back(item);
        ++count_;
    }
    T pop() {
        if (empty()) throw std::out_of_range("empty stack");
        T last = items_.back();
        items_.pop_back();
        count_--;
        return last;
    }
    T& operator[](int index) { return items_[index]; }
    const T& operator[](int index) const { return items_[index]; }
    explicit operator bool() const { return !empty(); }
    friend bool operator==(const Stack& a, const Stack& b) { return a.items_ == b.items_; }

private:
    int count_;
    std::vector<T> items_;
    static const int limit = 100;
};

int main() {
    Stack<int> numbers;
    Stack<std::vector<int>, 4> lists(3);
    numbers.push(1);
    return numbers.pop() == 1 ? 0 : 1;
}

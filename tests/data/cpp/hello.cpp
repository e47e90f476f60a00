// Prints a greeting.
#include <iostream>

int main() {
    std::cout << "Hello, " << "world" << "!\n" << std::endl;
    return 0;
}

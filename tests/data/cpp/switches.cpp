#include <string>
using std::string;

const char *describe(int code, bool verbose) {
    switch (code) {
        case 0:
            return "zero";
        case 1:
        case -1: {
            static int seen = 0;
            seen++;
            break;
        }
        case 'x':
            if (verbose) return "letter";
            [[fallthrough]];
        default:
            break;
    }
    try {
        if (code > 1000) throw code;
        else if (code > 100) throw string("large");
        else throw;
    } catch (const string &message) {
        return message.c_str();
    } catch (int number) {
        return number ? "number" : "none";
    } catch (...) {
    }
    return "";
}

#include <cctype>
#include <string>
#include <vector>
using namespace std;

vector<string> split(const string& text, char separator = ' ')
{
    vector<string> out;
    string word = "";
    for(size_t i=0;i<text.length();i++)
    {
        if(text[i]==separator or text[i]=='\t' or(isspace(text[i])))
        {
            if(word!="") out.push_back(word);
            word="";
        }
        else word+=text[i];
    }
    if (not word.empty()) out.push_back(word);
    return out;
}

bool is_vowel(char c) { return string("aeiouAEIOU").find(c) != string::npos and c not_eq 'y'; }

int count_bits(unsigned int n){
    int c=0;
    while(n) { c+=n&1u; n>>=1; }
    return c xor 0;
}

"""GBNF grammars with texts of their languages, for comparisons with xgrammar and for benchmarks.

``theirs``: the same language in other rules. xgrammar needs them where it has no ``.`` or wants empty alternatives written
out, or the point is that cdplugin's grammar recurses on the left.
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """A grammar, texts that it derives, and the grammar for xgrammar if it needs another one."""

    grammar: str
    texts: tuple[str, ...]
    theirs: str = ""


JSON = r"""
root    ::= object
object  ::= "{" ws (pair ("," ws pair)*)? "}" ws
pair    ::= string ":" ws value
array   ::= "[" ws (value ("," ws value)*)? "]" ws
value   ::= object | array | string | number | ("true" | "false" | "null") ws
string  ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws   # with escapes
number  ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [-+]? [0-9]+)? ws
ws      ::= [ \t\n]{0,20}
"""

C = r"""
# a subset of C: functions of ints, floats and pointers to characters
root       ::= (function "\n"?)+
function   ::= type ws name ws "(" ws (parameter (ws "," ws parameter)*)? ws ")" ws block
parameter  ::= type ws name
type       ::= ("int" | "float" | "double" | "char") (" "* "*")?
block      ::= "{" ws (statement ws)* "}"
statement  ::= declare | assign | return | while | if | for | call ws ";" | "//" [^\n]* "\n"
declare    ::= type " " ws name ws ("=" ws expression ws)? ";"
assign     ::= name ws ("=" | "+=" | "-=") ws expression ws ";"
return     ::= "return" (ws1 expression)? ws ";"
while      ::= "while" ws "(" ws condition ws ")" ws block
if         ::= "if" ws "(" ws condition ws ")" ws block (ws "else" ws (block | if))?
for        ::= "for" ws "(" ws assign ws condition ws ";" ws name ws ("++" | "--") ws ")" ws block
condition  ::= expression (ws ("==" | "!=" | "<=" | ">=" | "<" | ">") ws expression)?
expression ::= term (ws [-+] ws term)*
term       ::= factor (ws [*/%] ws factor)*
factor     ::= call | name | number | string | "-" factor | "(" ws expression ws ")"
call       ::= name "(" ws (expression (ws "," ws expression)*)? ws ")"
name       ::= [a-zA-Z_] [a-zA-Z_0-9]{0,30}
number     ::= [0-9]+ ("." [0-9]+)?
string     ::= "\"" ([^"\\\n] | "\\" [nt"\\0])* "\""
ws         ::= [ \t\n]{0,40}
ws1        ::= [ \t\n]{1,40}
"""

CHESS = r"""
root  ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move  ::= (pawn | piece | castle) [+#]?
piece ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn  ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBQR])?
castle ::= "O-O" "-O"?
"""

SQL = r"""
root    ::= select ";"
select  ::= "SELECT " ("*" | columns) " FROM " table (" WHERE " or)? order? (" LIMIT " [1-9] [0-9]{0,5})?
order   ::= " ORDER BY " columns (" DESC")?
columns ::= column (", " column)*
column  ::= (name ".")? name | function "(" (column | "*") ")"
function ::= "COUNT" | "SUM" | "AVG" | "MIN" | "MAX"
table   ::= name (" " name)? | "(" select ") " name
or      ::= and (" OR " and)*
and     ::= test (" AND " test)*
test    ::= column " " ("=" | "<>" | "<" | ">" | "LIKE") " " value | column " IN (" in ")" | "(" or ")"
in      ::= value (", " value)* | select
value   ::= [0-9]{1,9} | "'" [^'\n]{0,60} "'" | column
name    ::= [a-z] [a-z_0-9]{0,20}
"""

LEFT = r"""
root   ::= sum
sum    ::= sum [-+] product | product
product ::= product [*/] power | power
power  ::= atom "^" power | atom
atom   ::= [0-9]+ | "(" sum ")" | "x"
"""
RIGHT = r"""
root   ::= sum
sum    ::= product ([-+] product)*
product ::= power ([*/] power)*
power  ::= atom ("^" power)?
atom   ::= [0-9]+ | "(" sum ")" | "x"
"""

CASES: dict[str, Case] = {
    "json": Case(JSON, ('{"name": "Ada é", "age": 36, "tags": [true, null, -1.5e3, {"a": "\\n"}]}', "{}", '{"a":[]}')),
    "c": Case(
        C,
        (
            "int main() {\n  int x = 3;\n  while (x < 10) { x += 1; print(x); }\n  return x;\n}\n",
            "double f(char *s, int n) {\n  // a comment\n  if (n == 0) { return 1.5; }"
            ' else if (s != n) { put("a\\n"); }\n  return f(s, n - 1) * 2;\n}',
            "int g(int a){for(a = 0;a<3;a++){h(a, (a+1)*-a);}}",
        ),
    ),
    "chess": Case(CHESS, ("1. e4 e5\n2. Nf3 Nc6\n3. Bb5 a6\n", "1. d4 d5\n2. c4 dxc4\n10. O-O O-O-O+\n11. e8=Q Rad8#\n")),
    "list": Case('root ::= ("- " item)+\nitem ::= [^\\n]+ "\\n"\n', ("- milk\n- ten eggs\n- crème brûlée 🍮\n",)),
    "sql": Case(
        SQL,
        (
            "SELECT * FROM users;",
            "SELECT u.name, COUNT(id) FROM users u WHERE age > 30 AND (name LIKE 'a%' OR id IN (1, 2)) ORDER BY name DESC"
            " LIMIT 10;",
            "SELECT a FROM (SELECT b FROM c WHERE d IN (SELECT e FROM f)) g;",
        ),
    ),
    "arithmetic, left recursion": Case(LEFT, ("1+2*3-x", "(1+x)^2^3*(4-5)/6", "((((7))))"), RIGHT),
    "japanese": Case(
        "root ::= jp-char+ ([ \\t\\n] jp-char+)*\njp-char ::= hiragana | katakana | punctuation | cjk\n"
        "hiragana ::= [ぁ-ゟ]\nkatakana ::= [ァ-ヿ]\npunctuation ::= [、-〾]\ncjk ::= [一-鿿]\n",
        ("こんにちは、世界。", "東京 カタカナ ひらがな", "日本語を勉強する"),
    ),
    "emoji": Case(
        'root ::= line{1,3}\nline ::= emoji+ (" " word)* "\\n"\nemoji ::= [\\U0001F600-\\U0001F64F🚀☀-⛿]\nword ::= [a-zé]+',
        ("😀😃 hello\n🚀 go\n", "☀ é\n", "🙏🚀☂ a b c\n"),
    ),
    "not ascii": Case('root ::= ([^\\x00-\\x7F] | "a"){2,6} "." [^a-zé日]', ("日本éa.X", "aa.é"[:3] + "Z", "🙂🙂🙂.🙂")),
    "any character": Case('root ::= "<" .{0,8} ">" .', ("<ab\né>日", "<>x"), 'root ::= "<" [^]{0,8} ">" [^]'),
    "palindromes": Case(
        'root ::= "a" root "a" | "b" root "b" | "a" | "b" |',
        ("abbabba", "aabaa", "b"),
        'root ::= "a" root "a" | "b" root "b" | "a" | "b" | ""',
    ),
    "csv": Case(
        'root ::= row ("\\n" row){0,9}\nrow ::= cell ("," cell){2}\n'
        'cell ::= [^",\\n]{0,12} | "\\"" ([^"] | "\\"\\""){0,40} "\\""',
        ('a,b,c\n1,"x, ""y""",é', ",,", '"a\nb",,z'),
    ),
    "xml": Case(
        'root ::= element\nelement ::= "<" name attribute* ("/>" | ">" (text | element)* "</" name ">")\n'
        'attribute ::= " " name "=\\"" [^"<]* "\\""\nname ::= [a-z] [a-z0-9-]*\ntext ::= [^<>]+',
        ('<a href="x">one <b>two</b><br/></a>', "<p></p>", '<x-1 y="é"/>'),
    ),
    "date": Case(
        'root ::= year "-" month "-" day ("T" hour ":" minute (":" minute)? "Z"?)?\n'
        'year ::= [0-9]{4}\nmonth ::= "0" [1-9] | "1" [0-2]\n'
        'day ::= "0" [1-9] | [12] [0-9] | "3" [01]\nhour ::= [01] [0-9] | "2" [0-3]\nminute ::= [0-5] [0-9]',
        ("2024-02-29T23:59:00Z", "1999-12-31"),
    ),
    "parentheses": Case('root ::= ("(" root ")" | "[" root "]")*', ("(()[])[]", "((((()))))")),
    "number words": Case(
        'root ::= word ((", " | " and ") word)*\n'
        'word ::= ("twenty" | "thirty" | "forty") ("-" digit)? | digit | "ten" | "eleven"\n'
        'digit ::= "one" | "two" | "three" | "four" | "five" | "six" | "seven" | "eight" | "nine"',
        ("one, twenty-two and thirty", "eleven"),
    ),
}

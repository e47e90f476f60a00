"""Lark grammars of our own, by name, which tests compare with other engines; and a vocabulary for them.

Each is ``(grammar, texts)``. The texts are words of the language, written by hand. A walk follows one of them for some way
before it goes on at random, since a random walk alone rarely closes a bracket.
"""

from __future__ import annotations

import random

SPECIAL = ["<|call|>", "<|end_call|>", "<think>", "</think>"]
END = "<|eos|>"

_WORDS = (
    "a b c x y z 1 0 42 the if else while for in def return int char select from where and or not true false null "
    "name value foo bar baz print pass None True False SELECT FROM WHERE == != <= >= && || -> :: // /* */ ++ -- += "
    "function city Paris weather get_ kind zip ab abc aab aa bb cc xyz xx yy 日本 日 本語 🙂 é ñ ü 00 12 123 .5 1.5 e10 "
    "=foo> =bar> <function </function> http https www .com <b> </b> &amp; 2024 -01 -31 END EN ND start stop"
).split()
_PIECES = [
    *(" " + word for word in _WORDS[:60]),
    *_WORDS,
    *("  ", "    ", "\n", "\n\n", "\n    ", "\t", " \n", "\r\n", ", ", ": ", " = ", " + ", " * ", "()", "):", "];", ");"),
    *(
        '"',
        '"a',
        '":',
        '": "',
        '",',
        '", "',
        '{"',
        '"}',
        '{"name',
        '\\"',
        "\\n",
        "{}",
        "[]",
        "[1",
        "],",
        "}}",
        "{{",
        "( ",
        " )",
    ),
    *(
        '"name"',
        '"args"',
        "// x",
        "# c",
        "/*",
        "*/",
        "--",
        "';",
        "' '",
        "0.",
        "1,",
        "(a",
        "a)",
        "a,",
        ",b",
        "x)",
        "<f",
        "<func",
    ),
]
TOKENS: list[bytes] = list(dict.fromkeys([bytes([b]) for b in range(256)] + [piece.encode() for piece in _PIECES]))
"""All bytes, then pieces of text; special tokens come after them."""

CASES: dict[str, tuple[str, list[str]]] = {
    "regex_over_lines": (
        r"""
start: DATE NAME
DATE: /(?x) [0-9]{4}  # the year
  - [0-9]{2} # the month
/
NAME: /[a-z]+  # a comment
  [0-9] | \  x/x
""",
        ["2024-12abc1", "2024-01 x"],
    ),
    "arithmetic": (
        r"""
start: expr
expr: expr ("+" | "-") term | term
term: term ("*" | "/") factor | factor
factor: "-" factor | "(" expr ")" | NUMBER | NAME
NUMBER: /[0-9]+(\.[0-9]+)?/
NAME: /[a-z][a-z0-9]*/
%ignore /[ \t]+/
""",
        ["1 + 2 * (3 - x1)", "-(a*-b)/12.5 - (x + y)"],
    ),
    "right_recursion": (
        r"""
start: list
list: item "," list | item
item: /[a-z]+/ | "(" list ")"
""",
        ["a,b,(c,d,e),f", "((a)),b"],
    ),
    "json_by_hand": (
        r"""
start: value
value: object | array | STRING | NUMBER | "true" | "false" | "null"
object: "{" [pair ("," pair)*] "}"
pair: STRING ":" value
array: "[" [value ("," value)*] "]"
STRING: /"([^"\\\x00-\x1f]|\\["\\\/bfnrt])*"/
NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/
%ignore /[ \t\n\r]+/
""",
        ['{"name": [1, 2.5e10, true], "x": {}}', "[[], null, -0.5]"],
    ),
    "sql": (
        r"""
start: select ";"?
select: "select"i columns "from"i NAME where? order?
columns: "*" | column ("," column)*
column: NAME ("." NAME)? | "count"i "(" (NAME | "*") ")"
where: "where"i condition
condition: condition ("and"i | "or"i) comparison | comparison
comparison: column OP literal | "not"i comparison | "(" condition ")"
order: "order"i "by"i NAME ("asc"i | "desc"i)?
OP: "=" | "<>" | "<=" | ">=" | "<" | ">"
literal: NUMBER | STRING
NUMBER: /[0-9]+/
STRING: /'[^']*'/
NAME: /[a-zA-Z_][a-zA-Z0-9_]*/
%ignore /[ \n]+/
""",
        ["SELECT name, a.b FROM foo WHERE x = 1 and not y <> 'it' order by z desc;", "select * from bar"],
    ),
    "python_subset": (
        r"""
start: statement+
statement: simple NEWLINE | compound
simple: NAME "=" expr | "return" expr | "pass" | NAME "(" [args] ")"
compound: "if" expr ":" NEWLINE block ["else" ":" NEWLINE block] | "while" expr ":" NEWLINE block
block: "{" statement+ "}" NEWLINE
args: expr ("," expr)*
expr: expr BINARY atom | atom
atom: NAME | NUMBER | STRING | "(" expr ")" | "not" atom
BINARY: "+" | "-" | "*" | "==" | "!=" | "<" | "and" | "or"
NAME: /[a-z_][a-z_0-9]*/
NUMBER: /[0-9]+/
STRING: /"[^"\n]*"/
NEWLINE: /\n+/
%ignore / +/
""",
        ['x = 1 + foo\nif x == 2:\n{ print(x, "a")\n}\nelse:\n{pass\n}\n', "while not a:\n{b = 1\n}\n"],
    ),
    "c_expressions": (
        r"""
start: (declaration | statement)+
declaration: TYPE NAME ["=" expr] ";"
statement: expr ";" | "return" expr ";" | "{" statement* "}" | "if" "(" expr ")" statement
expr: assign
assign: NAME ("=" | "+=") assign | logical
logical: logical ("&&" | "||") equal | equal
equal: equal ("==" | "!=") sum | sum
sum: sum ("+" | "-") unary | unary
unary: ("!" | "-" | "++" | "--") unary | primary
primary: NAME | NUMBER | "(" expr ")" | primary "[" expr "]" | primary "(" [expr ("," expr)*] ")"
TYPE: "int" | "char"
NAME: /[a-zA-Z_]\w*/
NUMBER: /\d+/
%ignore /\s+/
%ignore /\/\/[^\n]*/
""",
        ["int x = 1; // x\nif (a == b) { foo(x, y[0]); }", "char c; return --x && !y || z;"],
    ),
    "tool_calls_lazy": (
        r"""
start: ( f_foo | f_bar )* f_end
f_end: TEXT
TEXT: /(.|\n)*/
f_foo_hd[lazy]: TEXT "<function"
f_foo: f_foo_hd "=foo>" /\{"a": [0-9]+\}/ "</function>"
f_bar_hd[lazy]: TEXT "<function"
f_bar: f_bar_hd "=bar>" /[0-9]+/ "</function>"
""",
        ['hello <function=foo>{"a": 12}</function> the end', "x<function=bar>42</function><function=bar>1</function>"],
    ),
    "lazy_and_suffix": (
        r"""
start: quoted ("," quoted)* comment?
quoted[suffix="'"]: OPEN /[^\n]*/
OPEN: "'"
comment[lazy]: "#" /(?s:.*)/ "END"
""",
        ["'it','foo bar'#some\ntext EN END", "'a','b'"],
    ),
    "and_not": (
        r"""
start: LINES "!" word+
LINES: /[a-zA-Z \n]*/ & ~/(?s:.*)\n\n(?s:.*)/
word: NAME ","
NAME: /[a-z]+/ & ~("if" | "else" | "while") & ~/x.*/
""",
        ["the\nname\n!foo,iff,", "!elsex,whil,"],
    ),
    "not_in_rule": (
        r"""
start: "<" BODY ">" "end"
BODY: /[^<>]*/ & ~/.*(foo|bar).*/
""",
        ["<fo ba>end", "<日本>end"],
    ),
    "unicode": (
        r"""
start: (JAPANESE | EMOJI | GREEK)+ "。"
JAPANESE: /[\u3040-\u30ff\u4e00-\u9fff]{1,4}/
EMOJI: /[\U0001F600-\U0001F64F]/
GREEK: "straße"i | /\p{Greek}+/
%ignore "、"
""",
        ["日本🙂、αβγ。", "STRASSE", "straßE日本語。"],
    ),
    "bounded": (
        r"""
start: pair{2,3} tail
pair: KEY "=" VALUE ";"
KEY: /[a-c]{1,2}/
VALUE: "x"{2} | "y"~1..3
tail: ("z" | "w")~2..5 "."{,2}
""",
        ["a=xx;bb=yyy;zw.", "a=y;b=y;cc=xx;zzzzz.."],
    ),
    "large_bounds": (
        r"""
start: "a"{3,70} ("b" | "cc"){17} WORD{0,33}
WORD: "x"{5,40}
""",
        ["a" * 20 + "b" * 10 + "cc" * 7 + "x" * 12],
    ),
    "nullable": (
        r"""
start: a b a "."
a: "x"? b
b: ("y" a)* | c
c: "" | "z" c
""",
        ["xyz.", "xyxyzzz."],
    ),
    "ambiguous": (
        r"""
start: s
s: s s | "a" | "(" s ")" | "ab" | "b"
""",
        ["aab(ab)ba", "((a)(b))"],
    ),
    "overlapping_lexemes": (
        r"""
start: ("if" "1" | NAME "2" | "iff" NAME | /i+/ ";")+
NAME: /[a-z]+/
""",
        ["if1", "ab2iff", "ii;if1if2"],
    ),
    "keywords_without_case": (
        r"""
start: "BEGIN"i (NAME ":=" NUMBER ";")+ "End"i
NAME: /[a-z]+/i & ~/(?i:end|begin)/
%import common.NUMBER
%import common.WS
%ignore WS
""",
        ["begin foo := 12; Bar:=1.5e10; END", "BEGIN x:=.5;end"],
    ),
    "common": (
        r"""
start: (SIGNED_NUMBER | ESCAPED_STRING | CNAME "(" HEXDIGIT ")" | SH_COMMENT LF | UCASE_LETTER "!")+
%import common (SIGNED_NUMBER, ESCAPED_STRING, CNAME, HEXDIGIT)
%import common.SH_COMMENT
%import common.LF
%import common.UCASE_LETTER
%import common.WS_INLINE -> SPACE
%ignore SPACE
""",
        ['-12.5e10 "a\\"b" foo_1(f)', "# c\nX!"],
    ),
    "comments_ignored": (
        r"""
start: (item ";")*
item: "let" NAME | "(" item ")"
NAME: /[a-z]+/ & ~"let"
%ignore /[ \n]+/
%ignore /--[^\n]*\n/
%ignore C
C: "/*" /[^*]*/ "*/"
""",
        ["let x; -- hi\n(let/* a */foo);", "( (let b) ) ;"],
    ),
    "spelt_like_what_is_ignored": (
        r"""
start: " " WORD "x" | "(" WORD* ")"
WORD: /[a-c]+/
%ignore " "
""",
        [" ab x", " a  x", "(a b)", "( )"],
    ),
    "special_tokens": (
        r"""
start: <think> THOUGHT </think> answer
THOUGHT: /[a-z \n]*/
answer: "yes" | call+
call: <|call|> /[a-z]+/ <|end_call|>
""",
        ["<think>foo bar</think>yes", "<think></think><|call|>get<|end_call|><|call|>ab<|end_call|>"],
    ),
    "json_schema": (
        r"""
start: "call" body
body: %json {
  "x-guidance": {"whitespace_flexible": false},
  "type": "object",
  "properties": {
    "kind": {"enum": ["foo", "bar", "foobar"]},
    "flags": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}
  },
  "required": ["kind", "flags"],
  "additionalProperties": false
} ";"
%ignore " "
""",
        ['call{"kind":"foobar","flags":[true,false]};', 'call{"kind":"bar","flags":[true]} ;'],
    ),
    "json_separators": (
        r"""
start: (%json {
  "x-guidance": {"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "},
  "type": "object",
  "properties": {"x": {"type": "boolean"}, "y": {"type": "array", "items": {"enum": ["a", "ab"]}}},
  "required": ["x"],
  "additionalProperties": false
} "\n")+
""",
        ['{"x": true, "y": ["a", "ab"]}\n', '{"x": false}\n'],
    ),
    "nested_lark": (
        r"""
start: "<b>" inner "</b>" rest?
inner: %lark {
  start: "(" WORD ("," WORD)* ")"
  WORD: /[a-z]+/
  %ignore /_+/
}
rest: "and" "more"
%ignore " "
""",
        ["<b>(foo_,_bar,baz) </b>  and more", "<b>(x_)</b>"],
    ),
    "substrings": (
        r"""
start: QUOTE ("," QUOTE)* ";"
QUOTE: "\"" %regex {"substring_words": "the name of the city is not the name of the weather"} "\""
""",
        ['"name of the city","the weather";', '"";'],
    ),
    "permutation": (
        r"""
start: perm::0x0
perm::_: "" %if is_ones([0:4])
  | "a" perm::set_bit(0) %if bit_clear(0)
  | "b" perm::set_bit(1) %if bit_clear(1)
  | "cc" perm::set_bit(2) %if bit_clear(2)
  | "x" perm::set_bit(3) %if and(bit_clear(3), bit_count_ge([0:3], 1))
""",
        ["bccax", "abxcc"],
    ),
    "counts": (
        r"""
start: lst::0
lst::_: "a" lst::incr([0:3]) %if lt([0:3], 5)
  | "b" lst::incr([3:6]) %if lt([3:6], 3)
  | ";" done::_ %if ge([0:3], 1)
done::_: "!" done::decr([0:3]) %if gt([0:3], 0)
  | "." %if eq([0:3], 0)
""",
        ["aab;!!.", "baba;!!."],
    ),
    "dates": (
        r"""
start: date (("," | "to") date)*
date: YEAR "-" MONTH "-" DAY
YEAR: /(19|20)[0-9]{2}/
MONTH: /0[1-9]|1[0-2]/
DAY: /0[1-9]|[12][0-9]|3[01]/
""",
        ["2024-01-31,1999-12-01to2000-02-02"],
    ),
    "markup": (
        r"""
start: element+
element: "<" NAME attribute* ("/>" | ">" content "</" NAME ">")
attribute: NAME "=" STRING
content: (element | TEXT)*
NAME: /[a-z]+/
STRING: /"[^"<&]*"/
TEXT: /([^<&]|&amp;|&lt;)+/
%ignore /[ \n]+/
""",
        ['<b a="1">foo &amp; <i/>bar</b>', "<x ></x>"],
    ),
    "flags": (
        r"""
start: A B? C
A: /x .? y/xs
B: /foo/i "BAR"i
C: /[^\n]+;/
""",
        ["x\nyFoObar the end;", "xyz;"],
    ),
}

# Where the masks differ, on purpose: grammar, text before, tokens that only we allow, tokens that only llguidance allows.
# docs/grammars.md, "Beside LLGuidance", says why for each.
DIFFERENCES: dict[str, tuple[str, str, set[str], set[str]]] = {
    "what is ignored belongs to the lexeme that follows, not to the grammar that is open": (
        'start: "a" inner "b"\ninner: %lark {\nstart: "x"+\n%ignore "_"\n}\n%ignore " "',
        "ax",
        {" ", "  ", "    ", " b"},
        set(),
    ),
    "a token that is named may be written out as text as well": ('start: <[97]> | "abc"', "a", {"b"}, set()),
    "max_tokens= ends a lexeme only where it matches": (
        'start: x "1"\nx[max_tokens=1]: /([a-z][a-z])*/',
        "a",
        {"a", "b", "c", "x", "y", "z"},
        {"1"},
    ),
    "nothing is ignored before the first lexeme, even if it may be empty": (
        'start: A "1"\nA: /[a-z]*/\n%ignore " "',
        "",
        set(),
        {" ", "  ", "    ", " 1"},
    ),
    "a lazy lexeme drops what was open beside it, also where its first byte ended the lexeme before": (
        'start: /x+/ (a "!" | "abc")\na[lazy]: "a".."f"\n',
        "x",
        set(),
        {"ab", "abc"},
    ),
    "a lazy lexeme ends at its shortest match, also where its first byte ended what is ignored": (
        "start: T a\nT: /[a-c]{1,3}/\na[lazy]: /[a-c]+/\n%ignore / +/",
        "abc b",
        set(),
        {"a", "b", "c"},
    ),
    "conditions hold for the parameter that a rule has, also beside another one": (
        'start: p::1 "c" | p::0 "d"\np::_ : "a" p::incr(_) %if lt(_, 3) | "b" %if ge(_, 2)',
        "ab",
        set(),
        {"d"},
    ),
}

TERMINALS = [
    '"a"',
    '"b"',
    '"ab"',
    "/a+/",
    "/[ab]+/",
    "/b*/",
    "/ab?/",
    "/(ab)+/",
    "/(a|bb)*/",
    "/b+a*/",
    '~"ab"',
    "/a+/ & ~/aa/",
    '"c"',
]


def random_grammar(rng: random.Random) -> str:
    """A small grammar over three letters whose terminals compete."""
    terminals = {f"T{i}": rng.choice(TERMINALS) for i in range(3)}

    def body(depth: int) -> str:
        parts = []
        for _ in range(rng.randint(1, 3)):
            part = rng.choice([*terminals, "x"]) if depth == 0 or rng.random() < 0.7 else "(" + body(depth - 1) + ")"
            parts.append(part + rng.choice(["", "", "", "?", "*", "+"]))
        return " ".join(parts) + (" | " + body(0) if rng.random() < 0.3 else "")

    lines = ["start: " + body(1), "x: " + body(0).replace("x", "T0") + rng.choice(["", " | T1 x"])]
    lines += [f"{name}: {text}" for name, text in terminals.items()]
    if rng.random() < 0.3:
        lines.append("%word " + rng.choice(["/[ab]/ T0", "/a/", "/[abc]/ T1 T2"]))
    return "\n".join(lines) + ('\n%ignore "c"' if rng.random() < 0.3 else "")

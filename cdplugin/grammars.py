"""Grammars that ship: ``cd.grammars.PYTHON`` and others, all in Lark's notation.

They are subsets: whatever they derive is a legal text of the language (for a parser; names need not be defined), but not the
other way round. What each leaves out is said beside it.
"""

from __future__ import annotations

from cdplugin.specs_lark import Lark

ARITHMETIC = Lark(
    r"""
start: sum
sum: product (("+" | "-") product)*
product: factor (("*" | "/") factor)*
factor: "-"? (NUMBER | "(" sum ")")
NUMBER: /(0|[1-9][0-9]*)(\.[0-9]+)?/
%ignore / /
"""
)
"""Sums, products and parentheses over decimal numbers."""

PYTHON = Lark(
    r"""
// Indentation is four spaces a level, four levels deep; one statement a line; at most one space around an operator.
start: statement0+
statement0: line | compound{"", block1} | definition{"", block1}
block1: NEWLINE (INDENT1 statement1)+
statement1: line | compound{INDENT1, block2} | definition{INDENT1, block2}
block2: NEWLINE (INDENT2 statement2)+
statement2: line | compound{INDENT2, block3} | definition{INDENT2, block3}
block3: NEWLINE (INDENT3 statement3)+
statement3: line | compound{INDENT3, block4}
block4: NEWLINE (INDENT4 line)+
INDENT1: "    "
INDENT2: "        "
INDENT3: "            "
INDENT4: "                "
NEWLINE: / {0,2}#[^\n\r\x00]*/? "\n"+ (/#[^\n\r\x00]*/ "\n"+)*

compound{indent, block}: "if " expr ":" block (indent "elif " expr ":" block)* [indent "else:" block]
    | "while " expr ":" block
    | "for " names " in " expr ":" block
    | "with " expr [" as " NAME] ":" block
    | "try:" block ((indent "except " expr [" as " NAME] ":" block)+ | indent "except:" block) [indent "finally:" block]
definition{indent, block}: ("@" dotted NEWLINE indent)* "def " NAME "(" [parameters] ")" [ARROW expr] ":" block
    | "class " NAME ["(" [dotted (COMMA dotted)*] ")"] ":" block

line: simple NEWLINE
simple: (target ASSIGN)+ expr | target ANNOTATE expr [ASSIGN expr] | target AUGMENTED expr | expr
    | "return" | "return " exprs | "pass" | "break" | "continue" | "raise" | "raise " expr | "assert " expr [COMMA expr]
    | "del " target | "import " dotted [" as " NAME] | "from " dotted " import " NAME (COMMA NAME)*
    | names COMMA NAME ASSIGN exprs
target: NAME ("." NAME | "[" expr "]")*
names: NAME (COMMA NAME)*
dotted: NAME ("." NAME)*
parameters: plain (COMMA plain)* (COMMA default)* | default (COMMA default)*
plain: NAME [ANNOTATE expr]
default: NAME [ANNOTATE expr] ASSIGN expr

exprs: expr (COMMA expr)*
expr: choice | "lambda " [names] ANNOTATE expr
choice: disjunction [" if " disjunction " else " expr]
disjunction: conjunction (" or " conjunction)*
conjunction: inversion (" and " inversion)*
inversion: "not " inversion | comparison
comparison: sum ((COMPARE | " in " | " not in ") sum | " is " ["not "] sum)*
sum: factor (OPERATOR factor)*
factor: SIGN? primary
primary: NUMBER | atom ("." NAME | "(" [arguments] ")" | "[" (expr | [sum] ":" [sum]) "]")*
atom: NAME | STRING (" " STRING)* | "None" | "True" | "False" | "(" ")" | "(" expr [COMMA [exprs]] ")" | "(" expr loop ")"
    | "[" [exprs] "]" | "[" expr loop "]" | "{" "}" | "{" exprs "}" | "{" item (COMMA item)* "}" | "{" item loop "}"
item: disjunction ANNOTATE expr
loop: (" for " names " in " disjunction (" if " disjunction)*)+
arguments: expr (COMMA expr)* (COMMA named)* | named (COMMA named)* | expr loop
named: NAME ASSIGN expr

NAME: /[A-Za-z_][A-Za-z0-9_]*/ & ~KEYWORD
KEYWORD: "False" | "None" | "True" | "and" | "as" | "assert" | "async" | "await" | "break" | "class" | "continue" | "def"
    | "del" | "elif" | "else" | "except" | "finally" | "for" | "from" | "global" | "if" | "import" | "in" | "is" | "lambda"
    | "nonlocal" | "not" | "or" | "pass" | "raise" | "return" | "try" | "while" | "with" | "yield"
NUMBER: /(0|[1-9][0-9]*)(\.[0-9]+)?(e-?[0-9]+)?/
STRING: /"([^"\\\n\r\x00]|\\[nrt"'\\])*"/ | /'([^'\\\n\r\x00]|\\[nrt"'\\])*'/
SIGN: "-" | "+" | "~"
OPERATOR: / ?(\+|-|\*\*?|\/\/?|%|&|\||\^|<<|>>) ?/
COMPARE: / ?(==|!=|<=|>=|<|>) ?/
ASSIGN: / ?= ?/
AUGMENTED: / ?(\+|-|\*\*?|\/\/?|%|&|\||\^|<<|>>)= ?/
ANNOTATE: /: ?/
ARROW: / ?-> ?/
COMMA: /, ?/
"""
)
"""Python, with indentation kept simple. Left out: nested parentheses over several lines, f-strings, ``async``, ``match``,
``global``, ``*args``, triple quotes, comments that are indented.
"""

CPP = Lark(
    r"""
// What C and C++ have in common: functions, structs, declarations, statements, expressions with C's precedence.
start: include* (function | struct | declaration)+
include: /#include[ \t]*<[a-z_\/.]+>[ \t]*\n/
struct: STRUCT_HEAD (TYPE NAME dimension* ";")+ "}" ";"
function: TYPE NAME "(" [parameter ("," parameter)*] ")" (block | ";")
parameter: TYPE NAME dimension*
declaration: TYPE declarator ("," declarator)* ";"
declarator: NAME dimension* ["=" (assignment | "{" assignment ("," assignment)* "}")]
dimension: "[" assignment "]"

block: "{" statement* "}"
statement: declaration | [expression] ";" | block
    | "if" "(" expression ")" statement ["else" statement]
    | "while" "(" expression ")" statement
    | "do" block "while" "(" expression ")" ";"
    | "for" "(" (declaration | [expression] ";") [expression] ";" [expression] ")" statement
    | "return" ";" | "return" expression ";" | "break" ";" | "continue" ";"

expression: assignment ("," assignment)*
assignment: postfix ASSIGN assignment | conditional
conditional: or ["?" assignment ":" conditional]
or: and ("||" and)*
and: bits ("&&" bits)*
bits: equality (("|" | "^" | "&") equality)*
equality: relation (("==" | "!=") relation)*
relation: shift (("<" | ">" | "<=" | ">=") shift)*
shift: sum (("<<" | ">>") sum)*
sum: product (("+" | "-") product)*
product: unary (("*" | "/" | "%") unary)*
unary: ("++" | "--" | "+" | "-" | "!" | "~" | "*" | "&") unary | postfix
postfix: primary ("[" expression "]" | "(" [assignment ("," assignment)*] ")" | "." NAME | "->" NAME | "++" | "--")*
primary: NAME | NUMBER | CHARACTER | STRING | "(" expression ")"

// What begins with a word takes the space after it, so that "intx" is a name everywhere.
TYPE: /(const[ \n\t]+)?/ (INTEGER | WORD | STRUCT NAME) (/[ \n\t]+/ | /[ \n\t]*(\*[ \n\t]*)+/)
INTEGER: /(unsigned[ \n\t]+)?(int|char|long|short)/
WORD: "void" | "float" | "double"
STRUCT: /struct[ \n\t]+/
STRUCT_HEAD: STRUCT NAME /[ \n\t]*/ "{"
NAME: /[A-Za-z_][A-Za-z0-9_]*/ & ~KEYWORD
KEYWORD: WORD | "int" | "char" | "long" | "short" | "bool" | "if" | "else" | "while" | "do" | "for" | "return" | "break"
    | "continue" | "struct" | "const" | "unsigned" | "signed" | "switch" | "case" | "default" | "goto" | "sizeof" | "static"
    | "extern" | "typedef" | "union" | "enum" | "volatile" | "register" | "auto" | "inline" | "restrict" | "class" | "new"
    | "delete" | "this" | "true" | "false" | "template" | "namespace" | "using" | "public" | "private" | "protected"
    | "virtual" | "operator" | "try" | "catch" | "throw" | "typename" | "friend" | "explicit" | "export" | "mutable" | "asm"
    | "and" | "or" | "not" | "xor" | "bitand" | "bitor" | "compl" | "and_eq" | "or_eq" | "xor_eq" | "not_eq" | "nullptr"
    | "typeid" | /_.*/
ASSIGN: "=" | "+=" | "-=" | "*=" | "/=" | "%=" | "&=" | "|=" | "^=" | "<<=" | ">>="
NUMBER: /(0|[1-9][0-9]*)(\.[0-9]+)?/
CHARACTER: /'([a-zA-Z0-9 .,:;+*\/<>=()_-]|\\[nrt0'\\])'/
STRING: /"([^"\\\n\r\x00?]|\\[nrt0"\\])*"/
%ignore /[ \n\t]+/
%ignore /\/\/[^\n\r\\\x00]*\n/
"""
)
"""A subset of C that is C++ as well. Left out: ``switch``, casts, ``sizeof``, ``typedef``, function pointers, templates,
classes, and names that begin with an underscore.
"""

SMILES = Lark(
    r"""
start: chain ("." chain)*
chain: branched (BOND? branched)*
branched: atom ring* branch*
branch: "(" BOND? chain ")"
ring: BOND? RING
atom: ORGANIC | "[" ISOTOPE? ELEMENT CHIRAL? HYDROGENS? CHARGE? CLASS? "]"
ORGANIC: "B" | "C" | "N" | "O" | "P" | "S" | "F" | "Cl" | "Br" | "I" | "b" | "c" | "n" | "o" | "p" | "s" | "*"
ELEMENT: "H" | "He" | "Li" | "Be" | "B" | "C" | "N" | "O" | "F" | "Ne" | "Na" | "Mg" | "Al" | "Si" | "P" | "S" | "Cl" | "Ar"
    | "K" | "Ca" | "Ti" | "Cr" | "Mn" | "Fe" | "Co" | "Ni" | "Cu" | "Zn" | "Ga" | "Ge" | "As" | "Se" | "Br" | "Kr" | "Ag" | "Cd"
    | "Sn" | "Sb" | "Te" | "I" | "Xe" | "Pt" | "Au" | "Hg" | "Pb" | "Bi" | "b" | "c" | "n" | "o" | "p" | "s" | "se" | "as" | "*"
BOND: "-" | "=" | "#" | "$" | ":" | "/" | "\\"
RING: /[0-9]/ | "%" /[0-9]{2}/
ISOTOPE: /[1-9][0-9]{0,2}/
CHIRAL: "@" | "@@"
HYDROGENS: "H" /[1-9]/?
CHARGE: /[+-][1-9]?/
CLASS: ":" /[0-9]{1,3}/
"""
)
"""SMILES (OpenSMILES 1.0) by its syntax: that ring closures come in pairs and valences add up is not checked."""

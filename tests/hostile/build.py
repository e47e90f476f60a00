"""Large values written small: how an entry of ``tests/data/hostile.jsonl`` says "this, 400 times around that".

A JSON object with the key ``"~"`` names a generator, its other keys are the parameters:

========== ==================================================================================================
generator  value
========== ==================================================================================================
nest       ``inner``, put ``times`` times into ``around`` (in place of the string ``"«»"``); parts are shared
list       ``of``, ``times`` times
dict       ``{key: value}``, ``times`` times
text       the string ``of``, ``times`` times, with ``between`` between
join       the strings ``parts`` one after the other
merge      the objects ``parts`` in one
sum        the lists ``parts`` in one
power      the integer ``base ** exponent + plus``
float      the float that ``of`` spells
json       ``of`` as JSON text
circle     ``of``, in which the string ``"«»"`` is the value itself
========== ==================================================================================================

Inside, ``«i»`` stands for the number of the turn (from 0) in strings, ``«c»`` for a letter, and the whole string ``"«#i»"`` for
the number itself; ``index`` gives another name than ``i`` where generators are nested.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_NUMBER = re.compile(r"«#(\w+)([+*-]\d+)?»")
_IN_TEXT = re.compile(r"«(\w+)([+*-]\d+)?»")
HOLE = "«»"

Names = Mapping[str, Any]


def build(value: Any, names: Names | None = None) -> Any:
    """The value that is written with generators. Recursion is as deep as an entry is written, never as deep as its value."""
    names = names or {}
    if isinstance(value, str):
        return _text(value, names)
    if isinstance(value, list):
        return [build(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    if "~" in value:
        return _GENERATORS[value["~"]](value, names)
    return {_text(key, names): build(item, names) for key, item in value.items()}


def _text(text: str, names: Names) -> Any:
    if text in names:  # the hole
        return names[text]
    whole = _NUMBER.fullmatch(text)
    if whole:
        return _shifted(names[whole[1]], whole[2])
    return _IN_TEXT.sub(lambda found: str(_shifted(names[found[1]], found[2])), text) if "«" in text else text


def _shifted(value: Any, change: str | None) -> Any:
    if not change:
        return value
    amount = int(change[1:])
    return value * amount if change[0] == "*" else value + amount if change[0] == "+" else value - amount


def _turns(value: Names, names: Names) -> Iterator[Names]:
    index = value.get("index", "i")
    for turn in range(value["times"]):
        yield {**names, index: turn, "c": _LETTERS[turn % 26]}


def _long_text(value: Names, names: Names) -> str:
    of, between, times = value["of"], value.get("between", ""), value["times"]
    if isinstance(of, str) and "«c»" not in of and f"«{value.get('index', 'i')}" not in of:  # the same each time
        return between.join([build(of, names)] * times)
    return between.join(build(of, turn) for turn in _turns(value, names))


def _nest(value: Names, names: Names) -> Any:
    inner = build(value["inner"], names)
    for turn in _turns(value, names):
        inner = build(value["around"], {**turn, HOLE: inner})
    return inner


def _dict(value: Names, names: Names) -> Any:
    return {build(value["key"], turn): build(value["value"], turn) for turn in _turns(value, names)}


def _merge(value: Names, names: Names) -> Any:
    return {key: item for part in build(value["parts"], names) for key, item in part.items()}


def _circle(value: Names, names: Names) -> Any:
    circle: dict = {}
    circle.update(build(value["of"], {**names, HOLE: circle}))
    return circle


_GENERATORS: Mapping[str, Any] = {
    "nest": _nest,
    "list": lambda value, names: [build(value["of"], turn) for turn in _turns(value, names)],
    "dict": _dict,
    "text": _long_text,
    "join": lambda value, names: "".join(build(value["parts"], names)),
    "merge": _merge,
    "sum": lambda value, names: [item for part in build(value["parts"], names) for item in part],
    "power": lambda value, names: value["base"] ** value["exponent"] + value.get("plus", 0),
    "float": lambda value, names: float(value["of"]),
    "json": lambda value, names: json.dumps(build(value["of"], names), ensure_ascii=False),
    "circle": _circle,
}

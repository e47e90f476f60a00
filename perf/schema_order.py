"""An instance with its properties in the order in which its schema declares them (or else requires them).

This tells which instances an engine refuses for their order only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

MAX_DEPTH = 60


def reorderings(schema: Any, data: Any) -> Iterator[Any]:
    """Candidates for ``data`` in declared order. Own properties come first or in document order. The branches of anyOf and
    oneOf that fit, or all of them, come in their place or after everything else. Candidates that equal the input are left
    out.
    """
    seen = [_text(data)]
    for own_first, fitting, branches_last in itertools.product((True, False), (True, False), (False, True)):
        other = _Order(schema, own_first, fitting, branches_last).reorder([schema], data, 0)
        text = _text(other)
        if text not in seen:
            seen.append(text)
            yield other


def _text(data: Any) -> str:
    return repr(data)  # dicts show their order


class _Order:
    def __init__(self, root: Any, own_first: bool, fitting: bool, branches_last: bool) -> None:
        from jsonschema import Draft202012Validator
        from jsonschema.validators import validator_for

        self.root, self.own_first, self.fitting, self.branches_last = root, own_first, fitting, branches_last
        self.validator = validator_for(root, default=Draft202012Validator)(root)

    def resolve(self, reference: str) -> Any:
        """What a local ``$ref`` refers to; None if it leads elsewhere."""
        if not reference.startswith("#"):
            return None
        node = self.root
        for part in reference[1:].split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(part)] if isinstance(node, list) else node[part]
            except (KeyError, IndexError, ValueError, TypeError):
                return None
        return node

    def fits(self, schema: Any, value: Any) -> bool:
        try:
            return self.validator.evolve(schema=schema).is_valid(value)
        except Exception:  # a reference that leads nowhere, a bad pattern: keep the branch
            return True

    def flatten(self, schemas: list[Any], value: Any) -> list[dict]:
        """All subschemas that apply to ``value`` in place, in the order in which their properties count."""
        out: list[dict] = []
        pending = [(s, 0) for s in reversed(schemas)]
        later: list[tuple[Any, int]] = []  # branches of anyOf and oneOf, where they come last
        while (pending or later) and len(out) < 500:
            if not pending:
                pending, later = later[::-1], []
            schema, depth = pending.pop()
            if not isinstance(schema, dict) or depth > MAX_DEPTH:
                continue
            more: list[Any] = []
            for keyword, inner in schema.items():
                if keyword == "properties" and not self.own_first:
                    more.append(
                        {k: v for k, v in schema.items() if k not in ("allOf", "anyOf", "oneOf", "$ref", "if", "then", "else")}
                    )
                elif keyword == "$ref" and isinstance(inner, str):
                    more.append(self.resolve(inner))
                elif keyword == "allOf" and isinstance(inner, list):
                    more.extend(inner)
                elif keyword in ("anyOf", "oneOf") and isinstance(inner, list):
                    kept = [s for s in inner if not self.fitting or self.fits(s, value)]
                    if self.branches_last:
                        later.extend((s, depth + 1) for s in kept)
                    else:
                        more.extend(kept)
                elif keyword in ("then", "else", "if"):
                    more.append(inner)
            combines = any(k in schema for k in ("allOf", "anyOf", "oneOf", "$ref", "if", "then", "else"))
            if self.own_first or not combines:
                out.append(schema)
            pending.extend((s, depth + 1) for s in reversed(more))
        return out

    def reorder(self, schemas: list[Any], value: Any, depth: int) -> Any:
        if depth > MAX_DEPTH or not isinstance(value, dict | list):
            return value
        applying = self.flatten(schemas, value)
        if isinstance(value, list):
            return [self.reorder(self.items(applying, i), item, depth + 1) for i, item in enumerate(value)]
        declared: dict[str, list[Any]] = {}
        for schema in applying:
            properties = schema.get("properties")
            for key, inner in properties.items() if isinstance(properties, dict) else ():
                declared.setdefault(key, []).append(inner)
        rest = [s.get("additionalProperties") for s in applying]
        patterns = [
            p for s in applying if isinstance(s.get("patternProperties"), dict) for p in s["patternProperties"].values()
        ]
        names = dict.fromkeys((*declared, *(k for s in applying if isinstance(s.get("required"), list) for k in s["required"])))
        keys = [k for k in names if k in value] + [k for k in value if k not in names]
        return {k: self.reorder(declared.get(k, rest + patterns), value[k], depth + 1) for k in keys}

    @staticmethod
    def items(schemas: list[dict], index: int) -> list[Any]:
        out = []
        for schema in schemas:
            prefix = schema.get("prefixItems") or (schema.get("items") if isinstance(schema.get("items"), list) else None) or []
            if index < len(prefix):
                out.append(prefix[index])
            elif isinstance(schema.get("items"), dict):
                out.append(schema["items"])
            elif isinstance(schema.get("additionalItems"), dict):
                out.append(schema["additionalItems"])
        return out

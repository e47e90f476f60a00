"""Resolve references: base URIs, embedded resources, anchors, JSON Pointers (Core, sections 8 and 9; RFC 6901).

References are resolved within the document and, if the caller passes one, within a ``referencing.Registry``. Nothing is fetched
from the network. The meta-schemas of Drafts 4, 6 and 7 come with the package.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from cdplugin.errors import GrammarError, UnsupportedError, suggestion
from cdplugin.frontends.json_schema.dialect import LENIENT, Dialect, dialect_of
from cdplugin.frontends.json_schema.source import check_value, describe, escape_token
from cdplugin.limits import Limits

SCHEMA_MAPS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"))
_SUBSCHEMAS = frozenset(
    "items prefixItems additionalItems contains additionalProperties propertyNames unevaluatedItems unevaluatedProperties "
    "allOf anyOf oneOf not if then else contentSchema".split()
)


_META_SCHEMAS = frozenset(f"http://json-schema.org/draft-0{number}/schema" for number in (4, 6, 7))
"""The meta-schemas that come with the package (``metaschemas.json``). Later ones consist of several vocabularies."""


@lru_cache(maxsize=1)
def _meta_schemas() -> dict[str, Any]:
    return json.loads(resources.files("cdplugin").joinpath("metaschemas.json").read_text(encoding="utf-8"))


def _subschemas(schema: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    """The values of all keywords under which the drafts expect schemas, each with its relative pointer."""
    for keyword, value in schema.items():
        if keyword in SCHEMA_MAPS and isinstance(value, dict):
            yield from ((below, f"/{keyword}/{escape_token(name)}") for name, below in value.items())
        elif keyword in _SUBSCHEMAS and isinstance(value, list):
            yield from ((below, f"/{keyword}/{i}") for i, below in enumerate(value))
        elif keyword in _SUBSCHEMAS:
            yield value, f"/{keyword}"


@dataclass(eq=False, slots=True)
class Resource:
    """A schema resource (Core, section 4.3.5): the scope of relative references. ``pointer`` is for messages."""

    number: int
    base: str
    root: Any
    pointer: str
    dialect: Dialect


class Target(NamedTuple):
    """The schema to which a reference leads."""

    schema: Any
    pointer: str
    resource: Resource


def joined(base: str, reference: Any, location: str) -> tuple[str, str]:
    """The absolute URI of a reference in a document at ``base``, and its fragment."""
    try:
        uri, fragment = urldefrag(urljoin(base, reference) if base else reference)
    except ValueError as error:
        raise GrammarError(f"reference {reference!r} is not a URI: {error}", location=location) from None
    if base.startswith("urn:") and reference.startswith("#"):
        uri = base
    return uri, unquote(fragment)


class Documents:
    """The document that is compiled and, with a registry, those to which it refers."""

    def __init__(self, document: dict | bool, registry: Any, limits: Limits, relax: bool) -> None:
        self._registry = registry.crawl() if registry is not None else None
        self._limits = limits
        self._relax = relax
        self.relaxed: list[tuple[str, str]] = []
        self._resources: list[Resource] = []
        self._entered: dict[tuple[int, int], Resource] = {}
        self._by_uri: dict[str, Resource] = {}
        self._anchors: dict[tuple[int, str], Target] = {}
        self._dynamic: dict[tuple[int, str], Target] = {}
        self._indexed: set[int] = set()
        self._resolved: dict[tuple[str, int], Target] = {}
        self.root = self._document(document, "", "", LENIENT)

    @property
    def is_one(self) -> bool:
        """Whether the document, as far as it was read, is the only resource."""
        return len(self._resources) == 1

    def _new(self, base: str, root: Any, pointer: str, dialect: Dialect) -> Resource:
        resource = Resource(len(self._resources), base, root, pointer, dialect)
        self._resources.append(resource)
        self._by_uri.setdefault(base, resource)
        return resource

    def _document(self, document: Any, uri: str, pointer: str, default: Dialect) -> Resource:
        dialect, base = default, uri
        if isinstance(document, dict):
            if "$schema" in document:
                dialect = self._declared(document, pointer)
            own = document.get(dialect.id_keyword)
            if own is not None and not (dialect.ref_alone and "$ref" in document):
                base = joined(uri, _string(own, dialect.id_keyword, pointer), pointer)[0]
        resource = self._new(base, document, pointer, dialect)
        if uri and uri != base:
            self._by_uri.setdefault(uri, resource)
        return resource

    def _declared(self, schema: dict, pointer: str) -> Dialect:
        uri = _string(schema["$schema"], "$schema", pointer)
        dialect = dialect_of(uri)
        if dialect is None:
            if not self._relax:
                raise UnsupportedError(
                    f"$schema {uri!r} is not supported (leave it out for Draft 2020-12)",
                    location=f"{pointer}/$schema",
                    keyword="$schema",
                    expected="Draft 4, 6, 7, 2019-09 or 2020-12",
                )
            self.relaxed.append(("$schema", f"{pointer}/$schema"))
            dialect = LENIENT
        return dialect

    def enter(self, resource: Resource, schema: dict, pointer: str) -> Resource:
        """The resource of ``schema``, which was found in ``resource``: its own if it has an identifier."""
        if schema is resource.root:
            return resource
        dialect = resource.dialect
        if "$schema" in schema and isinstance(schema["$schema"], str):
            dialect = self._declared(schema, pointer)
        own = schema.get(dialect.id_keyword)
        if own is None or (dialect.ref_alone and "$ref" in schema):
            return resource
        if dialect.id_keyword == "id" and not isinstance(own, str):
            return resource  # not an identifier but, as is common, a property called "id" outside of `properties`
        if _string(own, dialect.id_keyword, pointer).startswith("#"):
            return resource  # an anchor, in the form of Drafts 4 to 7
        key = (id(schema), resource.number)
        found = self._entered.get(key)
        if found is None:
            base = joined(resource.base, own, pointer)[0]
            found = self._by_uri.get(base)
            if found is None or found.root is not schema:
                found = self._new(base, schema, pointer, dialect)
            self._entered[key] = found
        return found

    def resolve(self, reference: str, resource: Resource, location: str) -> Target:
        """The target of ``reference``, found in ``resource``. Raises ``GrammarError`` if there is none."""
        found = self._resolved.get((reference, resource.number))
        if found is None:
            found = self._resolved[reference, resource.number] = self._resolve(reference, resource, location)
        return found

    def _resolve(self, reference: str, resource: Resource, location: str) -> Target:
        keyword = location.rpartition("/")[2]  # $ref, $dynamicRef or $recursiveRef
        if reference.startswith("#"):
            fragment = unquote(reference[1:])
        else:
            uri, fragment = joined(resource.base, reference, location)
            found = self._by_uri.get(uri) or self._find(uri, resource)
            if found is None:
                raise self._unknown(uri, reference, location, keyword)
            resource = found
        if not fragment:
            return Target(resource.root, resource.pointer, resource)
        target = self._walk(fragment, resource) if fragment.startswith("/") else self._anchor(fragment, resource)
        if not isinstance(target, Target):
            raise GrammarError(f"unresolvable {keyword} {reference!r}", location=location, keyword=keyword, found=target)
        if not isinstance(target.schema, (dict, bool)):
            raise GrammarError(
                f"{keyword} {reference!r}",
                location=location,
                keyword=keyword,
                expected="a schema (object or boolean)",
                found=describe(target.schema),
            )
        return target

    def is_dynamic(self, target: Target, anchor: str) -> bool:
        """Whether a reference by ``anchor`` that was resolved to ``target`` depends on the dynamic scope."""
        self._index_all()
        found = self._dynamic.get((target.resource.number, anchor))
        return found is not None and found.schema is target.schema

    def dynamic(self, number: int, anchor: str) -> Target:
        """The target of a dynamic anchor in the resource with that number."""
        return self._dynamic[(number, anchor)]

    def dynamic_names(self, resource: Resource) -> list[str]:
        """The names of a resource's dynamic anchors."""
        self._index_all()
        return [name for number, name in self._dynamic if number == resource.number]

    def _unknown(self, uri: str, reference: str, location: str, keyword: str) -> GrammarError:
        if "json-schema.org/draft" in uri:
            return UnsupportedError(
                f"{keyword} {reference!r} to a meta-schema is not supported, unless registry= holds it",
                location=location,
                keyword=keyword,
            )
        where = "it is not in the registry" if self._registry is not None else "pass a registry that holds it"
        return GrammarError(
            f"unresolvable {keyword} {reference!r}: {uri!r} is another document; {where} (the network is never used)",
            location=location,
            keyword=keyword,
        )

    def _find(self, uri: str, resource: Resource) -> Resource | None:
        self._index_all()
        found = self._by_uri.get(uri)
        if found is None:
            contents = self._retrieved(uri)
            if contents is not None:
                found = self._document(contents, uri, uri + "#", resource.dialect)
                self._index_all()
        return found

    def _retrieved(self, uri: str) -> Any:
        """A document from the registry or the package; None if neither has it."""
        contents = None
        if self._registry is not None:
            from referencing.exceptions import NoSuchResource, Unretrievable

            with suppress(NoSuchResource, Unretrievable):
                contents = self._registry.get_or_retrieve(uri).value.contents
            if contents is not None:
                check_value(contents, self._limits)
        return _meta_schemas()[uri] if contents is None and uri in _META_SCHEMAS else contents

    def _walk(self, fragment: str, resource: Resource) -> Target | str:
        """The target of a JSON Pointer, or a text that tells what is missing on the way."""
        value, pointer = resource.root, resource.pointer
        for token in fragment.split("/")[1:]:
            name = token.replace("~1", "/").replace("~0", "~") if "~" in token else token
            is_index = name.isdecimal() and name.isascii() and len(name) < 10
            if isinstance(value, dict) and name in value:
                value = value[name]
            elif isinstance(value, list) and is_index and int(name) < len(value):
                value = value[int(name)]
            else:
                return f"no {name!r} at {pointer or 'the root'}" + suggestion(name, value if isinstance(value, dict) else ())
            pointer += "/" + token
            if isinstance(value, dict) and isinstance(value.get(resource.dialect.id_keyword), str):
                resource = self.enter(resource, value, pointer)
        return Target(value, pointer, resource)

    def _anchor(self, name: str, resource: Resource) -> Target | str:
        self._index_all()
        return self._anchors.get((resource.number, name)) or "no such anchor"

    def _index_all(self) -> None:
        """Index identifiers and anchors of all documents, wherever the drafts expect schemas."""
        for document in list(self._resources):
            if document.number in self._indexed:
                continue
            stack: list[tuple[Any, Resource, str]] = [(document.root, document, document.pointer)]
            seen: set[tuple[int, int]] = set()
            while stack:
                schema, resource, pointer = stack.pop()
                if not isinstance(schema, dict):
                    continue
                if isinstance(schema.get(resource.dialect.id_keyword), str):
                    resource = self.enter(resource, schema, pointer)
                if (id(schema), resource.number) in seen:
                    continue
                seen.add((id(schema), resource.number))
                self._indexed.add(resource.number)
                self._add_anchors(schema, resource, pointer)
                stack += ((below, resource, pointer + where) for below, where in _subschemas(schema))

    def _add_anchors(self, schema: dict, resource: Resource, pointer: str) -> None:
        own = schema.get(resource.dialect.id_keyword)
        names = [own[1:]] if isinstance(own, str) and own.startswith("#") and len(own) > 1 else []
        if not resource.dialect.ref_alone:
            names += [schema[k] for k in ("$anchor", "$dynamicAnchor") if isinstance(schema.get(k), str)]
            dynamic = schema.get("$dynamicAnchor")
            if isinstance(dynamic, str):
                self._dynamic.setdefault((resource.number, dynamic), Target(schema, pointer, resource))
            if schema.get("$recursiveAnchor") is True and schema is resource.root:
                self._dynamic.setdefault((resource.number, ""), Target(schema, pointer, resource))
        for name in names:
            self._anchors.setdefault((resource.number, name), Target(schema, pointer, resource))


def _string(value: Any, keyword: str, pointer: str) -> str:
    if not isinstance(value, str):
        raise GrammarError(
            f"keyword {keyword!r}",
            location=f"{pointer}/{keyword}",
            keyword=keyword,
            expected="a URI (string)",
            found=describe(value),
        )
    return value

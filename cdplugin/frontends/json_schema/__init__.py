"""JSON Schema (Draft 2020-12, and Drafts 4 to 2019-09 by ``$schema``) as a front end.

``keyword_map`` names for each keyword where it is read and where it is enforced. The modules, in the order in which a schema
passes them:

===========  ===========================================================================================================
read         ``source`` checks what the caller passed; ``reader`` turns each reachable schema into a checked ``schema``
             record, by the rules of its ``dialect``; ``refs`` resolves references; ``options`` are the caller's
merge        ``shapes`` intersects the subschemas of one place and splits them into alternatives; ``negation`` makes
             complements, ``disjoint`` finds schemas that exclude each other, ``unevaluated`` handles ``unevaluated*``,
             ``sharing`` limits what would multiply
scalars      ``scalars`` merges them; ``strings``, ``formats`` (``formats_uri``, ``formats_data``), ``numbers``, ``multiples``,
             ``fixed_numbers`` and ``values`` build their expressions; ``matching`` asks what an expression matches
structure    ``writing`` is the common base of ``arrays`` and ``objects`` (``names``); ``repetition`` writes items and members
             without memory; ``members`` and ``any_order`` are families with memory (``bracketed``, ``closing``)
uniqueItems  ``distinct`` for scalars; ``distinct_items`` for other items (``distinct_stacks``, ``distinct_values``, ``signs``)
write        ``compile`` drives it all and writes the rules; ``layout`` places white space, ``barren`` drops unproductive
             rules
===========  ===========================================================================================================

Most schemas need no merging. ``usual_reader`` and ``usual`` write these directly: a shortcut with the same result.
"""

from cdplugin.frontends.json_schema.compile import allows_nothing, check_schema, compile_schema
from cdplugin.frontends.json_schema.options import USUAL, Options
from cdplugin.frontends.json_schema.strings import characters

__all__ = ["USUAL", "Options", "allows_nothing", "characters", "check_schema", "compile_schema"]

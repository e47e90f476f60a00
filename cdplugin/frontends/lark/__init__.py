"""Lark grammars, in the extended syntax of LLGuidance, as a front end. docs/grammars.md describes the language.

=======  ===============================================================================================================
read     ``scan`` and ``parse`` make a ``tree`` of the text; ``options``, ``json_options`` and ``substring`` read what stands
         after ``%llguidance``, ``%json`` and ``%regex``; ``definitions`` settles what each name stands for
lower    ``terminals`` become byte expressions; ``draft`` turns rule bodies into productions; ``parameters`` are those of
         parametric rules, ``indent`` the blocks of ``%indent``, ``stops`` and ``bounded`` what ends embedded text
check    ``endings`` finds rules that never end; ``search``, ``corners`` and ``byte_sets`` answer what these ask of rules
write    ``compile`` has all that done; ``write`` puts the draft into the IR, and where ``%ignore`` applies
=======  ===============================================================================================================
"""

from cdplugin.frontends.lark.compile import compile_lark

__all__ = ["compile_lark"]

"""Lark grammars, in the extended syntax of LLGuidance, as a front end.

``scan`` and ``parse`` read the text, ``definitions`` settles what each name stands for, ``terminals`` lowers terminals to byte
expressions, ``draft`` turns rule bodies into productions, ``productive`` names rules that derive nothing, ``write`` puts it all
into the IR (rules with parameters as a family, and where ``%ignore`` applies). docs/grammars.md describes the language.
"""

from cdplugin.frontends.lark.compile import compile_lark

__all__ = ["compile_lark"]

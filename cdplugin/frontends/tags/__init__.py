"""The front end of tags around constrained text: structural tags, tool calls, free text up to a trigger.

``tools`` turns a list of tools into a structural tag, ``read`` checks a structural tag, ``write`` writes its rules (parameters
in XML by ``xml`` and ``xml_values``, in Gemma's style by ``gemma``). ``after`` compiles free text up to a trigger, and a
grammar after it.
"""

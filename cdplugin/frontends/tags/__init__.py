"""Tags around constrained text: structural tags, tool calls, text that is free until a trigger.

``tools`` makes a structural tag of a list of tools, ``read`` checks one, ``write`` writes its rules, with parameters in XML by
``xml`` and ``xml_values``; ``after`` is free text until a trigger.
"""

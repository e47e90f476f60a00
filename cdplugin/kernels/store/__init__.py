"""The arena of a grammar: hash-consed values, a memo table, a work stack, reached by kernels through one header address.

``layout`` says where everything lies, ``arena`` interns and looks up, ``stack`` is what is being built, ``statuses`` lists
what a kernel returns on failure. ``byte_sets`` and ``heap`` are small structures in these tables.
"""

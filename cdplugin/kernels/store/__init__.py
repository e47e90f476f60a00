"""The arena of a grammar: hash-consed values, a memo table, a work stack, reached by kernels through one header address.

``layout`` says where everything lies, ``arena`` interns and looks up, ``statuses`` lists what a kernel returns on failure.
"""

"""The arena of a grammar: hash-consed values, a memo table and a work stack, which kernels reach through one header address.

``layout`` describes header, tables and records; ``arena`` interns values and looks results up; ``stack`` pushes lists under
construction; ``statuses`` lists what a kernel returns on failure. ``byte_sets`` and ``heap`` are small data structures.
"""

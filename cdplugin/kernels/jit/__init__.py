"""How kernels are compiled, linked, and cached on disk. Only this package knows Numba's own classes.

``decorators`` makes kernels and entry kernels; ``pipeline`` is what Numba does for each; ``linking`` keeps inner ones as
bitcode, so that each is optimised once; ``elsewhere`` has another process compile; ``machine_code`` stores the result under a
hash of all sources, for this machine or a level of the instruction set, and ``cache_files`` keeps files whole; ``views`` turns
an address into an array.
"""

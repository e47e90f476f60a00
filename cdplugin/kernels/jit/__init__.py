"""How kernels are compiled, linked, and cached on disk. Only this package knows Numba's own classes.

``decorators`` makes kernels and entry kernels; ``linking`` keeps inner ones as bitcode, so that each is optimised once;
``machine_code`` stores the result under a hash of all sources, ``cache_files`` on disk, ``targets`` for other machines;
``views`` turns an address into an array.
"""

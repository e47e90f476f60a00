"""How kernels are compiled, linked, and cached on disk. Only this package uses Numba's internal classes.

``decorators`` makes kernels and entry kernels; ``pipeline`` is Numba's compiler without the passes that kernels do not need;
``linking`` keeps inner kernels as bitcode, so that each is optimised once; ``elsewhere`` has another process compile;
``machine_code`` stores the result under a hash of all sources, for this machine or for an instruction set level;
``cache_files`` reads and writes cache files safely; ``views`` turns an address into an array.
"""

"""How kernels are compiled, linked, and cached on disk. Only this package knows Numba's own classes."""

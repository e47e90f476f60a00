"""Numba kernels: plain numbers and arrays in and out, no exceptions, no GIL. Import them through their owners one level up."""

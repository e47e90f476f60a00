"""Views: arrays over an address, made inside a kernel. The caller keeps the memory alive.

An engine's tables are found through a *header*: an int64 array whose address is passed as one integer, since a call with ten
array arguments costs five times as much as one with an integer.

Indices of a :class:`View` count from the beginning only. Numba's arrays also accept negative indices, as NumPy does, which
costs three instructions at every access: a fifth of the time of the infilling kernels, a tenth of that of masks.
``NUMBA_BOUNDSCHECK=1`` refuses negative indices.

Under ``NUMBA_DISABLE_JIT=1``, the Python twins below do the same with ctypes.
"""

from __future__ import annotations

import ctypes
import operator
from functools import partial
from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, lower_builtin, lower_cast, register_model
from numba.np.arrayobj import make_array, populate_array

from cdplugin.kernels.jit.decorators import DISABLED, kernel


class View(types.Array):
    """The type of a view: one dimension, contiguous."""

    def __init__(self, dtype: Any) -> None:
        super().__init__(dtype, 1, "C", name=f"View({dtype})")


@register_model(View)
class _ViewModel(models.ArrayModel):
    """An array without a reference to an owner, so that views need no reference counting.

    For Numba's arrays, each count is a call that the optimiser moves nothing across.
    """

    def traverse(self, builder: Any) -> list[Any]:
        return []

    def traverse_types(self) -> list[Any]:
        return []


def _item(context: Any, builder: Any, view: Any, array: Any, index_type: Any, index: Any) -> Any:
    """Return the pointer to an item."""
    struct = make_array(view)(context, builder, array)
    at = context.cast(builder, index, index_type, types.intp)
    if context.enable_boundscheck:
        cgutils.do_boundscheck(context, builder, at, builder.extract_value(struct.shape, 0))
    return builder.gep(struct.data, [at])


@lower_cast(View, types.Array)
def _to_array(context, builder, view, array, value):  # type: ignore[no-untyped-def]
    """Allow passing a view to code that takes an array, where its negative indices count from the end."""
    return value


@lower_builtin(operator.getitem, View, types.Integer)
def _get_item(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    """``view[index]``: one address computation and one load."""
    view, index_type = signature.args
    return builder.load(_item(context, builder, view, arguments[0], index_type, arguments[1]))


@lower_builtin(operator.setitem, View, types.Integer, types.Any)
def _set_item(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    """``view[index] = value``: the value is cast to the item's type, as NumPy does."""
    view, index_type, value_type = signature.args
    value = context.cast(builder, arguments[2], value_type, view.dtype)
    builder.store(value, _item(context, builder, view, arguments[0], index_type, arguments[1]))
    return context.get_dummy_value()


def _view_at(context: Any, builder: Any, view: Any, data: Any, length: Any) -> Any:
    """Return a view of the items at a pointer."""
    struct = make_array(view)(context, builder)
    width = context.get_constant(types.intp, view.dtype.bitwidth // 8)
    populate_array(struct, data, (length,), (width,), width, None)
    return struct._getvalue()


if DISABLED:
    _VIEWS: dict[tuple[int, int, str], np.ndarray] = {}

    def _view(address: int, length: int, dtype: str) -> np.ndarray:
        """The interpreted twin: a NumPy array on the memory, kept for the next call with the same address and length."""
        key = (int(address), int(length), dtype)
        view = _VIEWS.get(key)
        if view is None:
            if len(_VIEWS) > 10_000:
                _VIEWS.clear()
            size = np.dtype(dtype).itemsize * key[1]
            memory: Any = (ctypes.c_char * size).from_address(key[0])
            view = np.frombuffer(memory, dtype=dtype) if size else np.empty(0, dtype)
            _VIEWS[key] = view
        return view

    def _view_of(dtype: Any) -> Any:
        return partial(_view, dtype=dtype.name)

    def byte_set(word: int) -> np.ndarray:
        return np.full(4, word, np.int64)

else:

    def _view_of(dtype: Any) -> Any:
        """Return a kernel (address, length) -> view of items of this type."""
        view = View(dtype)

        @intrinsic
        def make(typing_context, address, length):  # type: ignore[no-untyped-def]
            def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
                data = builder.inttoptr(arguments[0], context.get_data_type(dtype).as_pointer())
                return _view_at(context, builder, view, data, arguments[1])

            return view(types.int64, types.int64), codegen

        @kernel
        def view_at(address, length):  # type: ignore[no-untyped-def]
            return make(address, length)

        return view_at

    @intrinsic
    def byte_set(typing_context, word):  # type: ignore[no-untyped-def]
        """int64 view of four words in the frame of the kernel that calls it, each of them ``word``: a set of bytes
        (:mod:`cdplugin.kernels.store.byte_sets`) that is gone when the kernel returns. In a loop it is the same memory.
        """
        view = View(types.int64)

        def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            count = context.get_constant(types.intp, 4)
            words = cgutils.alloca_once(builder, context.get_data_type(types.int64), size=count)
            for i in range(4):
                builder.store(arguments[0], builder.gep(words, [context.get_constant(types.intp, i)]))
            return _view_at(context, builder, view, words, count)

        return view(types.int64), codegen


view_i64, view_i32, view_u8 = map(_view_of, (types.int64, types.int32, types.uint8))
"""Views of so many int64, int32 or uint8 items at an address."""

"""Four numbers as one: a vector of doubles as a Numba type, for kernels that run four problems abreast.

The compiler does not vectorise a loop over four neighbours when it cannot prove that the arrays do
not overlap. Here the vector is a value: `load` reads four neighbours (the last axis of a 3-D array)
into one, ``+ - * /`` act on all of them, `pick` chooses lane by lane, `store` writes back.

No operation may be re-associated, for the reason that `sysbags._numba.compiled` gives, and what is fused is
written as `multiply_add`.

It builds on Numba's internals, which may change with any release: pyproject.toml bounds the release.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, lower_builtin, register_model, type_callable

LANES = 4
VECTOR = ir.VectorType(ir.DoubleType(), LANES)


class LanesType(types.Type):
    """Numba's view of a vector of `LANES` doubles."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


lanes = LanesType()


@register_model(LanesType)
class LanesModel(models.PrimitiveModel):
    """Kept in vector registers."""

    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, VECTOR)


def _broadcast(builder: Any, value: Any) -> Any:
    single = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        single, ir.Constant(VECTOR, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
    )


def _as_vectors(builder: Any, signature: Any, arguments: Any) -> list[Any]:
    return [
        value if kind == lanes else _broadcast(builder, value)
        for kind, value in zip(signature.args, arguments, strict=True)
    ]


def _address(context: Any, builder: Any, array_type: Any, array: Any, row: Any, column: Any) -> Any:
    """Pointer to ``array[row, column]`` of a contiguous array whose last axis has `LANES` entries."""
    fields = context.data_model_manager[array_type]
    columns = builder.extract_value(fields.get(builder, array, "shape"), 1)
    index = builder.add(builder.mul(row, columns), column)
    start = builder.bitcast(fields.get(builder, array, "data"), VECTOR.as_pointer())
    return builder.gep(start, [index])


@intrinsic
def load(typing: Any, array: Any, row: Any, column: Any) -> Any:
    """Read ``array[row, column, :]`` of a contiguous array."""
    if array.layout != "C":
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _address(context, builder, signature.args[0], *arguments)
        return builder.load(pointer, align=8)

    return lanes(array, types.intp, types.intp), generate


@intrinsic
def store(typing: Any, array: Any, row: Any, column: Any, value: Any) -> Any:
    """Write ``array[row, column, :]`` of a contiguous array."""
    if array.layout != "C":
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _address(context, builder, signature.args[0], *arguments[:3])
        builder.store(arguments[3], pointer, align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, lanes), generate


@intrinsic
def fill(typing: Any, value: Any) -> Any:
    """Every lane the same number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _broadcast(builder, arguments[0])

    return lanes(types.float64), generate


@intrinsic
def pick(typing: Any, left: Any, right: Any, if_greater: Any, otherwise: Any) -> Any:
    """Lane by lane ``if_greater if left > right else otherwise``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        mask = builder.fcmp_ordered(">", arguments[0], arguments[1])
        return builder.select(mask, arguments[2], arguments[3])

    return lanes(lanes, lanes, lanes, lanes), generate


def _unary(name: str) -> Any:
    @intrinsic
    def apply(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = ir.FunctionType(VECTOR, [VECTOR])
            function = cgutils.get_or_insert_function(builder.module, kind, f"{name}.v{LANES}f64")
            return builder.call(function, arguments)

        return lanes(lanes), generate

    return apply


magnitude = _unary("llvm.fabs")
root = _unary("llvm.sqrt")


@intrinsic
def multiply_add(typing: Any, x: Any, y: Any, z: Any) -> Any:
    """Lane by lane ``x * y + z``, rounded once where the processor can do so; x and y may be numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f64")
        return builder.call(function, _as_vectors(builder, signature, arguments))

    return lanes(*(part if part == lanes else types.float64 for part in (x, y, z))), generate


@intrinsic
def largest(typing: Any, value: Any) -> Any:
    """The largest of the lanes, as a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        best = builder.extract_element(arguments[0], ir.Constant(ir.IntType(32), 0))
        for lane in range(1, LANES):
            other = builder.extract_element(arguments[0], ir.Constant(ir.IntType(32), lane))
            best = builder.select(builder.fcmp_ordered(">", other, best), other, best)
        return best

    return types.float64(lanes), generate


@intrinsic
def total(typing: Any, value: Any) -> Any:
    """The sum of the lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        parts = [builder.extract_element(arguments[0], ir.Constant(ir.IntType(32), k)) for k in range(LANES)]
        while len(parts) > 1:
            parts = [builder.fadd(x, y) for x, y in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    return types.float64(lanes), generate


def _register(symbol: Callable[[Any, Any], Any], instruction: str) -> None:
    # Typed and generated directly: `overload` would compile a Python function for each use.
    @type_callable(symbol)
    def type_operator(context: Any) -> Any:
        def typer(left: Any, right: Any) -> Any:
            allowed = (LanesType, types.Float)
            if lanes in (left, right) and isinstance(left, allowed) and isinstance(right, allowed):
                return lanes
            return None

        return typer

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*_as_vectors(builder, signature, arguments))

    for kinds in ((lanes, lanes), (lanes, types.float64), (types.float64, lanes)):
        lower_builtin(symbol, *kinds)(generate)


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _register(_symbol, _instruction)

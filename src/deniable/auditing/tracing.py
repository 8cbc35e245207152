"""Recorded noise as values that are followed: an answer is f(data) + c·noise if nothing else ever touched the noise.

In a traced run a sampler of additive noise gives a `Traced` value. It can be added to, subtracted from, scaled by
numbers, indexed and reshaped, and it keeps the exact form f + c·z of every one of its numbers. Everything else (a
comparison, a clamp, rounding, a conversion, a function of another library) raises `Untraceable` and ends the attempt.
So if a traced run returns, no branch and no other operation of this path depends on the noise, for *any* value that
the noise may have. This is the premise of a proof, and no sample of runs can replace it.

`float(…)` and `int(…)` in the mechanism's own functions are exchanged for forms that let traced values pass, where the
code only calls them or hands them to a call, as in `dtype=float`.

>>> noise = Traced.of(0.7, centre=0.0, draw=0)
>>> answer = (5.0 + 2 * noise) / 4
>>> float(answer.constant), float(answer.factor), answer.value
(1.25, 0.5, 1.6)
>>> max(0.0, answer)
Traceback (most recent call last):
...
deniable.auditing.tracing.Untraceable: __gt__
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import itertools
import operator
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_NONE = -1
"""The draw of a number that follows no noise."""


class Untraceable(BaseException):
    """Noise met an operation that is neither addition nor scaling.

    It is no `Exception`, so that a mechanism which catches exceptions does not go on as if its own code had failed.
    `count` tells of those that a mechanism caught all the same.
    """

    count = 0

    def __init__(self, operation: str) -> None:
        super().__init__(operation)
        Untraceable.count += 1


class Traced:
    """Numbers with their form: `constant + factor * z[draw]`, element by element, and the value of this run."""

    def __init__(
        self, value: Any, constant: Floats, factor: Floats, draw: NDArray[np.int64], *, shared: bool = False
    ) -> None:
        self._value, self._constant, self._factor, self._draw = value, constant, factor, draw
        self._shared = shared

    @classmethod
    def of(cls, value: Any, *, centre: Any, draw: int) -> Traced:
        """One sampler's numbers; they are the draws number `draw`, `draw + 1`, …"""
        shape = _shape(value)
        places = draw + np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
        constant = np.broadcast_to(np.asarray(_plain(centre), dtype=np.float64), shape).copy()
        return cls(value, constant, np.ones(shape), places)

    value = property(lambda self: self._value, doc="What it is in this run.")
    constant = property(lambda self: self._constant, doc="f: what does not depend on noise.")
    factor = property(lambda self: self._factor, doc="c: by how much it follows its draw.")
    draw = property(lambda self: self._draw, doc="Which draw it follows; −1 for none.")

    # What code may ask without learning anything about the noise.
    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # isinstance(noise, float) is what it is without tracing
        return type(self._value)

    shape = property(lambda self: _shape(self._value))
    size = property(lambda self: int(np.prod(_shape(self._value))))
    ndim = property(lambda self: len(_shape(self._value)))
    dtype = property(lambda self: self._value.dtype)
    device = property(lambda self: self._value.device)
    T = property(lambda self: self._moved(lambda part: part.T))

    def __len__(self) -> int:
        if not self.shape:
            raise Untraceable("__len__")
        return len(self._value)

    # Addition and scaling.
    def __add__(self, other: Any) -> Any:
        return _added(self, other, operator.add)

    def __radd__(self, other: Any) -> Any:
        return _added(other, self, operator.add)

    def __sub__(self, other: Any) -> Any:
        return _added(self, other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return _added(other, self, operator.sub)

    def __mul__(self, other: Any) -> Any:
        return _scaled(self, other, operator.mul)

    def __rmul__(self, other: Any) -> Any:
        return _scaled(self, other, operator.mul)

    def __truediv__(self, other: Any) -> Any:
        return _scaled(self, other, operator.truediv)

    def __neg__(self) -> Any:
        return Traced(-self._value, -self._constant, -self._factor, self._draw)

    def __pos__(self) -> Any:
        return self

    def __iadd__(self, other: Any) -> Any:
        return self._become(self + other)

    def __isub__(self, other: Any) -> Any:
        return self._become(self - other)

    def __imul__(self, other: Any) -> Any:
        return self._become(self * other)

    def __itruediv__(self, other: Any) -> Any:
        return self._become(self / other)

    def _become(self, other: Traced) -> Any:
        """An array is changed where it lies, a number is replaced. Who has a part of the array would not see it."""
        if not hasattr(self._value, "shape") or not _shape(self._value):
            return other
        if self._shared:
            raise Untraceable("a change of an array of which a part is held")
        self._value, self._constant = other._value, other._constant
        self._factor, self._draw = other._factor, other._draw
        return self

    # Parts and shapes.
    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, Traced):
            raise Untraceable("an index")
        if isinstance(place, tuple) and any(isinstance(part, Traced) for part in place):
            raise Untraceable("an index")
        return self._moved(lambda part: part[place])

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    def reshape(self, *shape: Any) -> Any:
        """The same numbers in another shape."""
        return self._moved(lambda part: part.reshape(*shape))

    def ravel(self) -> Any:
        """The same numbers in a row."""
        return self._moved(lambda part: part.reshape(-1))

    flatten = ravel

    def copy(self) -> Any:
        """The same numbers."""
        return Traced(self._value, self._constant.copy(), self._factor.copy(), self._draw.copy())

    clone = cpu = detach = contiguous = copy

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def numpy(self) -> Any:
        """A tensor's numbers as an array."""
        return Traced(self._value.numpy(), self._constant, self._factor, self._draw, shared=True)

    def item(self) -> Any:
        """The one number."""
        constant, factor, draw = self._constant.reshape(()), self._factor.reshape(()), self._draw.reshape(())
        return Traced(self._value.item(), constant, factor, draw)

    def tolist(self) -> Any:
        """Lists of numbers."""
        return self.item() if not self.shape else [part.tolist() for part in self]

    def astype(self, kind: Any, copy: bool = True) -> Any:
        """The same kind of number; another kind would round."""
        if np.dtype(kind) != self._value.dtype:
            raise Untraceable("astype")
        return self.copy()

    def _moved(self, move: Callable[[Any], Any]) -> Any:
        self._shared = True
        value = self._value if hasattr(self._value, "shape") else np.asarray(self._value)
        return Traced(
            move(value), *(np.asarray(move(part)) for part in (self._constant, self._factor, self._draw)), shared=True
        )

    # NumPy and torch.
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        operation = _UFUNCS.get(ufunc)
        if operation is None or method != "__call__" or options:
            raise Untraceable(f"numpy {ufunc.__name__}")
        return operation(*inputs)

    def __array_function__(self, function: Any, kinds: Any, args: Any, kwargs: Any) -> NoReturn:
        raise Untraceable(f"numpy {function.__name__}")

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        operation = _TENSOR.get(getattr(function, "__name__", ""))
        if operation is None or kwargs:
            raise Untraceable(f"torch {getattr(function, '__name__', 'function')}")
        return operation(*args)

    def __getattr__(self, name: str) -> NoReturn:
        if name in _PROTOCOLS:  # asked of every object by libraries; plain numbers have none of them
            raise AttributeError(name)
        raise Untraceable(name)


_PROTOCOLS = frozenset(
    {"__array_interface__", "__array_struct__", "__array_priority__", "__cuda_array_interface__", "__dlpack__"}
)


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise Untraceable(name)

    return refuse


for _name in (
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__bool__", "__float__", "__int__", "__index__",
    "__complex__", "__round__", "__floor__", "__ceil__", "__trunc__", "__abs__", "__invert__", "__hash__", "__str__",
    "__repr__", "__format__", "__bytes__", "__contains__", "__reversed__", "__setitem__", "__delitem__", "__array__",
    "__rtruediv__", "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__divmod__", "__rdivmod__", "__pow__",
    "__rpow__", "__matmul__", "__rmatmul__", "__and__", "__rand__", "__or__", "__ror__", "__xor__", "__rxor__",
    "__lshift__", "__rlshift__", "__rshift__", "__rrshift__", "__reduce__", "__reduce_ex__", "__dir__",
):  # fmt: skip
    setattr(Traced, _name, _refusing(_name))


def _added(one: Any, other: Any, operation: Callable[[Any, Any], Any]) -> Any:
    """A sum or a difference, of which one side at least is traced."""
    value = operation(_concrete(one), _concrete(other))
    sign = 1.0 if operation is operator.add else -1.0
    (f, c, z), (g, d, w) = _form(one), _form(other)
    shape = np.broadcast_shapes(f.shape, g.shape)
    c, d = np.broadcast_to(c, shape), np.broadcast_to(d, shape)
    z, w = np.broadcast_to(z, shape), np.broadcast_to(w, shape)
    if ((z != w) & (c != 0) & (d != 0)).any():
        raise Untraceable("a sum of two draws")
    return _checked(value, f + sign * g, c + sign * d, np.where(c != 0, z, w))


def _scaled(one: Any, other: Any, operation: Callable[[Any, Any], Any]) -> Any:
    """A product with a number, or a quotient by one."""
    if isinstance(other, Traced):
        raise Untraceable("a product of noise")
    value = operation(_concrete(one), other)
    f, c, z = _form(one)
    by = _form(other)[0]
    shape = np.broadcast_shapes(f.shape, by.shape)
    with np.errstate(all="ignore"):
        return _checked(value, operation(f, by), operation(c, by), np.broadcast_to(z, shape))


def _checked(value: Any, constant: Any, factor: Any, draw: Any) -> Traced:
    constant, factor = np.asarray(constant, dtype=np.float64), np.asarray(factor, dtype=np.float64)
    if _shape(value) != constant.shape or not (np.isfinite(constant).all() and np.isfinite(factor).all()):
        raise Untraceable("a number that is not finite")
    return Traced(value, constant, np.broadcast_to(factor, constant.shape), np.broadcast_to(draw, constant.shape))


def _form(value: Any) -> tuple[Floats, Floats, NDArray[np.int64]]:
    if isinstance(value, Traced):
        return value.constant, value.factor, value.draw
    constant = np.asarray(_plain(value), dtype=np.float64)
    return constant, np.zeros(constant.shape), np.full(constant.shape, _NONE, dtype=np.int64)


def _concrete(value: Any) -> Any:
    return value.value if isinstance(value, Traced) else value


def _plain(value: Any) -> Any:
    """A tensor as an array, other numbers as they are."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(getattr(value, "shape", ()))


def _ufunc_sum(operation: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda one, other: _added(one, other, operation)


def _product(one: Any, other: Any) -> Any:
    return _scaled(one, other, operator.mul) if isinstance(one, Traced) else _scaled(other, one, operator.mul)


def _quotient(one: Any, other: Any) -> Any:
    if not isinstance(one, Traced):
        raise Untraceable("a quotient by noise")
    return _scaled(one, other, operator.truediv)


_UFUNCS: dict[Any, Callable[..., Any]] = {
    np.add: _ufunc_sum(operator.add),
    np.subtract: _ufunc_sum(operator.sub),
    np.multiply: _product,
    np.divide: _quotient,
    np.negative: operator.neg,
    np.positive: operator.pos,
}
_TENSOR: dict[str, Callable[..., Any]] = {
    "add": _ufunc_sum(operator.add),
    "__radd__": lambda one, other: _added(other, one, operator.add),
    "sub": _ufunc_sum(operator.sub),
    "subtract": _ufunc_sum(operator.sub),
    "__rsub__": lambda one, other: _added(other, one, operator.sub),
    "rsub": lambda one, other: _added(other, one, operator.sub),
    "mul": _product,
    "multiply": _product,
    "__rmul__": _product,
    "div": _quotient,
    "divide": _quotient,
    "true_divide": _quotient,
}


class _Passing(type):
    """A class that calls itself what it replaces in every test of types."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.__mro__[1])

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.__mro__[1])


class _Float(float, metaclass=_Passing):
    dtype = np.dtype(float)

    def __new__(cls, value: Any = 0.0) -> Any:
        return _one_number(value, float) if type(value) is Traced else float(value)


class _Int(int, metaclass=_Passing):
    dtype = np.dtype(int)

    def __new__(cls, value: Any = 0, *base: Any) -> Any:
        return _one_number(value, int) if type(value) is Traced else int(value, *base)


def _one_number(noise: Traced, kind: type) -> Any:
    """float(noise) is the same number; int(noise) is, where it is whole by its law."""
    number = noise.item() if noise.shape or hasattr(noise.value, "item") else noise
    if isinstance(number.value, bool) or not isinstance(number.value, kind):
        raise Untraceable(kind.__name__)
    return number


@contextlib.contextmanager
def passing_conversions(functions: Iterable[types.FunctionType]) -> Iterator[None]:
    """While this lasts, `float` and `int` let traced noise pass in functions that only call them."""
    with contextlib.ExitStack() as stack:
        spaces: dict[tuple[int, str], tuple[dict[str, Any], bool]] = {}
        for function in functions:
            for name, called in _conversions(function.__code__).items():
                space, only = spaces.get((id(function.__globals__), name), (function.__globals__, True))
                spaces[id(function.__globals__), name] = space, only and called
        for (_, name), (space, only) in spaces.items():
            if only and name not in space:
                space[name] = {"float": _Float, "int": _Int}[name]
                stack.callback(space.pop, name)
        yield


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Traced]]:
    """The traced numbers in an output of lists, tuples, dicts and dataclasses, each with its place."""
    if type(value) is Traced:
        yield path, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from leaves(part, (*path, key))
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from leaves(part, (*path, place))
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield from leaves(getattr(value, each.name), (*path, each.name))


def concrete(value: Any) -> Any:
    """The output with the numbers of this run, as an untraced run gives it."""
    if type(value) is Traced:
        return value.value
    if isinstance(value, Mapping) and type(value) is dict:
        return {key: concrete(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(concrete(part) for part in value)
    return value


def _conversions(code: types.CodeType) -> dict[str, bool]:
    """Which of `float` and `int` code uses, and whether it only calls them or hands them to a call (`dtype=float`)."""
    found: dict[str, bool] = {}
    steps = list(dis.get_instructions(code))
    for step, after in itertools.pairwise(steps):
        if step.opname == "LOAD_GLOBAL" and step.argval in ("float", "int"):
            plain = "NULL" in step.argrepr or after.opname in ("KW_NAMES", "PRECALL", "CALL")
            found[step.argval] = found.get(step.argval, True) and plain
    for constant in code.co_consts:
        if isinstance(constant, builtins.type(code)):
            for name, called in _conversions(constant).items():
                found[name] = found.get(name, True) and called
    return found

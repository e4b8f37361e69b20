"""Names that are imported when they are first used: importing a package and asking for help stay quick."""

from __future__ import annotations

# That of typing, which is not imported here: Ctrl-C during an import prints a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def load_name(path: str) -> Any:
    """Return what a dotted path names: ``"numpy.sqrt"`` is the function `sqrt` of the module `numpy`."""
    from importlib import import_module

    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` of a package.

    `modules` has the public names, each with the module that defines it; the package itself for its modules.
    """

    def attribute(name: str) -> Any:
        if modules.get(name) == package:
            from importlib import import_module

            return import_module(f"{package}.{name}")
        if name in modules:
            return load_name(f"{modules[name]}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted(modules)

    return attribute, names

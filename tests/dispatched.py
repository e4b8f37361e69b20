"""Print the processor features that NumPy would dispatch to here, to be disabled in a portable run."""

from __future__ import annotations

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

if __name__ == "__main__":
    print(*(name for name in __cpu_dispatch__ if __cpu_features__[name]))

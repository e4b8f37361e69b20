"""Problems of dynamical similarity analysis: `align_blocks` and other tools, `python -m benchmarks.dsa`."""

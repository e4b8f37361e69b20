#!/usr/bin/env bash
# Install a file of dist/ into a new environment outside of the source tree. There, run the demo and the fast part of
# the tests: `tests/check_distribution.sh dist/FILE [PYTHON]`.
#
# The tests are those of the sdist. Its package is replaced by a link to the installed one, so that nothing else can be
# imported, and the examples in docstrings are run as they were installed. Tests of other extras are skipped.
set -euo pipefail
file=$(realpath "$1")
python=$(command -v "${2:-python3}")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"

"$python" -m venv env
env/bin/python -m pip install --quiet "$file[plot,watch]" pytest pytest-xdist hypothesis jsonschema scikit-image
mkdir tree
tar -xzf "$(dirname "$file")"/sysbags-*.tar.gz --strip-components=1 -C tree
rm -rf tree/src/sysbags
ln -s "$(env/bin/python -c 'import sysbags; print(sysbags.__path__[0])')" tree/src/sysbags

env/bin/sysbags demo --out demo
test -s demo/report.html
cd tree
../env/bin/python -m pytest -n 2 --dist worksteal -m "not slow"
echo "$(basename "$file"): the demo and the fast tests work with $("$python" --version)"

"""Reports: their folders, their making, their checking, their comparing and their index."""

import sys

# Else jsonschema, by which nbformat checks a notebook, builds 38 grammars of addresses: two seconds
# at every start, for a format that the schema of notebooks never asks for. None is how Python is
# informed that there is no such package.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

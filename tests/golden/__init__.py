"""A small grid whose every table is kept whole.

To rewrite the files after a change that is meant to move numbers: ``python -m tests.golden.grid``. The
difference in git is then what the change did."""

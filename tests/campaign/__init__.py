"""A campaign against the library, of any volume: fits of every estimator held against a
conic solver, changes that must change nothing, hostile input, mutated files, kills.

    PYTHONPATH=src:tests python -m campaign \\
        --certificates 10000 --changes 10000 --hostile 1000 --files 1000 --kills 100

Every trial is drawn from its number alone, so that what is found can be tried again:
``--first 4711 --certificates 1``. A slice of it is among the tests.
"""

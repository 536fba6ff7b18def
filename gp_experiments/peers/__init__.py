"""Speed and memory beside other libraries: `python -m gp_experiments peers`.

`cases.py` says what is computed, `data.py` on what and what is right, `with_*.py` how each
contender computes it, `interleave.py` and `worker.py` run them in turns, `measure.py` makes
records, `table.py` and `plot.py` show them, `roofline.py` says what the machine allows, `curves.py`
follows one program over limits and sizes.
"""

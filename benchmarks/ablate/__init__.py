"""A grid of runs at equal training FLOPs: what each choice is worth, with intervals.

Files are read by `grid`, made into runs by `plan`, run by `run`; `figures` reads what came out,
`intervals` says how sure it is, `report` writes the page.
"""

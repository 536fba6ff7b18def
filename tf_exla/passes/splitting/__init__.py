"""Splitting: large tensors between small sources and reductions become loops over chunks.

`region` finds what one axis reaches, `stages` turns a region into loops, `chunks` sizes them,
`search` chooses among candidates, `keep` trades memory for recomputation.
"""

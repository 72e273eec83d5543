"""A verdict between trained systems, from the folders their runs left, as a page.

`runs` reads the folders, `comparison` computes everything that is said, `models` asks the models where they are there,
`page` and `figures` draw.
"""

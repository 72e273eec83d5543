"""Prepare a training text once: read, clean, deduplicate, tokenize and shuffle it in several processes.

    prepared_text  starts both steps below, unless the cache has their results
    clean_text     reads the text block by block, keeps the pairs that pass the cleaning rules, and then drops
                   duplicates and samples by the digests of all pairs
    encoding       writes the token ids of the selected pairs, sorted by digest

Sorting by digest gives a random order that depends on the pairs alone. The order of the input, its format and the
number of processes do not change what is written. An interrupted preparation reuses its finished files.
"""

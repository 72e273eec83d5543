"""Prepare a training corpus once: read, clean, deduplicate, tokenize and shuffle it in several processes.

    scan       reads the text part by part, applies the cleaning rules and keeps a digest of every clean pair
    select     drops duplicates and samples, by ranges of digests
    encode     reads the text again and writes the token ids of the selected pairs in the order of their digests

The order of the digests is random, and depends on the pairs alone: neither the order of the input, nor its format, nor
the number of processes changes what is written. Memory is bounded whatever the size of the corpus. An interrupted
preparation continues with the parts that are missing.
"""

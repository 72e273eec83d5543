"""Prepare a training text once: read, clean, deduplicate, tokenize and shuffle it in several processes.

    clean_text     reads the text block by block and keeps the pairs that pass the cleaning rules, with their digests;
                   then drops duplicates and samples among the digests of all blocks
    encoding       writes the token ids of the selected pairs in the order of their digests

The order of the digests is random, and depends on the pairs alone: neither the order of the input, nor its format, nor
the number of processes changes what is written. An interrupted preparation continues with what is missing.
"""

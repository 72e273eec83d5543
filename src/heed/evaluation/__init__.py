"""Strings and arrays to numbers: scores, significance, word alignment, sentence buckets, translation symptoms."""

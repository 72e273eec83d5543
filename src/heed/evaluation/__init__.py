"""Evaluate translations: scores, significance, word alignment, sentence buckets, translation symptoms."""

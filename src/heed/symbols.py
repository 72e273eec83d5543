"""The four ids every vocabulary starts with, fixed so that tensors can be built before a tokenizer exists."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3

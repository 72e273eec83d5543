"""Special tokens: their ids and pieces are the same in every vocabulary, so models need no tokenizer to know them."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3

PAD_PIECE, UNK_PIECE, BOS_PIECE, EOS_PIECE = "<pad>", "<unk>", "<s>", "</s>"
SPECIAL_PIECES = (PAD_PIECE, UNK_PIECE, BOS_PIECE, EOS_PIECE)
"""The pieces of the special tokens in SentencePiece models, indexed by id."""

WORD_START = "▁"
"""SentencePiece's mark (U+2581) for the space before a word; a piece that starts with it starts a word."""
PLACEHOLDERS = tuple(map(chr, range(0xE000, 0xE00A)))
"""Private-use characters that stand for text to copy. They are pieces of a vocabulary that was trained with them."""
WORD_START_BYTE, UNK_BYTE = b"\xfe", b"\xff"
"""What stands for WORD_START and UNK in the text of pieces as bytes: bytes that never occur in UTF-8."""

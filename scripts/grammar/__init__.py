"""The grammar of the built-in corpus: English-German sentence pairs with gold alignments, antecedents and roles.

`grammar.lexicon` holds the words, `grammar.grammar` the synchronous grammar, `grammar.rules` one rule per linguistic
phenomenon, and `grammar.corpus` draws the splits and the challenge set. ``python -m scripts.grammar --out
data/synthetic`` writes the files that ``data=synthetic`` reads.
"""

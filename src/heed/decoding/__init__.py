"""A step function → hypotheses: greedy and beam search. They know the contract of ``models.seq2seq``, and no model."""

from heed.decoding.beam import BeamSearch
from heed.decoding.greedy import GreedySearch
from heed.decoding.search import Hypothesis, Search

__all__ = ["BeamSearch", "GreedySearch", "Hypothesis", "Search"]

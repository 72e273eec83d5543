"""The cover picture: attention of words from attention of pieces, and the choice of the head."""

import numpy as np
from docs.cover import Words, clearest_head, draw, words_of


def test_attention_of_words() -> None:
    cross = np.zeros((1, 1, 4, 5))
    cross[0, 0, 0] = [0.1, 0.2, 0.3, 0.4, 0.0]
    cross[0, 0, 1] = [0.0, 0.0, 0.0, 1.0, 0.0]
    words = words_of(["▁an", "im", "al", "▁it", "</s>"], ["▁es", "▁Ti", "er", "</s>"], cross)
    assert (words.source, words.target) == (["animal", "it"], ["es", "Tier"])
    np.testing.assert_allclose(words.weights[0, 0], [[0.6, 0.4], [0.0, 0.5]])
    assert words.pronoun == 0


def test_the_clearest_head_attends_to_different_words() -> None:
    weights = np.full((2, 3, 1, 2), 0.5)
    other = weights.copy()
    weights[1, 2, 0], other[1, 2, 0] = [1, 0], [0, 1]
    sentences = [Words(["a", "b"], ["es"], array) for array in (weights, other)]
    assert clearest_head(sentences) == (1, 2)
    axes = draw(sentences).axes[0]
    assert len(axes.patches) == 2  # one curve for each sentence
    assert [text.get_text() for text in axes.texts if text.get_weight() == "bold"] == ["a", "es", "b", "es"]

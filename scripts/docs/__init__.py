"""Write the generated parts of README.md and docs/: ``python scripts/docs``.

A generated part of a page is enclosed by two comments:

    <!-- table: training rows=synthetic columns=model,bleu -->    a table of docs/results/training.json
    <!-- value: corpus_hardness.word_for_word_bleu -->            a number of docs/results/corpus_hardness.json, inline
    <!-- source: training -->                                     where the numbers of a file come from
    <!-- options -->  <!-- recipes -->  <!-- commands -->  <!-- claims -->

and ends with ``<!-- end -->``.
"""

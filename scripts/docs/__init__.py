"""Write the generated parts of README.md and docs/: ``python scripts/docs``.

A generated part of a page is enclosed by two comments:

    <!-- table: training rows=synthetic columns=model,bleu -->    a table of docs/results/training.json
    <!-- figure: ratios training_speed columns=torch -->     a figure of that file: a function of drawings.py
    <!-- value: corpus_hardness.word_for_word_bleu -->            a number of docs/results/corpus_hardness.json, inline
    <!-- source: training -->                                     where the numbers of a file come from
    <!-- reference: scaling heads -->                            results of claims, for a page of docs/course/
    <!-- options -->  <!-- presets -->  <!-- commands -->  <!-- claims -->

and ends with ``<!-- end -->``. Some files are generated as a whole: the figures, ``stylesheets/colours.css`` (the
colours of heed's pages), and ``explainer.html`` around the model that is in it.
"""

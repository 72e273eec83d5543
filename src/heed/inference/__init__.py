"""Translate text with trained models: model folders, search settings, the translator, minimum Bayes risk decoding."""

"""Formulas as plain functions."""

"""heed: train translation models you can look inside.

Axis legend, the same letters in every signature:

    B sentences · S source positions · T target positions · D model width · H heads · E width per head
    F feed-forward width · V vocabulary · K beam · L layers · R rows of a decoder state (B · K in a beam)
"""

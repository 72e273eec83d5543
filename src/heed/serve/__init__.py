"""Serve trained models over HTTP, with the API of LibreTranslate.

Importing the package loads no module of it: the command line shows the defaults of `ServeSettings` without FastAPI.
"""

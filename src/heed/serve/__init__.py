"""Serve trained models over HTTP, with the API of LibreTranslate.

Importing the package imports none of its modules, so that the command line shows defaults without FastAPI.
"""

"""Documents with markup: text to translate, and what is kept around it."""

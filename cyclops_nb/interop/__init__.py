"""Sessions in and out of other forms: the notebooks that people work in, and those that they hand out."""

"""Middleware that comes with the library."""

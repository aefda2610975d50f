"""The one engine that runs are made by."""

"""Renderers: a record in, a string out; nothing here decides or prints."""

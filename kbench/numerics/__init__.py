"""Tensors against tensors."""

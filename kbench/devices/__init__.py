"""Devices: which one, who may use it when, its clocks, timers and peaks."""

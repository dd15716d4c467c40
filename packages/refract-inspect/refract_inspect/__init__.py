"""Refract's judges where people already run models: a scorer of Inspect, a detector of garak."""

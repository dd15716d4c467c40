"""Conversations: turns that a model answers itself, scripted results of tools."""

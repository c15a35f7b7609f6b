"""Runs functions and graphs, and looks at what they compute on the way."""

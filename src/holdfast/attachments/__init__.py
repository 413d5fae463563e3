"""Attachments: where their bytes are, how they come in and out, and how they are reclaimed.

Three layers. A byte backend (`backend`, and one module each) keeps bytes under their hash and
knows nothing of sessions. The manifest (`operations.attachments`) says which session refers to
which. What is here above both puts them in order: written down, then readable; forgotten, then
reclaimed.
"""

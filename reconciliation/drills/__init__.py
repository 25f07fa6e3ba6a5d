"""Rehearsals of one failure each, with real processes over HTTP against a running demo."""

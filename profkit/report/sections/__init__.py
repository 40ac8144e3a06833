"""Sentences and tables about a Study, common to all writers, without format."""

"""Thinking, without mailboxes."""

"""The untrusted side: one candidate's process, and what it shares with the judge."""

"""The untrusted side: one candidate's process, and code it shares with the judge."""

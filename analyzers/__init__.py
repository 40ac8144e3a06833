"""Launch frames and rooflines -> metrics, lower bounds, findings and verdicts."""

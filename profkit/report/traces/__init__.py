"""What is shown of a trace: the ledger of its operations, and a change checked in the program."""

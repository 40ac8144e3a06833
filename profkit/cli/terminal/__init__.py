"""What a person sees while a verb works: progress, colour, the answer as soon as it is known."""

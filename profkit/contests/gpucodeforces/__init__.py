"""GPUCodeForces: the form of a submission, its defects, its entry's lines, points, prompts."""

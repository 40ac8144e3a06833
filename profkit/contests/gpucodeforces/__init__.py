"""GPUCodeForces: form of a submission, defects, output lines, points, prompts."""

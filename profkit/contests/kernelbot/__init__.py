"""GPU MODE's kernelbot: task.yml, reference.py, submissions with custom_kernel."""

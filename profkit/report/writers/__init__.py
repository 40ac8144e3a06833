"""Terminal, Markdown and notebook output of report.sections."""

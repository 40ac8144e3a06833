"""Terminal, Markdown and notebook output of what sections say."""

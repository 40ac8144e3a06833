"""Terminal, Markdown, JSON, JUnit and notebook output of what sections say."""

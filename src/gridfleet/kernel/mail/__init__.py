"""Mail: letters shown as text and HTML, queued with the change that causes them, sent by SMTP or kept as files."""

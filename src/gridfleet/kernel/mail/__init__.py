"""Mail: content as text and HTML, queued with the change that causes it, sent by SMTP or stored as files."""

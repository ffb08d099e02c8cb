"""RabbitMQ: connections, declarations, consumers and publishers."""

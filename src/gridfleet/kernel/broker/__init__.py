"""RabbitMQ: connections, declarations, and the private node of a one-machine install."""

"""RabbitMQ: connections, what is declared in it, and the private node of a one-machine install."""

"""A private RabbitMQ node."""

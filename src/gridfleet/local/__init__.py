"""The service on one machine: its processes, and a PostgreSQL server and a RabbitMQ node of its own."""

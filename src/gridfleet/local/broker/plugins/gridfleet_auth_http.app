{application, gridfleet_auth_http, [
    {description, "HTTP authentication that tells certificates from passwords on RabbitMQ 4.0"},
    {vsn, "1"},
    {modules, [gridfleet_auth_http]},
    {registered, []},
    {applications, [kernel, stdlib, rabbit_common, rabbit, rabbitmq_auth_backend_http]},
    {broker_version_requirements, ["4.0.0"]}
]}.

{application, gridfleet_bounds, [
    {description, "Refuses what fills the broker's memory without any bound"},
    {vsn, "1"},
    {modules, [gridfleet_bounds, gridfleet_bounds_sessions, gridfleet_bounds_subscriptions]},
    {registered, []},
    {applications, [kernel, stdlib, rabbit_common, rabbit]}
]}.

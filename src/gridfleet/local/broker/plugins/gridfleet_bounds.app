{application, gridfleet_bounds, [
    {description, "Refuses what fills the broker's memory without any bound"},
    {vsn, "1"},
    {modules, [gridfleet_bounds]},
    {registered, []},
    {applications, [kernel, stdlib, rabbit_common, rabbit]}
]}.

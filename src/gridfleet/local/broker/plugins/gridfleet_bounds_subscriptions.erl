%% Lets subscriptions of plants take turns from RabbitMQ 3.12 on, where they pass no channel.
%%
%% The exchange that they are bound to has this module as its decorator: it is called after each binding, in the process that
%% reads the plant's connection. Removals need no turns: what is removed had a turn.
%%
%% The nodes of a cluster share the names of an exchange's decorators, and leave out modules that they do not have. So this is a
%% module of its own: a node with an older version of the plugin would call functions that the older module lacks.
-module(gridfleet_bounds_subscriptions).

-behaviour(rabbit_exchange_decorator).

-export([description/0, active_for/1, serialise_events/1, create/2, delete/2, delete/3, policy_changed/2]).
-export([add_binding/3, remove_bindings/3, route/2]).

-rabbit_boot_step({?MODULE, [
    {description, "bounds of subscriptions"},
    {mfa, {rabbit_registry, register, [exchange_decorator, <<"gridfleet bounds">>, ?MODULE]}},
    {cleanup, {rabbit_registry, unregister, [exchange_decorator, <<"gridfleet bounds">>]}},
    {requires, [rabbit_registry, gridfleet_bounds_tag]},
    {enables, recovery}
]}).

description() ->
    [{description, <<"Bounds of subscriptions">>}].

active_for(Exchange) ->
    case element(2, Exchange) of
        {resource, _, exchange, <<"amq.topic">>} ->
            case gridfleet_bounds:is_before_3_12() of
                true -> none;
                false -> noroute
            end;
        _ ->
            none
    end.

add_binding(_, _, Binding) ->
    case {get('$initial_call'), element(4, Binding)} of
        {{rabbit_mqtt_reader, init, 1}, {resource, _, queue, <<"mqtt-subscription-", Plant:36/binary, _/binary>>}} ->
            gridfleet_bounds:await_subscription(Plant);
        _ ->
            false
    end,
    ok.

serialise_events(_) -> false.

create(_, _) -> ok.

delete(_, _) -> ok.

delete(_, _, _) -> ok.

policy_changed(_, _) -> ok.

remove_bindings(_, _, _) -> ok.

route(_, _) -> [].

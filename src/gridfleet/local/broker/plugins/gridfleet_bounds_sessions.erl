%% Authorisation backend in front of the broker's cache: refuses new sessions of a plant that has created 20 within the hour.
%%
%% With `mqtt.durable_queue_type = quorum`, each new session leaves memory in the broker, as each new quorum queue does. From
%% RabbitMQ 3.12 on, sessions are declared without a channel, so the bound of quorum queues does not see them. Their only question
%% before the declaration is the one for the right to configure the queue. A client can send its subscription together with its
%% login, so closing the connection afterwards would be too late.
-module(gridfleet_bounds_sessions).

-export([
    user_login_authentication/2,
    user_login_authorization/2,
    check_vhost_access/3,
    check_resource_access/4,
    check_topic_access/4,
    state_can_expire/0,
    expiry_timestamp/1
]).

-define(CACHE, rabbit_auth_backend_cache).

user_login_authentication(UserName, Properties) ->
    ?CACHE:user_login_authentication(UserName, Properties).

user_login_authorization(UserName, Properties) ->
    ?CACHE:user_login_authorization(UserName, Properties).

check_vhost_access(User, VHost, Context) ->
    ?CACHE:check_vhost_access(User, VHost, Context).

%% A refusal is not cached: the plant may create sessions again in the next hour.
check_resource_access(User, Resource, Permission, Context) ->
    case ?CACHE:check_resource_access(User, Resource, Permission, Context) of
        true when Permission =:= configure -> gridfleet_bounds:may_create(Resource);
        Answer -> Answer
    end.

check_topic_access(User, Resource, Permission, Context) ->
    ?CACHE:check_topic_access(User, Resource, Permission, Context).

%% Called before RabbitMQ 3.13.
state_can_expire() ->
    ?CACHE:state_can_expire().

%% Called from RabbitMQ 3.13 on.
expiry_timestamp(User) ->
    ?CACHE:expiry_timestamp(User).

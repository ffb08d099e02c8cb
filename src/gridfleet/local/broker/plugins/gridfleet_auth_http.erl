%% Authentication and authorisation over HTTP for RabbitMQ 4.0, by rabbit_auth_backend_http.
%%
%% RabbitMQ 4.0 passes {password, none} for an MQTT client that showed a certificate, and its HTTP backend sends that atom as
%% the text "none", which a client can send as its password too (rabbitmq-server#13408, fixed in 4.1). Only here, inside
%% the broker, are atom and text different: the atom is dropped, so that the request has no password, as with all other
%% versions. The text stays.
%%
%% The tag `gridfleet_auth_http` among the node's tags, which the management API shows, says that logins pass through here.
-module(gridfleet_auth_http).

-export([
    announce/0,
    user_login_authentication/2,
    user_login_authorization/2,
    check_vhost_access/3,
    check_resource_access/4,
    check_topic_access/4,
    expiry_timestamp/1
]).

-rabbit_boot_step({?MODULE, [
    {description, "tag of the authentication backend"},
    {mfa, {?MODULE, announce, []}}
]}).

-define(HTTP, rabbit_auth_backend_http).

announce() ->
    {ok, Backends} = application:get_env(rabbit, auth_backends),
    Used = lists:member(?MODULE, Backends) orelse lists:keymember(?MODULE, 1, Backends),
    Tags = application:get_env(rabbit, node_tags, []),
    application:set_env(rabbit, node_tags, [{<<"gridfleet_auth_http">>, <<"1">>} || Used] ++ Tags).

user_login_authentication(UserName, Properties) ->
    ?HTTP:user_login_authentication(UserName, without_absent_password(Properties)).

user_login_authorization(UserName, Properties) ->
    ?HTTP:user_login_authorization(UserName, without_absent_password(Properties)).

check_vhost_access(User, VHost, Context) ->
    ?HTTP:check_vhost_access(User, VHost, Context).

check_resource_access(User, Resource, Permission, Context) ->
    ?HTTP:check_resource_access(User, Resource, Permission, Context).

check_topic_access(User, Resource, Permission, Context) ->
    ?HTTP:check_topic_access(User, Resource, Permission, Context).

expiry_timestamp(User) ->
    ?HTTP:expiry_timestamp(User).

without_absent_password(Properties) ->
    [Property || Property <- Properties, Property =/= {password, none}].

%% Refuses to clients what RabbitMQ keeps in memory without any bound: messages of an open transaction, bindings that differ
%% in their arguments alone, and large arguments of consumers. Messages that a client fetches one by one, or that come back to
%% it, wait while it does not read those before, and end its connection. Administrators, of which the service is one, may do all of it.
%%
%% Methods are tuples of the AMQP 0-9-1 specification, so their fields have fixed places; no header of one version is needed.
-module(gridfleet_bounds).

-behaviour(rabbit_channel_interceptor).

-export([description/0, init/1, applies_to/0, intercept/3]).

-rabbit_boot_step({?MODULE, [
    {description, "bounds of clients"},
    {mfa, {rabbit_registry, register, [channel_interceptor, <<"gridfleet bounds">>, ?MODULE]}},
    {cleanup, {rabbit_registry, unregister, [channel_interceptor, <<"gridfleet bounds">>]}},
    {requires, rabbit_registry},
    {enables, recovery}
]}).

-define(MOST_BYTES, 1024).
-define(MOST_ANSWERS, 4).
-define(PAUSE_MS, 2).
-define(MOST_PAUSES, 1000).
-define(CALL_MS, 1000).

description() ->
    [{description, <<"Bounds of clients">>}].

init(Channel) ->
    {user, _Name, Tags, _Backends} = rabbit_channel:get_user(Channel),
    case lists:member(administrator, Tags) of
        true -> unbounded;
        false -> bounded
    end.

applies_to() ->
    ['tx.select', 'queue.bind', 'basic.consume', 'basic.get', 'basic.publish'].

%% Called for every method.
intercept({'tx.select'}, _, bounded) ->
    refused("transactions are not allowed; use publisher confirms", 'tx.select');
intercept(Bind, Content, bounded) when element(1, Bind) =:= 'queue.bind' ->
    case arguments(Bind) of
        [] -> {Bind, Content};
        _ -> refused("bindings with arguments are not allowed", 'queue.bind')
    end;
intercept(Consume, Content, bounded) when element(1, Consume) =:= 'basic.consume' ->
    %% A stream's offset and a priority are a few bytes.
    case erlang:external_size(arguments(Consume)) =< ?MOST_BYTES of
        true -> {Consume, Content};
        false -> refused("the arguments of the consumer are too large", 'basic.consume')
    end;
intercept(Get, Content, bounded) when element(1, Get) =:= 'basic.get' ->
    once_read(Get, Content);
intercept({'basic.publish', _, _, _, true, _} = Mandatory, Content, bounded) ->
    once_read(Mandatory, Content);
intercept(Method, Content, _) ->
    {Method, Content}.

%% Deliveries to consumers wait for the client's socket by themselves, these answers pile up before it. While the channel waits,
%% up to 400 messages pile up behind it, so it does not wait for long.
once_read(Method, Content) ->
    case wait(writer(), ?MOST_PAUSES) of
        read -> {Method, Content};
        unread -> rabbit_misc:amqp_error(resource_error, "answers are not read", [], element(1, Method))
    end.

wait(Writer, Pauses) when is_pid(Writer) ->
    case process_info(Writer, message_queue_len) of
        {message_queue_len, Waiting} when Waiting > ?MOST_ANSWERS, Pauses > 0 ->
            timer:sleep(?PAUSE_MS),
            wait(Writer, Pauses - 1);
        {message_queue_len, Waiting} when Waiting > ?MOST_ANSWERS ->
            unread;
        _ ->
            read
    end;
wait(_, _) ->
    read.

%% The process that writes to the channel's socket. It is started beside the channel, by the same supervisor, which does not
%% answer while it ends the channel.
writer() ->
    case get(?MODULE) of
        undefined ->
            try gen_server:call(hd(get('$ancestors')), which_children, ?CALL_MS) of
                Children ->
                    Found = lists:keyfind(writer, 1, Children),
                    Writer = Found =/= false andalso element(2, Found),
                    put(?MODULE, Writer),
                    Writer
            catch
                exit:_ -> none
            end;
        Known ->
            Known
    end.

arguments(Method) ->
    element(tuple_size(Method), Method).

refused(Text, Method) ->
    rabbit_misc:amqp_error(access_refused, Text, [], Method).

%% Bounds what clients make RabbitMQ keep in memory or on disk, where RabbitMQ has no limit of its own.
%%
%% Refuses:
%% - transactions: their messages wait in memory until they end; bindings with arguments: any number may differ in these alone;
%% - consumers beyond 20 of a channel, 20 of a stream (each holds a file open), and 640 of a user in a vhost (their queue needs
%%   minutes when they end);
%% - large arguments of consumers and queues; more than 4,096 channels of a user (each is four processes); more than 4 KiB of a
%%   message's properties, which no bound of a queue counts;
%% - queues that pass messages on, that reject messages when they are full, that have more than ten priorities, or that let a
%%   consumer hold messages for more than 30 minutes;
%% - arguments of queues that the management API cannot list, because it then lists no queue of any vhost; arguments of types
%%   that no argument has, one of which keeps a processor busy; names of queues that the broker decodes to Erlang terms;
%% - queues that exceed the limit of a vhost only because they are declared at the same moment; many new quorum queues and
%%   streams of a user, and many new sessions of a plant: each leaves atoms, of which a node has five million and frees none;
%% - copies to other routing keys (CC, BCC), which RabbitMQ before 4.0 does not check: a client could fill queues of its own and
%%   keep the messages in memory by not acknowledging them;
%% - more than 50 changes of queues and bindings, or more than 250 uses of a routing key, exchange or queue that is new to
%%   its channel (25 while many questions wait), of a user in a second: the logins of all others would wait for them. They are
%%   delayed first, by up to two seconds. Beyond 10,000 a second, other methods are too. Subscriptions of a plant are changes.
%%
%% Closes connections:
%% - that exceed the limit of a vhost because they are opened at the same moment, or 32 of a partner in a vhost;
%% - whose client has reset them, if the broker does not notice;
%% - that are to be closed, if their client does not read;
%% - whose client, for two seconds, does not read messages that it fetches one by one or that are returned to it;
%% - with 32 MiB of waiting methods and answers, 8 MiB of incomplete messages, or 3 MiB of an MQTT packet that RabbitMQ does not
%%   bound;
%% - the largest ones, when all together, with their unread deliveries, hold a quarter of the memory above which the broker
%%   blocks publishers.
%%
%% From RabbitMQ 3.12 on, restarts the queues that hold the most of their messages in memory when all queues together hold that
%% much. Drops messages that keep the log of a quorum queue on disk. Removes ended connections and channels from the broker's
%% counts, and keeps open connections in its list. While messages of plants wait for ingest, stops reading from plants that have
%% sent more than their share. Shortens large entries of the broker's own log, whatever their cause, and keeps one entry of the
%% answers that a plant's connection cannot send. Shortens the stop of a node by the seconds in which it would only wait.
%% Administrators, of which the service is one, have no bounds.
%%
%% Methods are tuples of the AMQP 0-9-1 specification: their fields have fixed positions, so no header file of a version is
%% needed.
-module(gridfleet_bounds).

-behaviour(rabbit_channel_interceptor).

-export([announce/0, withdraw/0, description/0, init/1, applies_to/0, intercept/3, handle_event/2, handle_call/2, shorten/2]).
-export([is_before_3_12/0, await_subscription/1, may_create/1]).

-rabbit_boot_step({?MODULE, [
    {description, "bounds of clients"},
    {mfa, {rabbit_registry, register, [channel_interceptor, <<"gridfleet bounds">>, ?MODULE]}},
    {cleanup, {rabbit_registry, unregister, [channel_interceptor, <<"gridfleet bounds">>]}},
    {requires, rabbit_registry},
    {enables, recovery}
]}).

-rabbit_boot_step({gridfleet_bounds_tag, [
    {description, "tag of the bounds of clients"},
    {mfa, {?MODULE, announce, []}},
    {cleanup, {?MODULE, withdraw, []}},
    {enables, ?MODULE}
]}).

-rabbit_boot_step({gridfleet_bounds_connections, [
    {description, "bounds of connections"},
    {mfa, {gen_event, add_handler, [rabbit_event, ?MODULE, []]}},
    {cleanup, {gen_event, delete_handler, [rabbit_event, ?MODULE, []]}},
    {requires, [rabbit_event, ?MODULE]},
    {enables, recovery}
]}).

-define(MOST_BYTES, 1024).
-define(MOST_CONSUMERS, 20).
-define(MOST_CONSUMERS_OF_KEY, 640).
-define(MOST_CHANNELS, 4096).
%% Equal to MAX_CONNECTIONS of the service.
-define(MOST_CONNECTIONS, 32).
-define(MOST_PROPERTIES, 4096).
-define(MOST_LOGGED, 8192).
-define(MOST_SHOWN, 2048).
-define(DEPTH, 30).
-define(MOST_NEW_QUEUES, 20).
-define(MOST_PRIORITIES, 10).
-define(MOST_ANSWERS, 4).
-define(COUNTED_ANSWERS, 100).
-define(MANY_QUEUES, 1000000).
-define(DECLARING_MS, 10000).
-define(CHANGES, [
    'queue.declare',
    'queue.bind',
    'queue.unbind',
    'queue.purge',
    'queue.delete',
    'exchange.declare',
    'exchange.delete',
    'exchange.bind',
    'exchange.unbind'
]).
-define(CHANGE_MS, 20).
-define(QUESTION_MS, 4).
-define(QUESTION_MS_LATE, 40).
-define(MANY_QUESTIONS, 50).
-define(METHODS_MS, 5).
-define(METHODS, 50).
-define(FREE_TURNS_MS, 500).
-define(LATEST_TURN_MS, 2000).
-define(PAUSE_MS, 2).
-define(UNREAD_MS, 12000).
-define(MOST_PAUSES, 1000).
-define(CALL_MS, 1000).
-define(MOST_INCOMPLETE, 8 * 1024 * 1024).
-define(MOST_INCOMPLETE_PACKET, 3 * 1024 * 1024).
-define(MOST_WAITING, 32 * 1024 * 1024).
-define(FREE_BYTES, 256 * 1024).
-define(LEAST_TOGETHER, 64 * 1024 * 1024).
-define(SHARE_OF_MEMORY, 4).
-define(PENDING_BYTES, 512).
-define(ANSWER_BYTES, 256).
-define(LOOK_MS, 200).
-define(LONGEST_LOOK_MS, 2000).
%% An idle machine does about 4,000 reductions in a millisecond, so `look` takes 2 % of one processor.
-define(REDUCTIONS_A_MS, 80).
-define(QUEUES_MS, 10000).
-define(MOST_LOG, 1024 * 1024 * 1024).
-define(LONGEST_HELD_MS, 30 * 60 * 1000).
-define(INGEST, <<"gridfleet.ingest">>).
-define(LONG, #{messages_ready => 500, message_bytes => 1024 * 1024, memory => ?LEAST_TOGETHER}).
-define(SHARDS_MS, 20).
-define(COUNT_MS, 200).
-define(COUNTED_A_MS, 10).
-define(COUNTED_A_MS_LATE, 50).
-define(BYTES_A_SECOND, 128 * 1024).
-define(MOST_AHEAD, 256 * 1024).
-define(MOST_COUNTED, ?MOST_AHEAD + 10 * ?BYTES_A_SECOND).
-define(TOO_LARGE, "its incomplete messages are too large").
-define(TOO_MANY, "too many of its methods wait").
-define(CLOSED, "the connection is closed").
-define(AT_ONCE, "too many connections are opened at once").
-define(RESET, "its client has reset it").
-define(TOGETHER, "connections hold too much memory together").
-define(CONSUMERS, {?MODULE, consumers}).
-define(OWNER, {?MODULE, owner}).
-define(NO_TURNS, {?MODULE, no_turns}).
-define(UNTIL_TURN, {?MODULE, until_turn}).
-define(READER, {?MODULE, reader}).
-define(BEFORE_3_12, {?MODULE, before_3_12}).
-define(TAG, <<"gridfleet_bounds">>).
%% The modules and their tables. The tables exist from RabbitMQ 4 on.
-define(TRACKED, [{rabbit_connection_tracking, tracked_connection}, {rabbit_channel_tracking, tracked_channel}]).
-define(COUNTS, tracked_connection_per_vhost).
-define(CONNECTIONS, gridfleet_connections).
-define(TRACKED_MS, 50).
-define(MOST_MISSED, 10).
-define(TRACKED_AFTERWARDS, 100).
-define(DECLARED, {?MODULE, declared}).
-define(ANSWERS, {?MODULE, answers}).
-define(WRITE_FAILED, {?MODULE, write_failed}).

%% Starts the processes, and tags the node: newer versions of the management API return its tags, which show the plugin.
announce() ->
    create_table(),
    persistent_term:put(?BEFORE_3_12, rabbit_misc:version_compare(rabbit_misc:version(), "3.12", lt)),
    start(?MODULE, fun() -> watch_readers([]) end, []),
    is_before_3_12() orelse start(gridfleet_queues, fun watch_queues/0, []),
    start(gridfleet_logs, fun() -> watch_logs(#{}) end, []),
    start(gridfleet_tracked, fun() -> watch_tracked([], [], []) end, []),
    start(gridfleet_shares, fun share/0, [{priority, high}]),
    logger:add_primary_filter(?MODULE, {fun ?MODULE:shorten/2, ?MOST_LOGGED}),
    lists:member(?MODULE, gen_event:which_handlers(erl_signal_server)) orelse gen_event:add_handler(erl_signal_server, ?MODULE, []),
    application:set_env(rabbit, node_tags, [{?TAG, <<"1">>} | other_tags()]).

%% RabbitMQ cannot disable a plugin whose processes run. The end of their owner deletes the tables. Connections that were
%% stopped are read again.
withdraw() ->
    Names = [?MODULE, gridfleet_queues, gridfleet_logs, gridfleet_tracked, gridfleet_shares],
    [stop_process(Process) || Process <- [ets:info(?MODULE, owner) | lists:map(fun whereis/1, Names)], is_pid(Process)],
    release([Reader || {rabbit_mqtt_reader, Reader} <- readers()]),
    logger:remove_primary_filter(?MODULE),
    gen_event:delete_handler(erl_signal_server, ?MODULE, []),
    application:set_env(rabbit, node_tags, other_tags()).

other_tags() ->
    lists:keydelete(?TAG, 1, application:get_env(rabbit, node_tags, [])).

stop_process(Process) ->
    Monitor = monitor(process, Process),
    exit(Process, kill),
    receive
        {'DOWN', Monitor, process, Process, _} -> ok
    end.

%% Starts a process with a name, unless it still runs: `rabbitmqctl stop_app` ends no process of a plugin.
start(Name, Function, Options) ->
    case whereis(Name) of
        undefined -> register(Name, spawn_opt(Function, Options));
        _ -> true
    end.

%% These versions keep an incomplete MQTT packet of any length, and write messages of classic queues to disk when memory gets
%% scarce. Stored, because every connection needs it, and a comparison of versions takes 0.1 ms. The modules of the MQTT plugin
%% differ too, but that plugin may be enabled later than this one.
is_before_3_12() ->
    persistent_term:get(?BEFORE_3_12).

description() ->
    [{description, <<"Bounds of clients">>}].

%% Called for each channel, and once each for the handlers of the broker's events and of signals.
init([]) ->
    {ok, []};
init(Channel) ->
    {user, Name, Tags, _Backends} = rabbit_channel:get_user(Channel),
    case lists:member(administrator, Tags) of
        true ->
            unbounded;
        false ->
            Reader = reader(Channel),
            put(?OWNER, {Name, rabbit_channel:get_vhost(Channel)}),
            put(?READER, Reader),
            put(?UNTIL_TURN, ?METHODS),
            ets:insert(?MODULE, [{{channel, Reader, self()}}, {{opened, Name, self()}}]),
            bounded
    end.

%% The process that reads the channel's connection.
reader(Channel) ->
    element(5, element(2, Channel)).

%% Methods that are bounded, and all others that have an answer.
applies_to() ->
    [
        'channel.open',
        'access.request',
        'tx.select',
        'queue.declare',
        'queue.bind',
        'queue.unbind',
        'queue.purge',
        'queue.delete',
        'exchange.declare',
        'exchange.delete',
        'exchange.bind',
        'exchange.unbind',
        'basic.credit',
        'basic.qos',
        'basic.recover',
        'basic.consume',
        'basic.cancel',
        'basic.get',
        'basic.publish',
        'confirm.select',
        'channel.flow'
    ].

%% Called for every method.
intercept(Method, Content, unbounded) ->
    {Method, Content};
intercept(Method, Content, bounded) ->
    count_answer(),
    case await_turn(kind_of(Method), element(1, Method)) of
        false -> bounded(Method, Content);
        Refused -> Refused
    end.

bounded({'channel.open', _} = Open, Content) ->
    {User, _} = get(?OWNER),
    Counted = rabbit_channel_tracking:count_tracked_items_in({user, User}),
    HasRoom = Counted =< ?MOST_CHANNELS orelse tracked_channels(User) =< ?MOST_CHANNELS,
    case HasRoom andalso channels_here(User) =< ?MOST_CHANNELS of
        true -> {Open, Content};
        false -> refused("the user has too many channels", 'channel.open')
    end;
bounded({'tx.select'}, _) ->
    refused("transactions are not allowed; use publisher confirms", 'tx.select');
bounded(Declare, Content) when element(1, Declare) =:= 'queue.declare' ->
    Arguments = arguments(Declare),
    Forbidden = lists:search(fun is_forbidden/1, Arguments),
    case {is_reply_address(element(3, Declare)), are_small(Arguments), are_listable(Arguments), Forbidden} of
        {true, _, _, _} ->
            refused("the address of a reply cannot be declared", 'queue.declare');
        {_, false, _, _} ->
            refused("the arguments of the queue are too large", 'queue.declare');
        {_, _, false, _} ->
            refused("an argument of the queue is given twice, is not ASCII, or is no text, integer or boolean", 'queue.declare');
        {_, _, _, {value, {Name, _, _}}} ->
            rabbit_misc:amqp_error(access_refused, "a queue cannot have this value of ~s", [Name], 'queue.declare');
        {_, _, _, false} ->
            bounded_queue(Declare, Content)
    end;
bounded(Bind, Content) when element(1, Bind) =:= 'queue.bind'; element(1, Bind) =:= 'exchange.bind' ->
    case arguments(Bind) of
        [] -> {Bind, Content};
        _ -> refused("bindings with arguments are not allowed", element(1, Bind))
    end;
bounded(Consume, Content) when element(1, Consume) =:= 'basic.consume' ->
    case are_small(arguments(Consume)) of
        true -> counted(Consume, Content);
        false -> refused("the arguments of the consumer are too large", 'basic.consume')
    end;
bounded({'basic.cancel', Tag, _} = Cancel, Content) ->
    maps:is_key(Tag, consumers()) andalso put_consumers(maps:remove(Tag, consumers())),
    ets:match_delete(?MODULE, {{reader, '_', self(), Tag}}),
    {Cancel, Content};
bounded(Get, Content) when element(1, Get) =:= 'basic.get' ->
    once_read(Get, Content);
bounded({'basic.publish', _, _, Key, Mandatory, _} = Publish, Content) ->
    case has_small_properties(Content) of
        true -> published(Publish, Key, Mandatory, rabbit_binary_parser:ensure_content_decoded(Content));
        false -> refused("the properties of the message are too large", 'basic.publish')
    end;
bounded(Method, Content) ->
    {Method, Content}.

%% `change`: the broker locks tables for the method, and the changes of all others wait, among them those of logins. `question`:
%% the broker asks the service whether an exchange, a routing key or a queue is allowed. The questions of logins wait for the same
%% two processes.
kind_of({'basic.publish', _, Exchange, Key, _, _}) ->
    HasKnownKey = Exchange =:= <<>> orelse has_known_key(Key, get(topic_permission_cache)),
    asks_unless(HasKnownKey andalso is_permitted(exchange, Exchange, write));
kind_of(Read) when element(1, Read) =:= 'basic.get'; element(1, Read) =:= 'basic.consume' ->
    asks_unless(is_permitted(queue, element(3, Read), read));
kind_of(Method) ->
    case lists:member(element(1, Method), ?CHANGES) of
        true -> change;
        false -> method
    end.

asks_unless(true) -> method;
asks_unless(false) -> question.

%% The channel keeps the last twelve answers of each kind. What the broker caches for a minute counts as new: it takes the two
%% processes too.
is_permitted(Kind, Name, Permission) ->
    Known = get(permission_cache),
    Known =/= undefined andalso lists:any(fun({{resource, _, K, N}, _, P}) -> {K, N, P} =:= {Kind, Name, Permission} end, Known).

has_known_key(Key, [{_, #{routing_key := Key}, write} | _]) -> true;
has_known_key(Key, [_ | Others]) -> has_known_key(Key, Others);
has_known_key(_, _) -> false.

%% Each change and question takes a turn of its user, which is an organisation or a plant. A client with few channels only gets
%% slower. One with very many reaches turns that are too late. Other methods take a turn in groups, so that their channel seldom
%% waits: a wait scans everything in its inbox. Returns false, or the refusal.
await_turn(method, Method) ->
    case get(?UNTIL_TURN) of
        1 ->
            put(?UNTIL_TURN, ?METHODS),
            take_turn(methods, Method);
        Left ->
            put(?UNTIL_TURN, Left - 1),
            false
    end;
await_turn(Kind, Method) ->
    take_turn(Kind, Method).

take_turn(Kind, Method) ->
    {User, _} = get(?OWNER),
    Wait = time_until_turn(Kind, User),
    Wait > 0 andalso get(?NO_TURNS) =/= true andalso not is_own_user(User) andalso wait_for_turn(Kind, Method, Wait).

%% Takes a turn, unless it is too late, and returns the milliseconds until then; 0 or less for now.
time_until_turn(Kind, User) ->
    Turn = {turn, Kind, User},
    Now = now_ms(),
    First = Now - ?FREE_TURNS_MS,
    Length = turn_ms(Kind),
    [_, Due] = ets:update_counter(?MODULE, Turn, [{2, -1, First, First}, {2, Length + 1}], {Turn, First}),
    Wait = Due - Now,
    Wait > ?LATEST_TURN_MS andalso ets:update_counter(?MODULE, Turn, {2, -Length}),
    Wait.

%% Carries out nothing more for a connection that is being closed: its end would wait for all remaining methods and their turns.
%% Suspends the reader of a client that sends any methods too fast: otherwise they would wait in the channel's memory.
wait_for_turn(Kind, Method, Wait) ->
    Reader = get(?READER),
    Suspended = Kind =:= methods andalso is_process_alive(Reader) andalso (catch erlang:suspend_process(Reader)) =:= true,
    Refused =
        case is_closing(Reader) of
            true -> refused_for_good(?CLOSED, Method);
            false -> wait_until_turn(Kind, Method, Wait)
        end,
    Suspended andalso (catch erlang:resume_process(Reader)),
    Refused.

%% The reader has been requested to close the connection, or waits for the end of its channels. The channel does not see the
%% request to end that it got from the reader while it carried out a method.
is_closing(Reader) ->
    is_to_close(Reader) orelse
        process_info(Reader, current_function) =:= {current_function, {rabbit_reader, wait_for_channel_termination, 3}}.

is_to_close(Reader) ->
    case process_info(Reader, messages) of
        {messages, Messages} -> lists:any(fun is_request_to_close/1, Messages);
        undefined -> true
    end.

%% RabbitMQ 4.1 has a tag of its own for requests.
is_request_to_close({Tag, _From, {shutdown, _}}) -> Tag =:= '$gen_call' orelse Tag =:= rabbit_call;
is_request_to_close(_) -> false.

wait_until_turn(Kind, Method, Wait) ->
    receive
        {'$gen_cast', terminate} ->
            gen_server2:cast(self(), terminate),
            refused_for_good(?CLOSED, Method)
    after min(Wait, ?LATEST_TURN_MS) ->
        Wait > ?LATEST_TURN_MS andalso refused_for_good(too_fast(Kind), Method)
    end.

turn_ms(change) -> ?CHANGE_MS;
turn_ms(question) -> question_ms(inbox(whereis(httpc_manager)));
turn_ms(methods) -> ?METHODS_MS.

%% Requests of all channels wait for the process that sends them. While many wait, a user who asks much is refused early instead
%% of waiting: each waiting channel holds memory, and the client may open others.
question_ms(Waiting) when Waiting > ?MANY_QUESTIONS -> ?QUESTION_MS_LATE;
question_ms(_) -> ?QUESTION_MS.

too_fast(change) -> "the user changes queues and bindings too fast";
too_fast(question) -> "the user uses new routing keys, exchanges or queues too fast";
too_fast(methods) -> "the user sends methods too fast".

%% The channel ignores the methods that wait after this error, so they take no turns.
refused_for_good(Text, Method) ->
    put(?NO_TURNS, true),
    refused(Text, Method).

%% Waits for the turn of a plant that has subscribed, in the process that reads its connection.
await_subscription(Plant) ->
    Wait = time_until_turn(change, Plant),
    Wait > 0 andalso not is_own_user(Plant) andalso wait_to_subscribe(Plant, Wait).

%% Ends the connection when that is requested, or after two seconds if there are no turns because the plant has very many
%% connections.
wait_to_subscribe(Plant, Wait) ->
    receive
        {shutdown, _} ->
            exit({shutdown, closed});
        {'$gen_cast', {Request, _}} when Request =:= close_connection; Request =:= duplicate_id ->
            exit({shutdown, Request})
    after min(Wait, ?LATEST_TURN_MS) ->
        Wait > ?LATEST_TURN_MS andalso end_subscriber(Plant)
    end.

end_subscriber(Plant) ->
    logger:warning("~ts: the plant subscribes too fast, a connection is closed", [Plant]),
    exit({shutdown, too_fast}).

%% The broker counts channels of all nodes, and ended ones until `watch_tracked` removes them. It knows channels by the name of
%% their connection, and so does not count those of a connection from the port of an earlier one.
tracked_channels(User) ->
    Channels = [element(6, Tracked) || Tracked <- rabbit_channel_tracking:list_of_user(User)],
    length([Channel || Channel <- Channels, node(Channel) =/= node() orelse is_process_alive(Channel)]).

channels_here(User) ->
    length([Channel || [Channel] <- ets:match(?MODULE, {{opened, User, '$1'}}), is_process_alive(Channel)]).

%% The properties of a message that came over MQTT are not encoded.
has_small_properties(Content) ->
    case element(4, Content) of
        Encoded when is_binary(Encoded) -> byte_size(Encoded) =< ?MOST_PROPERTIES;
        none -> true
    end.

published(Publish, Key, Mandatory, Content) ->
    case {lists:all(fun(Copy) -> Copy =:= Key end, copies(Content)), Mandatory} of
        {true, true} -> once_read(Publish, Content);
        {true, false} -> {Publish, Content};
        {false, _} -> refused("a message is not copied to another routing key", 'basic.publish')
    end.

%% The routing keys in the headers CC and BCC.
copies(Content) ->
    case element(4, element(3, Content)) of
        undefined -> [];
        Headers -> [Copy || {Name, array, Copies} <- Headers, Name =:= <<"CC">> orelse Name =:= <<"BCC">>, {_, Copy} <- Copies]
    end.

%% Deliveries to consumers wait for the client's socket, but fetched and returned messages pile up in the writer. The channel
%% waits for them, and not for long, because up to 400 messages pile up behind it meanwhile.
once_read(Method, Content) ->
    case wait(writer(), ?MOST_PAUSES) of
        read -> {Method, Content};
        unread ->
            end_unread(get(?READER), "answers are not read"),
            rabbit_misc:amqp_error(resource_error, "answers are not read", [], element(1, Method))
    end.

%% The reader waits until its client can read why the connection ends, but not for the whole `send_timeout`.
end_unread(Reader, Reason) ->
    spawn(fun() ->
        timer:sleep(?UNREAD_MS),
        end_connection(Reader, Reason)
    end).

wait(Writer, Pauses) ->
    case inbox(Writer) of
        Waiting when Waiting > ?MOST_ANSWERS, Pauses > 0 ->
            timer:sleep(?PAUSE_MS),
            wait(Writer, Pauses - 1);
        Waiting when Waiting > ?MOST_ANSWERS ->
            unread;
        _ ->
            read
    end.

%% Counts the answers that may wait in the channel's writer, as an upper bound: every 100 answers, the count is reduced to the
%% number of messages in the writer's inbox.
count_answer() ->
    Count =
        case get(?ANSWERS) of
            undefined -> 1;
            Known when Known rem ?COUNTED_ANSWERS =:= 0 ->
                look_at_own_memory(),
                min(Known, inbox(writer())) + 1;
            Known -> Known + 1
        end,
    put(?ANSWERS, Count).

%% On a busy machine, the process that looks at all connections may be late. A channel for which much waits runs all the time.
look_at_own_memory() ->
    Reader = get(?READER),
    {memory, Bytes} = process_info(self(), memory),
    Bytes > ?MOST_WAITING andalso not ets:member(?MODULE, {asked, Reader}) andalso spawn(fun() -> look_again(Reader) end).

look_again(Reader) ->
    [look_at(Kind, Reader) || {Kind, Open} <- readers(), Open =:= Reader].

%% The number of messages that wait for a process, 0 without one.
inbox(Process) when is_pid(Process) ->
    case process_info(Process, message_queue_len) of
        {message_queue_len, Waiting} -> Waiting;
        undefined -> 0
    end;
inbox(_) ->
    0.

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

%% Before it checks any right, the broker decodes the rest of such a name to an Erlang term, whatever it is: it may create 80
%% atoms, or name a process, which the broker then calls; such a call ends a supervisor. Line ends may follow the prefix: it
%% removes them.
is_reply_address(<<"amq.rabbitmq.reply-to", _, _/binary>>) -> true;
is_reply_address(_) -> false.

%% The arguments that RabbitMQ knows have a few bytes each.
are_small(Arguments) ->
    erlang:external_size(Arguments) =< ?MOST_BYTES.

%% Of several arguments with one name, the broker obeys the first, but the management API returns the last, which is unchecked.
are_listable(Arguments) ->
    Names = [Name || {Name, _, _} <- Arguments],
    length(lists:usort(Names)) =:= length(Names) andalso lists:all(fun is_listable/1, Arguments).

%% Before 4.0, a fraction as x-queue-master-locator keeps the channel busy until the node stops.
is_listable({Name, Type, Value}) ->
    HasKnownType = Type =:= longstr orelse is_integer(Value) orelse is_boolean(Value),
    HasKnownType andalso lists:all(fun(Byte) -> Byte > 31 andalso Byte < 127 end, binary_to_list(Name)).

%% The same as `forbidden_argument` of the service, which documents the arguments and removes such queues from a broker without
%% this plugin.
is_forbidden({<<"x-dead-letter-exchange">>, _, _}) -> true;
is_forbidden({<<"x-overflow">>, _, Value}) -> Value =/= <<"drop-head">>;
is_forbidden({<<"x-max-priority">>, _, Value}) -> not is_at_most(Value, ?MOST_PRIORITIES);
is_forbidden({<<"x-consumer-timeout">>, _, Value}) -> not is_at_most(Value, ?LONGEST_HELD_MS);
is_forbidden(_) -> false.

is_at_most(Value, Most) ->
    is_integer(Value) andalso Value =< Most.

bounded_queue(Declare, Content) ->
    Declared = binary:replace(element(3, Declare), [<<"\r">>, <<"\n">>], <<>>, [global]),
    put(?DECLARED, Declared),
    {User, Vhost} = get(?OWNER),
    Name = rabbit_misc:r(Vhost, queue, Declared),
    Passive = element(4, Declare),
    Free = Passive orelse rabbit_amqqueue:exists(Name),
    case Free orelse {is_classic(arguments(Declare)) orelse count_new_queue(User) =< ?MOST_NEW_QUEUES, has_room(Vhost, Name)} of
        {false, _} -> refused("the user has declared 20 new quorum queues and streams within an hour", 'queue.declare');
        {_, false} -> rabbit_misc:amqp_error(precondition_failed, "too many queues are declared at once", [], 'queue.declare');
        _ -> {Declare, Content}
    end.

%% The broker counts the queues of a vhost before it declares one, so any number of channels could declare one each at the same
%% moment. The queues that channels are about to declare count here. Once the limit is reached, the broker itself refuses.
has_room(Vhost, Name) ->
    case rabbit_vhost_limit:would_exceed_queue_limit(?MANY_QUEUES, Vhost) of
        {true, Limit, Count} when Count < Limit ->
            Declaring = {declaring, Vhost, self()},
            ets:insert(?MODULE, {Declaring, Name, erlang:monotonic_time(millisecond)}),
            Exceeds = rabbit_vhost_limit:would_exceed_queue_limit(length(declaring(Vhost)), Vhost) =/= false,
            Exceeds andalso ets:delete(?MODULE, Declaring),
            not Exceeds;
        _ ->
            true
    end.

%% A queue that was declared and deleted again counts for ten seconds, as its entry stays.
declaring(Vhost) ->
    Since = erlang:monotonic_time(millisecond) - ?DECLARING_MS,
    Found = ets:select(?MODULE, [{{{declaring, Vhost, '$1'}, '$2', '$3'}, [{'>', '$3', Since}], [{{'$1', '$2'}}]}]),
    lists:usort([Name || {Channel, Name} <- Found, is_process_alive(Channel), not rabbit_amqqueue:exists(Name)]).

is_classic(Arguments) ->
    case lists:keyfind(<<"x-queue-type">>, 1, Arguments) of
        false -> true;
        {_, _, Type} -> Type =:= <<"classic">>
    end.

%% Counts by user, which is an organisation: it may create any number of keys, each with a vhost. Sessions count by plant.
count_new_queue(Creator) ->
    Hour = hour(),
    Count = ets:update_counter(?MODULE, {Creator, Hour}, 1, {{Creator, Hour}, 0}),
    Count =:= 1 andalso ets:select_delete(?MODULE, [{{{'_', '$1'}, '_'}, [{'<', '$1', Hour}], [true]}]),
    Count.

hour() ->
    erlang:system_time(second) div 3600.

%% Whether a client may declare a queue, as far as sessions of plants are concerned. A session is counted once its queue exists:
%% the question does not contain the type, and sessions that end with their connection are no quorum queues.
may_create({resource, _, queue, <<"mqtt-subscription-", Plant:36/binary, _/binary>>} = Name) ->
    Entries = ets:lookup(?MODULE, {{session, Plant}, hour()}),
    [Count || {_, Count} <- Entries, Count >= ?MOST_NEW_QUEUES] =:= [] orelse rabbit_amqqueue:exists(Name);
may_create(_) ->
    true.

%% Tables are deleted with their owner, and the process of a boot step ends, so another process owns them.
create_table() ->
    case ets:whereis(?MODULE) of
        undefined ->
            Booting = self(),
            Owner = spawn_link(fun() ->
                [ets:new(Table, [named_table, public, ordered_set]) || Table <- [?MODULE, ?CONNECTIONS]],
                unlink(Booting),
                Booting ! {self(), created},
                timer:sleep(infinity)
            end),
            receive
                {Owner, created} -> ok
            end;
        _ ->
            ok
    end.

%% RabbitMQ checks the size and the rights of an AMQP message when it is complete. Until then its frames wait, without a bound,
%% in the process that reads the connection. So do the bytes of an MQTT packet before 3.12; from 3.12 on, RabbitMQ checks the
%% length at its beginning. These versions know MQTT 5, where each user property takes forty times its bytes in that process.
%%
%% The pause follows the work of a look, not its duration: on a busy machine a look takes long, and the next one would be late
%% when it matters most.
watch_readers(Closing) ->
    Before = reductions(),
    Readers = attempt(fun readers/0, []),
    attempt(fun() -> look(Readers) end, false),
    StillClosing = attempt(fun() -> close_sockets(Readers, Closing) end, []),
    timer:sleep(min(max(?LOOK_MS, (reductions() - Before) div ?REDUCTIONS_A_MS), ?LONGEST_LOOK_MS)),
    watch_readers(StillClosing).

reductions() ->
    {reductions, Count} = process_info(self(), reductions),
    Count.

%% A reader that closes its connection waits for its channels, and they wait until the client has read their answers. Meanwhile
%% the reader leaves a second request to close in its inbox. If it is still there at the next look, the socket is closed: the end
%% of a key must not depend on its client. Returns the readers with such a request.
close_sockets(Readers, Before) ->
    Closing = [Reader || {rabbit_reader, Reader} <- Readers, inbox(Reader) > 0 andalso is_to_close(Reader)],
    [catch erlang:port_close(Socket) || Reader <- Closing -- (Closing -- Before), Socket <- socket(Reader)],
    Closing.

%% Deletes the entries of channels and connections that have ended.
forget_ended() ->
    Noted = ets:select(?MODULE, [
        {{{connection, '_', '_', '$1'}}, [], [{{'$1', {element, 1, '$_'}}}]},
        {{{channel, '_', '$1'}}, [], [{{'$1', {element, 1, '$_'}}}]},
        {{{opened, '_', '$1'}}, [], [{{'$1', {element, 1, '$_'}}}]},
        {{{consumers, '_', '$1'}, '_'}, [], [{{'$1', {element, 1, '$_'}}}]},
        {{{reader, '_', '$1', '_'}}, [], [{{'$1', {element, 1, '$_'}}}]},
        {{{declaring, '_', '$1'}, '_', '_'}, [], [{{'$1', {element, 1, '$_'}}}]}
    ]),
    ets:select_delete(?MODULE, [{{{turn, '_', '_'}, '$1'}, [{'<', '$1', now_ms() - ?FREE_TURNS_MS}], [true]}]),
    [ets:delete(?MODULE, Key) || {Channel, Key} <- Noted, not is_process_alive(Channel)].

%% Each reader registers for the alarms, with MQTT before the login, with AMQP before its first channel.
readers() ->
    {_, _, State} = lists:keyfind(rabbit_alarm, 1, sys:get_state(rabbit_alarm)),
    Kinds = [rabbit_reader, rabbit_mqtt_reader],
    [{Kind, Reader} || {Reader, {Kind, _, _}} <- dict:to_list(element(2, State)), lists:member(Kind, Kinds)].

%% Connections within their own bounds can fill the memory together: a key has 32, and an organisation any number of plants. The
%% bodies of deliveries are outside the heaps. They are searched only if such memory of the node exceeds the bound.
look(Readers) ->
    forget_ended(),
    Connections = [{look_at(Kind, Reader), Kind, Reader} || {Kind, Reader} <- Readers],
    Most = most_together(),
    case {total(Connections) > Most, erlang:memory(binary) > Most} of
        {true, _} -> close_largest([{Kind, Reader} || {Excess, Kind, Reader} <- Connections, Excess > 0], Most);
        {false, true} -> close_largest([{Kind, Reader} || {Kind, Reader} <- Readers, has_unread(Kind, Reader)], Most);
        {false, false} -> false
    end.

most_together() ->
    max(?LEAST_TOGETHER, vm_memory_monitor:get_memory_limit() div ?SHARE_OF_MEMORY).

total(Connections) ->
    lists:sum([Excess || {Excess, _, _} <- Connections]).

close_largest(Connections, Most) ->
    Collected = [{collected(Kind, Reader), Kind, Reader} || {Kind, Reader} <- Connections],
    end_largest(lists:reverse(lists:sort(Collected)), total(Collected) - Most).

end_largest([{Excess, Kind, Reader} | Others], Surplus) when Surplus > 0 ->
    Channels = lists:filter(fun is_bounded/1, channels(Kind, Reader)),
    spawn(fun() -> end_channels(Kind, Reader, Channels, ?TOGETHER) end),
    end_largest(Others, Surplus - Excess);
end_largest(_, _) ->
    false.

%% Returns the bytes that the connection and its channels hold beyond what every connection needs.
look_at(Kind, Reader) ->
    Held = held(Kind, Reader),
    Channels = channels(Kind, Reader),
    Memory = memory_of(Channels),
    case Held > most_incomplete(Kind) andalso is_large(Kind, Reader) of
        true -> spawn(fun() -> close(Kind, Reader, ?TOO_LARGE) end);
        false -> Memory > ?MOST_WAITING andalso look_at_channels(Kind, Channels, Reader)
    end,
    max(0, Held + Memory - ?FREE_BYTES).

%% The same after garbage collection, with the bodies of deliveries; 0 for a connection of an administrator.
collected(Kind, Reader) ->
    Channels = channels(Kind, Reader),
    case lists:filter(fun is_bounded/1, Channels) of
        [] when Channels =/= [] ->
            0;
        Bounded ->
            garbage_collect(Reader),
            collect(Bounded),
            max(0, held(Kind, Reader) + memory_of(Bounded) + bodies_of(Bounded) - ?FREE_BYTES)
    end.

%% Counts bytes once: deliveries of one connection may be parts of the same bytes, those of a stream in particular.
bodies_of(Channels) ->
    Bodies = [Body || Channel <- Channels, Process <- relatives(Channel), Body <- binaries(Process)],
    lists:sum([Size || {_, Size, _} <- lists:ukeysort(1, Bodies)]).

%% Whether deliveries wait in a writer of the connection. They are only in its inbox until a collection moves them to its heap.
has_unread(Kind, Reader) ->
    Processes = lists:flatmap(fun relatives/1, channels(Kind, Reader)),
    lists:any(fun(Process) -> inbox(Process) > 0 orelse bytes_of(binaries(Process)) > ?FREE_BYTES end, Processes).

%% A channel carries out the methods of its client one by one. Methods that arrive faster wait in its memory, without a bound:
%% only messages have credit. While a client reads slowly, their answers wait in the writer. A busy channel does not answer at
%% once, so another process asks it.
look_at_channels(Kind, Channels, Reader) ->
    case lists:filter(fun is_bounded/1, Channels) of
        [_ | _] = Bounded ->
            ets:insert_new(?MODULE, {{asked, Reader}}) andalso spawn(fun() -> ask(Kind, Bounded, Reader) end);
        [] ->
            false
    end.

%% Suspends the reader: otherwise methods would arrive faster than the channel reaches the question. It resumes if this process
%% ends.
ask(Kind, Channels, Reader) ->
    try
        erlang:suspend_process(Reader),
        %% The others are ending, and may wait for the client instead of answering.
        Asked = [Channel || Channel <- Channels, lists:member(Channel, monitored(Reader))],
        TooMany = exceed(Channels, Asked) andalso collect(Channels) andalso waiting(Channels, Asked) > ?MOST_WAITING,
        TooMany andalso end_channels(Kind, Reader, Channels, ?TOO_MANY),
        erlang:resume_process(Reader),
        timer:sleep(?LOOK_MS)
    catch
        _:_ -> ended
    after
        ets:delete(?MODULE, {asked, Reader})
    end.

exceed(Channels, Asked) ->
    memory_of(Channels) - bytes_pending(Asked) > ?MOST_WAITING.

bytes_pending(Channels) ->
    ?PENDING_BYTES * lists:sum(lists:map(fun pending/1, Channels)).

%% Without the writer's memory, which may hold deliveries: a consumer that acknowledges none gets all messages of a queue.
waiting(Channels, Asked) ->
    Own = [Bytes || Channel <- Channels, {memory, Bytes} <- [process_info(Channel, memory)]],
    lists:sum(Own) + ?ANSWER_BYTES * lists:sum(lists:map(fun answers/1, Channels)) - bytes_pending(Asked).

%% The inbox of the writer holds deliveries too, so the channel counts its answers. Reading the inbox would copy all messages.
answers(Channel) ->
    Waiting = [inbox(Relative) || Relative <- relatives(Channel), Relative =/= Channel],
    min(proplists:get_value(?ANSWERS, dictionary(Channel), 0), lists:sum(Waiting)).

%% The broker counts the connections of a vhost before it asks whether a user may enter, and counts an open one a moment later,
%% so any number could be opened at the same moment. Their events are handled here one by one.
handle_event({event, connection_created, Facts, none, _}, State) ->
    try
        [Protocol, Vhost, User, Reader] = [proplists:get_value(Name, Facts) || Name <- [protocol, vhost, user, pid]],
        bound_connection(Protocol, Vhost, User, Reader),
        track(rabbit_connection_tracking:tracked_connection_from_connection_created(Facts))
    catch
        _:_ -> false
    end,
    {ok, State};
handle_event({event, queue_created, Facts, _, _}, State) ->
    case {proplists:get_value(type, Facts), proplists:get_value(name, Facts)} of
        {rabbit_quorum_queue, {resource, _, queue, <<"mqtt-subscription-", Plant:36/binary, _/binary>>}} ->
            count_new_queue({session, Plant});
        _ ->
            false
    end,
    {ok, State};
%% The node stops after this signal. At its end, the management agent changes settings, and would wait five seconds for a
%% process that waits for the agent. Its handler is therefore removed first.
handle_event(sigterm, State) ->
    rpc:call(node(), gen_event, delete_handler, [rabbit_event, rabbit_mgmt_db_handler, []], ?CALL_MS),
    {ok, State};
handle_event(_, State) ->
    {ok, State}.

handle_call(_, State) ->
    {ok, ok, State}.

%% Plants use MQTT, and their vhost has no limit. Several organisations may share a vhost, and one could use up its limit.
bound_connection({'MQTT', _}, _, _, _) ->
    true;
bound_connection(_, Vhost, User, Reader) ->
    HasRoom =
        case rabbit_vhost_limit:connection_limit(Vhost) of
            {ok, Most} -> length(open_connections(Vhost, '_')) < Most;
            undefined -> true
        end,
    case HasRoom andalso (is_own_user(User) orelse length(open_connections(Vhost, User)) < ?MOST_CONNECTIONS) of
        true -> ets:insert(?MODULE, {{connection, Vhost, User, Reader}});
        false -> spawn(fun() -> end_connection(Reader, ?AT_ONCE) end)
    end.

open_connections(Vhost, User) ->
    [Reader || [Reader] <- ets:match(?MODULE, {{connection, Vhost, User, '$1'}}), is_process_alive(Reader)].

%% Programs beside the service have users in the broker's own database, and may have any number of connections.
is_own_user(Name) ->
    element(1, rabbit_auth_backend_internal:lookup_user(Name)) =:= ok.

%% The second call ends the connection without waiting for the client's answer to the first.
end_connection(Reader, Reason) ->
    close(rabbit_reader, Reader, Reason),
    timer:sleep(?CALL_MS),
    close(rabbit_reader, Reader, Reason).

%% Channels of administrators have no owner, and neither have other processes.
is_bounded(Channel) ->
    proplists:is_defined(?OWNER, dictionary(Channel)).

dictionary(Channel) ->
    case process_info(Channel, dictionary) of
        {dictionary, Entries} -> Entries;
        undefined -> []
    end.

%% Kills the channels: otherwise they would first carry out what waits, and their writers would wait for a client that does not
%% read, and the reader for both. With TLS, the reader already has up to 1.6 MB of methods, which then go to ended channels.
end_channels(Kind, Reader, Channels, Reason) ->
    close(Kind, Reader, Reason),
    [exit(Channel, kill) || Channel <- Channels],
    Kind =:= rabbit_reader andalso end_unread(Reader, Reason).

%% The processes that the reader monitors, and the channels that it has forgotten but that have not ended. It forgets a channel
%% at `channel.close_ok`, which a client can send at any time, and when the channel is about to end. Such a channel first
%% carries out what waits there, and waits until its client has read the answers.
channels(rabbit_reader, Reader) ->
    lists:usort(monitored(Reader) ++ lists:append(ets:match(?MODULE, {{channel, Reader, '$1'}})));
channels(_, _) ->
    [].

%% A reader monitors its channels. With TLS, it also monitors the process that decrypts while it waits for it. That process
%% would not answer `pending`, and the reader would stay suspended for 15 seconds.
monitored(Reader) ->
    case process_info(Reader, monitors) of
        {monitors, Monitors} -> [Process || {process, Process} <- Monitors];
        undefined -> []
    end.

%% Messages that a client has not acknowledged are in the channel's memory too, 240 bytes each, and as much again until
%% they are collected.
pending(Channel) ->
    Facts = rabbit_channel:info(Channel),
    proplists:get_value(messages_unacknowledged, Facts) + proplists:get_value(messages_unconfirmed, Facts).

memory_of(Channels) ->
    lists:sum(lists:map(fun memory/1, Channels)).

memory(Channel) ->
    lists:sum([Bytes || Process <- relatives(Channel), {memory, Bytes} <- [process_info(Process, memory)]]).

collect(Channels) ->
    lists:all(fun erlang:garbage_collect/1, lists:flatmap(fun relatives/1, Channels)).

%% The channel and its writer, in which answers wait for the client's socket. Both are children of one supervisor.
relatives(Channel) ->
    [Relative || Supervisor <- links(Channel), Relative <- links(Supervisor)].

links(Process) ->
    case process_info(Process, links) of
        {links, Links} -> [Link || Link <- Links, is_pid(Link)];
        undefined -> []
    end.

%% The broker handles the beginning and the end of a connection or channel in two processes. If it handles the end first, it
%% counts the item until the node stops, and 32 such connections lock a key out of its vhost. Items that had ended at the
%% previous look have no events left.
%%
%% With TLS, a connection that its client resets while it waits for a channel does not notice. It would stay, without heartbeats
%% for ever.
watch_tracked(Ended, WasReset, Differences) ->
    timer:sleep(?QUEUES_MS),
    attempt(fun track_all/0, known),
    NowEnded = attempt(fun() -> remove_ended(Ended) end, Ended),
    NowReset = attempt(fun() -> close_reset(WasReset) end, WasReset),
    watch_tracked(NowEnded, NowReset, attempt(fun() -> correct_counts(Differences) end, [])).

%% Returns the result of a part of a look, or `Otherwise` if it fails: the other parts must run all the same.
attempt(Part, Otherwise) ->
    try
        Part()
    catch
        _:_ -> Otherwise
    end.

remove_ended(Before) ->
    Found = [{Module, element(2, Item)} || {Module, _} <- ?TRACKED, Item <- Module:list_on_node(node()), has_ended(Item)],
    [unregister(Module, Id) || {Module, Id} <- Found -- (Found -- Before)],
    Found.

close_reset(Before) ->
    Found = [Reader || {rabbit_reader, Reader} <- readers(), is_reset(Reader)],
    [spawn(fun() -> end_connection(Reader, ?RESET) end) || Reader <- Found -- (Found -- Before)],
    Found.

%% The broker looks a connection up, changes the table and then the count. If two processes do so with one connection at the same
%% moment, the count of its vhost differs from the table until the node stops: too many would lock a key out, too few would admit
%% more than the limit. A connection that is being recorded makes a difference too, but not at two looks.
correct_counts(Before) ->
    Vhosts = [element(4, Tracked) || Tracked <- rabbit_connection_tracking:list_on_node(node())],
    Listed = lists:foldl(fun(Vhost, Sums) -> maps:update_with(Vhost, fun(Sum) -> Sum + 1 end, 1, Sums) end, #{}, Vhosts),
    Found = [{Vhost, maps:get(Vhost, Listed, 0) - Counted} || {Vhost, Counted} <- counts()],
    Wrong = [Difference || {_, Missing} = Difference <- Found, Missing =/= 0],
    [add_to_count(Vhost, Missing) || {Vhost, Missing} = Difference <- Wrong, lists:member(Difference, Before)],
    Wrong.

counts() ->
    case ets:whereis(?COUNTS) of
        undefined -> [{Vhost, Count} || {_, Vhost, Count} <- ets:tab2list(counts_before_4())];
        _ -> ets:tab2list(?COUNTS)
    end.

add_to_count(Vhost, Missing) ->
    case ets:whereis(?COUNTS) of
        undefined -> mnesia:dirty_update_counter(counts_before_4(), Vhost, Missing);
        _ -> ets:update_counter(?COUNTS, Vhost, Missing)
    end.

counts_before_4() ->
    rabbit_connection_tracking:tracked_connection_per_vhost_table_name_for(node()).

is_reset(Reader) ->
    lists:any(fun(Socket) -> inet:peername(Socket) =:= {error, enotconn} end, socket(Reader)).

%% The broker tracks a connection by its name, the addresses of both ends. A client can reset a connection that the broker is
%% too busy to read, and open the next one from the same port. The broker would not track the new one, or would stop at the end
%% of the first: it would not be listed, and a revocation would not close it.
track(Tracked) ->
    {Id, Process} = {element(2, Tracked), element(6, Tracked)},
    Earlier = [Other || [Other] <- ets:match(?CONNECTIONS, {{Id, '$1'}, '_'})],
    [ets:insert(?CONNECTIONS, {{Id, Other}, replaced}) || Other <- Earlier],
    ets:insert(?CONNECTIONS, {{Id, Process}, Tracked}),
    Earlier =/= [] andalso spawn(fun() -> keep_tracked(Tracked, Earlier, ?TRACKED_AFTERWARDS, 0) end).

%% The broker records the end of an earlier connection in another process, some time after that end, and the beginning of this one
%% in a further one. What it does not record for half a second is recorded here: if two processes do so at the same moment, the
%% broker counts the connection twice until the node stops.
keep_tracked(Tracked, Earlier, Times, Missed) when Times > 0 ->
    timer:sleep(?TRACKED_MS),
    case is_latest(Tracked) andalso is_process_alive(element(6, Tracked)) of
        true ->
            Left = left(lists:any(fun erlang:is_process_alive/1, Earlier), Times),
            keep_tracked(Tracked, Earlier, Left, ensure_tracked(Tracked, Missed));
        false ->
            ended
    end;
keep_tracked(_, _, _, _) ->
    kept.

%% False also if the table has ended with the plugin.
is_latest(Tracked) ->
    Key = {element(2, Tracked), element(6, Tracked)},
    try
        ets:lookup(?CONNECTIONS, Key) =:= [{Key, Tracked}]
    catch
        error:badarg -> false
    end.

left(true, Times) -> Times;
left(false, Times) -> Times - 1.

%% Returns at how many looks in a row the connection was missing.
ensure_tracked(Tracked, Missed) ->
    case rabbit_connection_tracking:lookup(element(5, Tracked)) of
        Known when element(6, Known) =:= element(6, Tracked) -> 0;
        _ when Missed < ?MOST_MISSED -> Missed + 1;
        _ ->
            unregister(rabbit_connection_tracking, element(2, Tracked)),
            rabbit_connection_tracking:register_tracked(Tracked),
            0
    end.

%% RabbitMQ 4 fails, and keeps the entry, if the count of its vhost or its user has been deleted with them, or if several
%% channels of a connection had the same number one after the other.
unregister(Module, Id) ->
    try
        Module:unregister_tracked(Id)
    catch
        _:_ -> [ets:delete_object(Table, Item) || {Known, Table} <- ?TRACKED, Known =:= Module, Item <- entries(Table, Id), has_ended(Item)]
    end.

entries(Table, Id) ->
    case ets:whereis(Table) of
        undefined -> [];
        _ -> ets:lookup(Table, Id)
    end.

%% For connections whose predecessor's end the broker recorded later, and those that it failed to track.
track_all() ->
    Known = maps:from_list([{element(6, Tracked), true} || Tracked <- rabbit_connection_tracking:list_on_node(node())]),
    Missing = [Entry || {{_, Process}, _} = Entry <- ets:tab2list(?CONNECTIONS), not is_map_key(Process, Known)],
    lists:foreach(fun track_again/1, Missing).

track_again({{_, Process} = Key, Tracked}) ->
    case is_process_alive(Process) of
        true -> Tracked =:= replaced orelse spawn(fun() -> keep_tracked(Tracked, [], 2 * ?MOST_MISSED, 0) end);
        false -> ets:delete(?CONNECTIONS, Key)
    end.

has_ended(Tracked) ->
    Process = element(6, Tracked),
    node(Process) =:= node() andalso not is_process_alive(Process).

%% A classic queue keeps in memory the messages that its consumers have not acknowledged, and those that came back from them.
%% Versions before 3.12 write both to disk when memory gets scarce. Later versions do so only when the queue starts again.
watch_queues() ->
    timer:sleep(?QUEUES_MS),
    catch look_at_queues(),
    watch_queues().

%% Queues publish these numbers every five seconds. The queues in the plants' vhost are left out: they belong to the service.
look_at_queues() ->
    {ok, Plants} = application:get_env(rabbitmq_mqtt, vhost),
    Queues = [
        {proplists:get_value(message_bytes_ram, Facts, 0), Name}
     || {Name, Facts, _} <- ets:tab2list(queue_metrics), element(2, Name) =/= Plants
    ],
    restart_largest(lists:reverse(lists:sort(Queues)), lists:sum([Bytes || {Bytes, _} <- Queues]) - most_together()).

restart_largest([{Bytes, Name} | Others], Surplus) when Surplus > 0, Bytes > 0 ->
    case rabbit_amqqueue:lookup(Name) of
        {ok, Queue} ->
            logger:warning("~ts holds ~b bytes of messages in memory and is started again", [rabbit_misc:rs(Name), Bytes]),
            exit(amqqueue:get_pid(Queue), kill);
        _ ->
            false
    end,
    restart_largest(Others, Surplus - Bytes);
restart_largest(_, _) ->
    false.

%% A quorum queue keeps its log from the oldest unacknowledged message on. Looks come at random times: a client could return a
%% message each time that a look is due.
watch_logs(Seen) ->
    timer:sleep(rand:uniform(2 * ?QUEUES_MS)),
    watch_logs(
        try
            maps:from_list([{Queue, look_at_log(Queue, maps:get(Queue, Seen, #{}))} || Queue <- queues_with_large_logs()])
        catch
            _:_ -> Seen
        end
    ).

%% The queues whose leader is on this node.
queues_with_large_logs() ->
    Most = application:get_env(?MODULE, most_log_bytes, ?MOST_LOG),
    [
        Queue
     || {Queue, Id} <- ra_directory:list_registered(quorum_queues),
        ra_leaderboard:lookup_leader(Queue) =:= {Queue, node()},
        log_size(Id) > Most
    ].

log_size(Id) ->
    Segments = filelib:wildcard(filename:join(ra_env:server_data_dir(quorum_queues, Id), "*.segment")),
    lists:sum([filelib:file_size(Segment) || Segment <- Segments]).

%% Returns the time at which each unacknowledged message was first seen, by its index in the log. It stays the same if the
%% message comes back and is delivered again. Messages that were seen too long ago are acknowledged in place of their consumers.
look_at_log(Queue, Seen) ->
    Server = {Queue, node()},
    try
        {ok, {_, {Delivered, Kept}}, _} = ra:local_query(Server, fun(State) -> unacknowledged(State, maps:keys(Seen)) end),
        Held = [{Consumer, Messages} || {Consumer, User, Messages} <- Delivered, not is_administrator(User)],
        Now = erlang:monotonic_time(millisecond),
        New = maps:from_list([{Index, Now} || {_, Messages} <- Held, {_, Index} <- Messages]),
        Since = maps:merge(New, maps:with(Kept, Seen)),
        Before = Now - longest_held(),
        [
            drop(Server, Consumer, [Message || {Message, Index} <- Messages, map_get(Index, Since) < Before])
         || {Consumer, Messages} <- Held
        ],
        Since
    catch
        _:_ -> Seen
    end.

drop(_, _, []) ->
    ok;
drop({Queue, _} = Server, Consumer, Late) ->
    logger:warning("~ts: ~b messages that were not acknowledged in time keep a large log and are dropped", [Queue, length(Late)]),
    ra:pipeline_command(Server, rabbit_fifo:make_settle(Consumer, Late)).

%% The delivered messages of each consumer, and the given indices that are not acknowledged. Runs in the queue's process.
unacknowledged(State, Indices) ->
    Delivered = [
        {Consumer, maps:get(username, element(2, element(2, Facts)), <<>>), [
            {Message, Index}
         || {Message, [Index | _]} <- maps:to_list(element(5, Facts))
        ]}
     || {Consumer, Facts} <- maps:to_list(element(10, State))
    ],
    Used = rabbit_fifo:query_ra_indexes(State),
    {Delivered, [Index || Index <- Indices, rabbit_fifo_index:exists(Index, Used)]}.

%% Milliseconds after which the broker closes the channel of a consumer that does not acknowledge.
longest_held() ->
    case application:get_env(rabbit, consumer_timeout) of
        {ok, Milliseconds} when is_integer(Milliseconds) -> Milliseconds;
        _ -> ?LONGEST_HELD_MS
    end.

is_administrator(Name) ->
    case rabbit_auth_backend_internal:lookup_user(Name) of
        {ok, User} -> lists:member(administrator, internal_user:get_tags(User));
        _ -> false
    end.

%% The messages of all plants of a shard wait in one queue, and the broker reads from a plant faster than ingest stores its
%% messages. While a queue is long, the broker does not read from a plant that is ahead of its share, as in a memory alarm: the
%% buffers of the sockets fill, and the plant waits.
%%
%% Begins with a release of connections that an earlier process stopped, before an error or an upgrade of the plugin.
share() ->
    timer:sleep(?LOOK_MS),
    try
        rabbit:is_running() andalso begin
            release([Reader || {rabbit_mqtt_reader, Reader} <- readers()]),
            share(#{}, #{}, #{}, now_ms())
        end
    catch
        Class:Reason:Stack ->
            logger:error("The shares of plants are not kept for ~b ms: ~tp", [?QUEUES_MS, {Class, Reason, Stack}]),
            timer:sleep(?QUEUES_MS)
    end,
    share().

%% Senders has the bytes that each connection of a plant had received at Counted, Ahead those of each plant beyond its share.
%% New connections are searched last, because busy processes have to answer. Their receive buffers get a bound: by default they
%% hold MBs, which are read at once when a stopped connection is released.
share(Senders, Ahead, Stopped, Counted) ->
    timer:sleep(?SHARDS_MS),
    IsLate = is_ingest_late(),
    Now = now_ms(),
    case Now - Counted >= pause(IsLate, map_size(Senders)) of
        true ->
            Open = count(Senders),
            Next = ahead(Senders, Open, Ahead, ?BYTES_A_SECOND * (Now - Counted) div 1000),
            Kept = stop(IsLate, Open, Next, Stopped),
            New = new_senders(Open),
            [inet:setopts(Socket, [{recbuf, ?MOST_AHEAD}]) || {_, Socket, _} <- maps:values(New)],
            share(maps:merge(Open, New), Next, Kept, Now);
        false when IsLate ->
            share(Senders, Ahead, Stopped, Counted);
        false ->
            release(maps:keys(Stopped)),
            share(Senders, Ahead, #{}, Counted)
    end.

%% Milliseconds between counts, which take longer with many connections.
pause(true, Connections) -> Connections div ?COUNTED_A_MS_LATE;
pause(false, Connections) -> max(?COUNT_MS, Connections div ?COUNTED_A_MS).

ahead(Before, Open, Ahead, Share) ->
    Add = fun(Reader, {User, _, Bytes}, Sums) ->
        {_, _, Known} = map_get(Reader, Before),
        Sums#{User => maps:get(User, Sums, 0) + Bytes - Known}
    end,
    Left = fun(_, Bytes) ->
        Beyond = min(Bytes - Share, ?MOST_COUNTED),
        Beyond > 0 andalso {true, Beyond}
    end,
    maps:filtermap(Left, maps:fold(Add, Ahead, Open)).

%% Returns the stopped connections. They are stopped again at each count, because the end of an alarm releases them.
stop(IsLate, Senders, Ahead, Stopped) ->
    IsAhead = fun(_, {User, _, _}) -> IsLate andalso maps:get(User, Ahead, 0) > ?MOST_AHEAD end,
    Next = maps:filter(IsAhead, Senders),
    conserve(maps:keys(Next), true),
    release(maps:keys(maps:without(maps:keys(Next), Stopped))),
    Next.

%% During an alarm they stay stopped, as all others.
release([]) ->
    ok;
release(Readers) ->
    conserve(Readers, [] =/= [Source || {{resource_limit, Source, _}, _} <- rabbit_alarm:get_alarms()]).

conserve(Readers, Value) ->
    [rabbit_mqtt_reader:conserve_resources(Reader, ?MODULE, {Value, Value, node()}) || Reader <- Readers].

is_ingest_late() ->
    Plants = application:get_env(rabbitmq_mqtt, vhost, <<"/">>),
    Bindings = rabbit_binding:list_for_source(rabbit_misc:r(Plants, exchange, ?INGEST)),
    lists:any(fun(Binding) -> is_long(element(4, Binding)) end, Bindings).

is_long(Name) ->
    case rabbit_amqqueue:lookup(Name) of
        {ok, Queue} -> lists:any(fun is_above/1, facts(Queue));
        _ -> false
    end.

is_above({Item, Fact}) ->
    is_integer(Fact) andalso Fact > map_get(Item, ?LONG).

%% None if the queue was deleted or its node does not answer.
facts(Queue) ->
    try
        facts(amqqueue:get_type(Queue), Queue)
    catch
        exit:_ -> []
    end.

%% Includes the bytes that ingest has received and not acknowledged. Only bodies count, not the properties of MQTT 5.
facts(rabbit_quorum_queue, Queue) ->
    case ra:local_query(amqqueue:get_pid(Queue), fun rabbit_fifo:overview/1) of
        {ok, {_, #{num_ready_messages := Ready, enqueue_message_bytes := Waiting, checkout_message_bytes := Taken}}, _} ->
            [{messages_ready, Ready}, {message_bytes, Waiting + Taken}];
        _ ->
            []
    end;
facts(_, Queue) ->
    rabbit_amqqueue:info(Queue, maps:keys(?LONG)).

%% The received bytes of the connections that are open.
count(Senders) ->
    Now = fun(_, {User, Socket, _}) ->
        case inet:getstat(Socket, [recv_oct]) of
            {ok, [{recv_oct, Bytes}]} -> {true, {User, Socket, Bytes}};
            _ -> false
        end
    end,
    maps:filtermap(Now, Senders).

%% Returns the connections that are not known yet, with user, socket and 0 bytes.
new_senders(Known) ->
    New = [Reader || {rabbit_mqtt_reader, Reader} <- readers(), not is_map_key(Reader, Known)],
    maps:from_list([{Reader, {User, Socket, 0}} || Reader <- New, User <- user(Reader), Socket <- socket(Reader)]).

%% None before the login. Up to 3.11, the connection is a process that the reader is linked to.
user(Reader) ->
    Facts = [Facts || Process <- [Reader | links(Reader)], {_, Facts} <- ets:lookup(connection_created, Process)],
    lists:sublist([User || {user, User} <- lists:append(Facts)], 1).

%% None if the connection has ended. With TLS, the process that decrypts, which monitors the reader, has the socket.
socket(Reader) ->
    Monitors = [Process || {monitored_by, Others} <- [process_info(Reader, monitored_by)], Process <- Others],
    Local = [Process || Process <- [Reader | Monitors], is_pid(Process), node(Process) =:= node()],
    lists:sublist([Port || Process <- Local, {links, Links} <- [process_info(Process, links)], Port <- Links, is_port(Port)], 1).

now_ms() ->
    erlang:monotonic_time(millisecond).

is_large(Kind, Reader) ->
    garbage_collect(Reader) andalso held(Kind, Reader) > most_incomplete(Kind).

%% With each piece of an MQTT packet, RabbitMQ before 3.12 copies what has arrived of it. A plant's message has at most 1 MiB.
most_incomplete(rabbit_mqtt_reader) ->
    case is_before_3_12() of
        true -> ?MOST_INCOMPLETE_PACKET;
        false -> ?MOST_INCOMPLETE
    end;
most_incomplete(rabbit_reader) ->
    ?MOST_INCOMPLETE.

%% Without binaries where RabbitMQ bounds packets: a connection that is read without a pause may have many outside its heap.
held(Kind, Process) ->
    Items =
        case Kind =:= rabbit_reader orelse is_before_3_12() of
            true -> [memory, binary];
            false -> [memory]
        end,
    case process_info(Process, Items) of
        [{memory, Heap} | Others] -> Heap + lists:sum([Size || {binary, Binaries} <- Others, {_, Size, _} <- Binaries]);
        undefined -> 0
    end.

%% The binaries of the process's heap. Messages in its inbox count after a garbage collection, which moves them there.
binaries(Process) ->
    case process_info(Process, binary) of
        {binary, Binaries} -> Binaries;
        undefined -> []
    end.

bytes_of(Binaries) ->
    lists:sum([Size || {_, Size, _} <- Binaries]).

%% With AMQP, the first call sends the reason and waits for the client's answer; a second call ends the connection without it.
%% With MQTT, the reader writes answers itself and does not reach the request while the client does not read them.
close(rabbit_reader, Reader, Reason) ->
    gen_server:send_request(Reader, {shutdown, Reason});
close(rabbit_mqtt_reader, Reader, Reason) ->
    gen_server:cast(Reader, {close_connection, Reason}),
    spawn(fun() ->
        timer:sleep(?CALL_MS),
        exit(Reader, kill)
    end).

%% RabbitMQ limits the consumers of a channel from 3.13 on. A consumer without a tag gets one here like those of the channel.
counted(Consume, Content) ->
    Tag =
        case element(4, Consume) of
            <<>> -> rabbit_guid:binary(rabbit_guid:gen_secure(), "amq.ctag");
            Given -> Given
        end,
    Consumers = (consumers())#{Tag => true},
    Counts = [
        {map_size(Consumers), ?MOST_CONSUMERS, "the channel has too many consumers"},
        {map_size(Consumers) + consumers_of_other_channels(), ?MOST_CONSUMERS_OF_KEY, "the user has too many consumers"},
        {readers(element(3, Consume), Tag), ?MOST_CONSUMERS, "the stream has too many consumers"}
    ],
    case [Text || {Count, Most, Text} <- Counts, Count > Most] of
        [] ->
            put_consumers(Consumers),
            {setelement(4, Consume, Tag), Content};
        [Text | _] ->
            refused(Text, 'basic.consume')
    end.

%% The number of a stream's consumers on this node with the new one, 0 for other queues. An empty name means the queue that the
%% channel declared last. The broker's own list is not used: it keeps consumers of deleted streams.
readers(<<>>, Tag) ->
    case get(?DECLARED) of
        undefined -> 0;
        Declared -> readers(Declared, Tag)
    end;
readers(Name, Tag) ->
    {_, Vhost} = get(?OWNER),
    Stream = rabbit_misc:r(Vhost, queue, Name),
    case rabbit_amqqueue:lookup(Stream) of
        {ok, Queue} ->
            case amqqueue:get_type(Queue) of
                rabbit_stream_queue -> count_reader(Stream, Tag);
                _ -> 0
            end;
        _ ->
            0
    end.

count_reader(Stream, Tag) ->
    ets:insert(?MODULE, {{reader, Stream, self(), Tag}}),
    length([Channel || [Channel] <- ets:match(?MODULE, {{reader, Stream, '$1', '_'}}), is_process_alive(Channel)]).

%% The consumers of the same user in the same vhost on this node. A queue scans all of its consumers for each channel that ends.
consumers_of_other_channels() ->
    Owner = get(?OWNER),
    Counts = ets:select(?MODULE, [{{{consumers, Owner, '$1'}, '$2'}, [{'=/=', '$1', self()}], [{{'$1', '$2'}}]}]),
    lists:sum([Count || {Channel, Count} <- Counts, is_process_alive(Channel)]).

put_consumers(Consumers) ->
    put(?CONSUMERS, Consumers),
    ets:insert(?MODULE, {{consumers, get(?OWNER), self()}, map_size(Consumers)}).

%% The tags of the channel's consumers. A tag stays until its consumer is cancelled, even if the queue was deleted.
consumers() ->
    case get(?CONSUMERS) of
        undefined -> #{};
        Known -> Known
    end.

arguments(Method) ->
    element(tuple_size(Method), Method).

%% Called for each entry of the log by the process that writes it. As text, bytes need 400 times their memory. An error here
%% would remove the filter.
%%
%% RabbitMQ before 3.12 answers all that it has received from a client that has gone, and logs each answer as an error: with
%% subscriptions, which take turns, for minutes. Only the first entry of a connection is kept.
shorten(#{msg := {"MQTT: a socket write failed" ++ _, _}} = Entry, _) ->
    case put(?WRITE_FAILED, true) of
        undefined -> Entry;
        true -> stop
    end;
shorten(#{msg := Message} = Entry, Most) ->
    case erlang:external_size(Message) > Most of
        true ->
            try
                Entry#{msg := {"~ts", [shortened(Message)]}}
            catch
                _:_ -> Entry#{msg := {"~ts", [brief(Message)]}}
            end;
        false ->
            Entry
    end.

shortened({Format, Arguments}) when is_list(Arguments) ->
    io_lib:format(Format, [shortened_argument(Argument) || Argument <- Arguments], [{chars_limit, ?MOST_SHOWN}]);
shortened(Other) ->
    brief(Other).

shortened_argument(Argument) ->
    case erlang:external_size(Argument) > ?MOST_SHOWN of
        true when is_binary(Argument) -> binary:part(Argument, 0, ?MOST_SHOWN);
        true -> lists:flatten(brief(Argument));
        false -> Argument
    end.

brief(Term) ->
    io_lib:format("~0tP", [Term, ?DEPTH], [{chars_limit, ?MOST_SHOWN}]).

refused(Text, Method) ->
    rabbit_misc:amqp_error(access_refused, Text, [], Method).

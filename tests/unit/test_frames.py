"""The reader that takes deliveries and confirmations out of a stream of AMQP frames, however the network cuts the stream."""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence

import pytest
from aiormq.connection import FrameReceiver
from aiormq.exceptions import AMQPConnectionError, ProtocolSyntaxError
from hypothesis import given
from hypothesis import strategies as st
from pamqp import body, commands, frame, header, heartbeat

from gridfleet.kernel.broker.frames import Confirmation, FrameReader, TaggedMessage

KNOWN, UNKNOWN = "7", "other"


def message(consumer: str, tag: int, routing_key: str, content: bytes, piece: int) -> bytes:
    """Return the frames of a delivery whose body is cut into pieces."""
    deliver = commands.Basic.Deliver(consumer_tag=consumer, delivery_tag=tag, exchange="amq.topic", routing_key=routing_key)
    parts = [content[start : start + piece] for start in range(0, len(content), piece)]
    properties = commands.Basic.Properties(headers={"x-mqtt-publish-qos": 1}, delivery_mode=2)
    frames = [deliver, header.ContentHeader(0, len(content), properties), *map(body.ContentBody, parts)]
    return b"".join(frame.marshal(one, 1) for one in frames)


OTHERS = [
    commands.Basic.ConsumeOk(consumer_tag=KNOWN),
    commands.Queue.DeclareOk(queue="q", message_count=0, consumer_count=1),
    commands.Basic.Ack(delivery_tag=3),
    heartbeat.Heartbeat(),
]
messages = st.tuples(
    st.sampled_from([KNOWN, UNKNOWN]),
    st.integers(1, 2**63 - 1),
    st.text(max_size=60),
    st.binary(max_size=300),
    st.integers(1, 300),
)
events = st.one_of(messages, st.sampled_from(range(len(OTHERS))))


async def read(chunks: Iterable[bytes], beat_seconds: float = 0) -> tuple[list[TaggedMessage], list[str]]:
    """Return the deliveries that are taken from the stream, and the names of the frames that are left to aiormq."""
    stream = asyncio.StreamReader()
    reader = FrameReader(stream, beat_seconds)
    taken: list[TaggedMessage] = []
    reader.consumers[KNOWN.encode()] = taken.append
    receiver = FrameReceiver(reader)  # type: ignore[arg-type]
    names: list[str] = []

    async def receive() -> None:
        try:
            async for _, _, one in receiver:
                names.append(one.name)
        except AMQPConnectionError:
            names.append("end")

    receiving = asyncio.create_task(receive())
    for chunk in chunks:
        stream.feed_data(chunk)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    stream.feed_eof()
    await receiving
    return taken, names


def pieces(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Cut the data into pieces of these sizes, again and again."""
    found, at = [], 0
    while at < len(data):
        size = sizes[len(found) % len(sizes)]
        found.append(data[at : at + size])
        at += size
    return found


@given(st.lists(events, max_size=12), st.lists(st.integers(1, 400), min_size=1, max_size=5))
async def test_however_a_stream_is_cut_its_messages_are_the_same(
    sent: list[int | tuple[str, int, str, bytes, int]], sizes: list[int]
) -> None:
    data = b"".join(frame.marshal(OTHERS[one], 1) if isinstance(one, int) else message(*one) for one in sent)
    taken, names = await read(pieces(data, sizes))
    own = [one for one in sent if not isinstance(one, int) and one[0] == KNOWN]
    assert taken == [TaggedMessage(tag, routing_key, content) for _, tag, routing_key, content, _ in own]
    left = []
    for one in sent:
        if isinstance(one, int):
            left.append(OTHERS[one].name)
        elif one[0] == UNKNOWN:
            left += ["Basic.Deliver", "ContentHeader", *["ContentBody"] * -(-len(one[3]) // one[4])]
    beats = heartbeat.Heartbeat().name
    assert [name for name in names if name not in (beats, "end")] == [name for name in left if name != beats]


@pytest.mark.parametrize(("beat_seconds", "beats"), [(0, 5), (60, 1)])
async def test_a_stream_of_nothing_but_deliveries_keeps_the_connection_alive(beat_seconds: float, beats: int) -> None:
    """aiormq closes a connection on which it sees no frame, and a broker that sends messages sends no heartbeats."""
    chunks = [message(KNOWN, tag, "t", b"x" * 100, 100) for tag in range(1, 6)]
    taken, names = await read(chunks, beat_seconds)
    assert len(taken) == 5
    assert names.count(heartbeat.Heartbeat().name) == beats


@pytest.mark.parametrize("cut", [1, 8, 40])
async def test_a_stream_that_ends_within_a_frame_is_a_lost_connection(cut: int) -> None:
    data = message(KNOWN, 1, "t", b"x" * 100, 100)
    taken, names = await read([data[:-cut]])
    assert taken == []
    assert names[-1] == "end"


async def test_a_server_that_speaks_another_protocol_is_named_as_before() -> None:
    with pytest.raises(ProtocolSyntaxError):
        await read([b"AMQP\x00\x01\x00\x00"])


async def test_confirmations_of_a_publisher_are_taken_and_those_of_other_channels_are_not() -> None:
    sent = [
        (2, commands.Basic.Ack(delivery_tag=1)),
        (1, commands.Basic.Ack(delivery_tag=2)),
        (2, commands.Basic.Nack(delivery_tag=3, requeue=False)),
        (2, commands.Basic.Ack(delivery_tag=2**40, multiple=True)),
        (2, commands.Basic.Nack(delivery_tag=5, multiple=True, requeue=True)),
        (2, commands.Basic.CancelOk(consumer_tag=KNOWN)),
    ]
    data = b"".join(frame.marshal(one, channel) for channel, one in sent)
    for size in (1, 7, 20, len(data)):
        stream = asyncio.StreamReader()
        reader = FrameReader(stream)
        taken: list[Confirmation] = []
        reader.publishers[2] = taken.append
        left: list[tuple[int, str]] = []
        for chunk in pieces(data, [size]):
            stream.feed_data(chunk)
        stream.feed_eof()
        with contextlib.suppress(AMQPConnectionError):
            async for _, channel, one in FrameReceiver(reader):  # type: ignore[arg-type]
                left.append((channel, one.name))
        assert taken == [
            Confirmation(1, False, True),
            Confirmation(3, False, False),
            Confirmation(2**40, True, True),
            Confirmation(5, True, False),
        ]
        assert [one for one in left if one[1] != heartbeat.Heartbeat().name] == [(1, "Basic.Ack"), (2, "Basic.CancelOk")]

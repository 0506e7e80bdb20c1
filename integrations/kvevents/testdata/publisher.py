"""An engine's event publisher on libzmq, in the shapes of vLLM, driven by lines of JSON.

Arguments: array or map, int or bytes, and the two endpoints to bind. Each line is
{"send": true, "events": [...]}, an event being its tag and its fields.
"""

import collections
import json
import os
import sys
import time

import msgspec
import zmq

form, names, events_at, replay_at = sys.argv[1:5]


class Event(msgspec.Struct, array_like=form == "array", omit_defaults=True, tag=True):
    pass


class BlockStored(Event):
    block_hashes: list
    parent_block_hash: object
    token_ids: list
    block_size: int
    lora_id: object = None
    medium: object = None
    lora_name: object = None


class BlockRemoved(Event):
    block_hashes: list
    medium: object = None


class AllBlocksCleared(Event):
    pass


class Batch(msgspec.Struct, array_like=True, omit_defaults=True):
    ts: float
    events: list
    data_parallel_rank: object = None


def name(n):
    if n is None or names == "int":
        return n
    return n.to_bytes(32, "big")


def event(tag, fields):
    fields = dict(fields)
    if "block_hashes" in fields:
        fields["block_hashes"] = [name(n) for n in fields["block_hashes"]]
    if "parent_block_hash" in fields:
        fields["parent_block_hash"] = name(fields["parent_block_hash"])
    return globals()[tag](**fields)


context = zmq.Context()
pub, router = context.socket(zmq.PUB), context.socket(zmq.ROUTER)
pub.bind(events_at)
router.bind(replay_at)
print(pub.last_endpoint.decode(), router.last_endpoint.decode(), flush=True)

past, seq, pending = collections.deque(maxlen=10_000), 0, b""
poller = zmq.Poller()
poller.register(router, zmq.POLLIN)
poller.register(sys.stdin.fileno(), zmq.POLLIN)
while True:
    ready = dict(poller.poll())
    if router in ready:
        client, _, start = router.recv_multipart()
        for n, payload in past:
            if n >= int.from_bytes(start, "big"):
                router.send_multipart([client, b"", b"", n.to_bytes(8, "big"), payload])
        router.send_multipart([client, b"", b"", b"\xff" * 8, b""])
    if sys.stdin.fileno() in ready:
        data = os.read(sys.stdin.fileno(), 1 << 16)
        if not data:
            os._exit(0)
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            order = json.loads(line)
            batch = Batch(time.time(), [event(*e) for e in order["events"]], 0)
            payload = msgspec.msgpack.encode(batch)
            past.append((seq, payload))
            if order["send"]:
                pub.send_multipart([b"", seq.to_bytes(8, "big"), payload])
            seq += 1

"""Reads event files without TensorBoard and protobuf: a second reading of what shoal tensorboard writes. Every
checksum is checked. usage: tfevents.py FILE..."""

import struct
import sys
from pathlib import Path

TABLE = []
for number in range(256):
    rest = number
    for _ in range(8):
        rest = rest >> 1 ^ (0x82F63B78 if rest & 1 else 0)
    TABLE.append(rest)


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def messages(data):
    """The messages of all whole records; what is cut short at the end is left out, and a wrong checksum raises ValueError."""
    at = 0
    while len(data) - at >= 12:
        count, crc = struct.unpack_from("<QI", data, at)
        if crc != masked_crc(data[at : at + 8]):
            raise ValueError(f"a wrong checksum of the length at byte {at}")
        if len(data) - at < count + 16:
            return
        message = data[at + 12 : at + 12 + count]
        if struct.unpack_from("<I", data, at + 12 + count)[0] != masked_crc(message):
            raise ValueError(f"a wrong checksum of the message at byte {at}")
        yield message
        at += count + 16


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """The fields of a message as a dict of number to list of values; fixed numbers are read as floats."""
    found, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 2:
            count, at = varint(data, at)
            value, at = data[at : at + count], at + count
            if at > len(data):
                raise ValueError("a field is longer than its message")
        else:
            kind, size = {1: ("<d", 8), 5: ("<f", 4)}[tag & 7]
            value, at = struct.unpack_from(kind, data, at)[0], at + size
        found.setdefault(tag >> 3, []).append(value)
    return found


def events(path):
    """Each event of a file: a map `wall step version source start values`; `values`: tag to number, None if it is no scalar."""
    for message in messages(Path(path).read_bytes()):
        event = fields(message)
        log = fields(event.get(7, [b""])[0])
        values = [fields(value) for summary in event.get(5, []) for value in fields(summary).get(1, [])]
        yield {"wall": event[1][0], "step": event.get(2, [0])[0], "version": event.get(3, [b""])[0].decode(),
               "source": fields(event.get(10, [b""])[0]).get(1, [b""])[0].decode(), "start": log.get(1, [0])[0] == 1,
               "values": {value[1][0].decode(): value.get(2, [None])[0] for value in values}}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for found in events(name):
            print(found)

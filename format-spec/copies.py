"""What reader.py needs for a transcript that begins with copies; written from context.md alone."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

EPOCH = datetime(1970, 1, 1)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at an offset, and the offset behind it."""
    value = shift = 0
    while data[at] & 128:
        value, shift, at = value | (data[at] & 127) << shift, shift + 7, at + 1
    return value | data[at] << shift, at + 1


class Column:
    """Numbers of one kind, one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        value, self.at = varint(self.data, self.at)
        return value


def timestamp(time: int, digits: int) -> bytes:
    """A time in JSON, from a count of its last digit since 1970."""
    seconds, fraction = divmod(time, 10**digits)
    text = (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return f'"{text}{f".{fraction:0{digits}}" if digits else ""}Z"'.encode()


def steps(chunk: bytes) -> Iterator[tuple]:
    """The steps of a chunk: ("whole", kind, suffix, bytes) or ("take", base, place, edits)."""
    if chunk[0] != 1:
        raise ValueError("a chunk of copies of another version")
    count, at = varint(chunk, 1)
    columns = []
    for _ in range(7):
        size, at = varint(chunk, at)
        columns.append(Column(chunk[at : at + size]))
        at += size
    codes, places, counts, gaps, removed, kinds, values = columns
    sizes, texts, times = [], [], [0] * 10
    number, at = varint(chunk, at)
    for _ in range(number):
        size, at = varint(chunk, at)
        sizes.append(size)
    for size in sizes:
        texts.append(chunk[at : at + size])
        at += size

    def text() -> bytes:
        kind, value = kinds.number(), values.number()
        if kind == 0:
            return texts[value]
        times[kind - 1] += value >> 1 ^ -(value & 1)
        return timestamp(times[kind - 1], kind - 1)

    base, place = 0, -1
    for _ in range(count):
        code = codes.byte()
        if code == 2:
            kind = places.byte()
            yield "whole", kind, text(), text()
            continue
        base, place = (places.number(), places.number()) if code == 1 else (base, place + 1)
        edits, end = [], 0
        for _ in range(counts.number()):
            start = end + gaps.number()
            end = start + removed.number()
            edits.append((start, end, text()))
        yield "take", base, place, edits


def copies(read: Callable[[bytes], tuple], tree: Callable, sections: dict) -> Iterator[bytes]:
    """The bytes of the copied beginning of a transcript, its separators included."""
    bases: dict[int, list] = {}
    for chunk in tree(sections["source-copied"].id).values():
        for step in steps(read(chunk.id)[1]):
            if step[0] == "whole":
                yield step[3] + step[2]
                continue
            _, base, place, edits = step
            if base not in bases:
                bases[base] = list(tree(sections[f"source-base-{base}"].id).values())
            entry = bases[base][place]
            piece, made, at = read(entry.id)[1], b"", 0
            for start, end, new in edits:
                made, at = made + piece[at:start] + new, end
            yield made + piece[at:] + entry.meta[1:]

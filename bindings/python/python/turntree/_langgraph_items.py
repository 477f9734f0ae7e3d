"""Items of lists that LangGraph keeps: what changed of them, and messages as records that people read."""

from __future__ import annotations

import copy
import json
import operator
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from langchain_core import messages as lc

from turntree import Role
from turntree._json import to_json

ROLES: dict[str, Role] = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_CLASSES: dict[str, type[lc.BaseMessage]] = {
    "human": lc.HumanMessage,
    "ai": lc.AIMessage,
    "system": lc.SystemMessage,
    "tool": lc.ToolMessage,
}


class SeenList:
    """A list as it was last seen: its objects, how they looked then, and their places among the items."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.looks: list[Any] = []
        self.places: list[int] = []
        self.ranges: list[list[int]] = []
        self.has_only_messages = True

    def add(self, value: Any, place: int) -> None:
        self.objects.append(value)
        self.looks.append(_look(value))
        self.places.append(place)
        _extend(self.ranges, place)
        self.has_only_messages = self.has_only_messages and isinstance(value, lc.BaseMessage)

    def first(self, count: int) -> SeenList:
        """The first so many items, as another list."""
        part = SeenList()
        part.objects, part.looks = self.objects[:count], self.looks[:count]
        part.places = self.places[:count]
        if count == len(self.places):
            part.ranges = [list(bounds) for bounds in self.ranges]
            part.has_only_messages = self.has_only_messages
        else:
            part.ranges = ranges_of(part.places)
            part.has_only_messages = all(isinstance(item, lc.BaseMessage) for item in part.objects)
        return part

    def is_same(self, at: int) -> bool:
        """True if an object is unchanged since it was stored or read."""
        value, look = self.objects[at], self.looks[at]
        if look is _UNKNOWN:
            return False
        try:
            return bool((_fields(value) if isinstance(value, lc.BaseMessage) else value) == look)
        except Exception:  # What cannot be compared, such as an array, is stored again each time.
            return False

    def same_items(self, count: int) -> int:
        """Counts the unchanged items at the start of the first ``count``."""
        # Compared without a call of Python for each, in a third of the time: a turn does this three times.
        if self.has_only_messages:
            same = map(operator.eq, map(_fields, self.objects), self.looks)
            with suppress(Exception):
                return next(
                    (at for at, is_it in enumerate(islice(same, count)) if not is_it), count
                )
        return next((at for at in range(count) if not self.is_same(at)), count)


_UNKNOWN = object()

#: What a message has: the fields of its class, and those that the class has no name for.
_fields = operator.attrgetter("__dict__", "__pydantic_extra__")


def _look(value: Any) -> Any:
    try:
        if isinstance(value, lc.BaseMessage):
            return copy.deepcopy(_fields(value))
        if type(value) in (str, bytes, int, float, bool, type(None)):
            return value
        if type(value) in (dict, list, tuple):
            return copy.deepcopy(value)
    except Exception:  # What cannot be copied is stored again each time.
        pass
    return _UNKNOWN


def ranges_of(places: Iterable[int]) -> list[list[int]]:
    """Places as ranges: a list that only grew is one."""
    ranges: list[list[int]] = []
    for place in places:
        _extend(ranges, place)
    return ranges


def _extend(ranges: list[list[int]], place: int) -> None:
    if ranges and ranges[-1][1] == place:
        ranges[-1][1] += 1
    else:
        ranges.append([place, place + 1])


def same_start(
    one: Sequence[Any], other: Sequence[Any], same: Callable[[Any, Any], bool] = operator.is_
) -> int:
    """How many items both begin with alike."""
    count = min(len(one), len(other))
    if all(map(same, one, other)):
        return count
    return next(at for at in range(count) if not same(one[at], other[at]))


def same_places(one: list[int], other: list[int]) -> int:
    """How many places both begin with alike."""
    count = min(len(one), len(other))
    if one[:count] == other[:count]:
        return count
    return same_start(one, other, operator.eq)


def record_of(message: lc.BaseMessage, default: Callable[[Any], Any] | None = None) -> bytes:
    """A message as OpenAI's interface has it, with all that LangChain knows of it beside."""
    fields = message.model_dump(exclude_defaults=True, exclude={"content", "type"})
    record: dict[str, Any] = {
        "role": ROLES.get(message.type, message.type),
        "content": message.content,
    }
    if calls := getattr(message, "tool_calls", None):
        record["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {
                    "name": call["name"],
                    "arguments": json.dumps(call["args"], default=str),
                },
            }
            for call in calls
        ]
    if isinstance(message, lc.ToolMessage):
        record["tool_call_id"] = message.tool_call_id
        if message.status == "error":
            record["error"] = True
    if model := message.response_metadata.get("model_name"):
        record["model"] = model
    if usage := getattr(message, "usage_metadata", None):
        record["usage"] = _usage_of(usage)
    record["langchain"] = {"type": message.type, **fields}
    return to_json(record, default)


def _usage_of(usage: Any) -> dict[str, Any]:
    details = {"cached_tokens": (usage.get("input_token_details") or {}).get("cache_read", 0)}
    return {
        "prompt_tokens": usage.get("input_tokens"),
        "completion_tokens": usage.get("output_tokens"),
        "prompt_tokens_details": details,
    }


def message_of(record: bytes) -> lc.BaseMessage:
    fields = json.loads(record)
    kept = fields["langchain"]
    return _CLASSES[kept.pop("type")](content=fields["content"], **kept)

"""What the session of a thread shows: the messages of its root graph, and the files of deepagents."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core import messages as lc
from langchain_core.messages import convert_to_messages
from langgraph.checkpoint.base import DeltaChannelHistory
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from turntree import InvalidInput, LimitExceeded, Snapshot, Transaction
from turntree._langgraph_items import ROLES, record_of

CONVERSATION = "agents/main/messages"
FILES = "files"

#: The id of a ``RemoveMessage`` that removes all messages.
REMOVE_ALL = "__remove_all__"
#: The key of a dictionary that stands for ``langgraph.types.Overwrite``.
OVERWRITE = "__overwrite__"


@dataclass
class Step:
    """A checkpoint of the root graph that is about to be stored."""

    parent: str | None
    #: The newest stored checkpoint.
    newest: str | None
    id: str
    #: Its values of the channels ``messages`` and ``files``, where it has them.
    values: dict[str, Any]
    #: Channels whose value is new, and delta channels.
    changed: set[str]
    deltas: set[str]
    #: The places of the items of ``messages``; None unless all are messages.
    places: list[int] | None
    #: Records of messages by their places, if this step stores them.
    records: dict[int, bytes]
    #: What leads to a channel's value at a checkpoint, and the values written at the parent.
    past: Callable[[str, str | None], DeltaChannelHistory]
    writes: Callable[[str], list[Any]]

    def is_delta(self, channel: str) -> bool:
        return channel in self.deltas or isinstance(self.values.get(channel), _DeltaSnapshot)


class ThreadView:
    """What the session of a thread shows, as of the newest checkpoint of this process."""

    def __init__(self, snapshot: Snapshot | None) -> None:
        self._conversation = Conversation.of(snapshot)
        self._files: ShownFiles | None = None
        #: The messages of a delta channel.
        self._delta: DeltaMessages | None = None

    def show(self, change: Transaction, step: Step) -> str:
        """Shows a checkpoint. Returns words for the title of a change that adds messages."""
        is_plain = "files" in step.changed and is_files(step.values.get("files"))
        if is_plain or step.is_delta("files"):
            self._files = self._files or ShownFiles(step.past("files", step.newest))
            if step.is_delta("files"):
                self._show_delta_files(change, step, self._files)
            else:
                self._files.replace(change, step.values["files"])
        if step.is_delta("messages"):
            return self._show_delta_messages(change, step)
        messages, places = step.values.get("messages"), step.places
        if "messages" not in step.changed or messages is None or places is None:
            return ""

        def record(at: int) -> bytes:
            return step.records.get(places[at]) or record_of(messages[at], default=str)

        return self._conversation.show(change, messages, places, record)

    def _show_delta_messages(self, change: Transaction, step: Step) -> str:
        shown, self._delta = self._delta, None
        value, seed = step.values.get("messages"), None
        writes: list[Any] = []
        if isinstance(value, _DeltaSnapshot):
            # At a fork it is the only source: the writes at the parent belong to another branch.
            shown, seed = None, value
        else:
            if shown is None or shown.checkpoint != step.parent:
                past = step.past("messages", step.parent)
                shown, seed = None, past.get("seed")
                writes = [write for _, _, write in past["writes"]]
            writes += step.writes("messages")
        try:
            shown = shown or DeltaMessages(seed)
            for write in writes:
                shown.apply(write)
        except Exception:  # The channel has something else than messages, which ends no graph.
            return ""
        shown.checkpoint, self._delta = step.id, shown
        return self._conversation.show(
            change,
            shown.messages,
            # Checkpoints in a row share the objects.
            shown.messages,
            lambda at: record_of(shown.messages[at], default=str),
        )

    def _show_delta_files(self, change: Transaction, step: Step, files: ShownFiles) -> None:
        value = step.values.get("files")
        if isinstance(value, _DeltaSnapshot):
            files.replace(change, value.value)
        else:
            if step.parent is None or files.checkpoint != step.parent:
                past = step.past("files", step.parent)
                files.replace(change, _plain(past.get("seed")))
                files.apply(change, [write for _, _, write in past["writes"]])
            files.apply(change, step.writes("files"))
        files.checkpoint = step.id


class Conversation:
    """The messages that a session shows. A change appends to them, or cuts and appends."""

    def __init__(self, digests: list[bytes]) -> None:
        self._digests = digests
        #: What identifies each message without a look at its content, such as its place; None is unknown.
        self._keys: list[object] = [None] * len(digests)

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> Conversation:
        return cls([_digest(record) for record in snapshot.list(CONVERSATION)] if snapshot else [])

    def show(
        self,
        change: Transaction,
        messages: Sequence[lc.BaseMessage],
        keys: Sequence[object],
        record: Callable[[int], bytes],
    ) -> str:
        """Makes the conversation these messages, whose records ``record`` returns by number. Returns
        words for the title of a change that adds messages."""
        count = min(len(keys), len(self._keys))
        same = count
        if list(keys[:count]) != self._keys[:count]:
            same = next(at for at in range(count) if keys[at] != self._keys[at])
        records = []
        for at in range(same, len(messages)):
            content = record(at)
            if at == same and at < len(self._digests) and self._digests[at] == _digest(content):
                same += 1
            else:
                records.append(content)
        if same < len(self._digests):
            change.cut(CONVERSATION, same)
        for message, content in zip(messages[same:], records):
            change.push_message(ROLES.get(message.type, "other"), content, format="openai-chat")
        self._digests = self._digests[:same] + [_digest(content) for content in records]
        self._keys = list(keys)
        if not records:
            return ""
        last = messages[-1]
        text = " ".join(str(last.text).split())
        return f": {ROLES.get(last.type, last.type)}: {text[:60]}"


class DeltaMessages:
    """The messages of a delta channel at one checkpoint. Writes change them by the rules of
    ``add_messages``, which the reducers of LangGraph and deepagents follow."""

    def __init__(self, seed: Any = None) -> None:
        #: The checkpoint whose messages these are.
        self.checkpoint: str | None = None
        self.messages: list[lc.BaseMessage] = []
        self._places: dict[str, int] = {}
        if seed is not None:
            self.apply(seed.value if isinstance(seed, _DeltaSnapshot) else seed)

    def apply(self, write: Any) -> None:
        """Applies one write of the channel.

        Raises what ``convert_to_messages`` raises for values that are no messages."""
        is_new, value = overwrite_of(write)
        if is_new:
            self._clear()
        added = value if isinstance(value, list) else [] if value is None else [value]
        for message in convert_to_messages(added):
            if isinstance(message, lc.RemoveMessage):
                self._remove(message.id)
            elif message.id is not None and (place := self._places.get(message.id)) is not None:
                self.messages[place] = message
            else:
                if message.id is not None:
                    self._places[message.id] = len(self.messages)
                self.messages.append(message)

    def _remove(self, id: str | None) -> None:
        if id == REMOVE_ALL:
            self._clear()
        elif id is not None and (place := self._places.pop(id, None)) is not None:
            del self.messages[place]
            for other, at in self._places.items():
                if at > place:
                    self._places[other] = at - 1

    def _clear(self) -> None:
        self.messages.clear()
        self._places.clear()


def overwrite_of(write: Any) -> tuple[bool, Any]:
    """Returns whether a write replaces the whole value, and the value that it has."""
    if isinstance(write, dict) and set(write) == {OVERWRITE}:
        return True, write[OVERWRITE]
    if type(write).__name__ == "Overwrite" and hasattr(write, "value"):
        return True, write.value
    return False, write


class ShownFiles:
    """The files of a session, from the channel ``files`` of deepagents: paths with their content, or
    None for a deleted file. Values of another form are not shown."""

    def __init__(self, shown: DeltaChannelHistory) -> None:
        #: The checkpoint whose files these are; None if unknown.
        self.checkpoint: str | None = None
        #: The paths that the channel has put into the session, each with the digest of its content, which
        #: is empty if unknown. Files that something else has put there, such as a capture, stay.
        self._digests: dict[str, bytes] = {}
        writes = [write for _, _, write in shown["writes"]]
        for write in [_plain(shown.get("seed")), *writes]:
            value = overwrite_of(write)[1]
            paths = map(_key_of, value) if isinstance(value, dict) else ()
            self._digests.update((path, b"") for path in paths if path is not None)

    def apply(self, change: Transaction, writes: Iterable[Any]) -> None:
        """Applies writes of the channel to the files."""
        for write in writes:
            is_new, value = overwrite_of(write)
            if is_new:
                self.replace(change, value)
            elif isinstance(value, dict):
                for path, file in value.items():
                    self._set(change, path, file)

    def replace(self, change: Transaction, files: Any) -> None:
        """Makes the files these."""
        wanted = files if isinstance(files, dict) else {}
        kept = {_key_of(path) for path, file in wanted.items() if file is not None}
        for gone in [path for path in self._digests if path not in kept]:
            self._remove(change, gone)
        for path, file in wanted.items():
            self._set(change, path, file)

    def _set(self, change: Transaction, path: Any, file: Any) -> None:
        key = _key_of(path)
        if key is None:
            return
        if file is None:
            self._remove(change, key)
            return
        content = _content_of(file)
        if content is None or self._digests.get(key) == (digest := _digest(content)):
            return
        try:
            change.put_file(key, content)
        except (InvalidInput, LimitExceeded):  # The path is none of a workspace.
            return
        self._digests[key] = digest

    def _remove(self, change: Transaction, key: str) -> None:
        if self._digests.pop(key, None) is not None:
            change.remove(FILES, key)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, _DeltaSnapshot) else value


def is_files(value: Any) -> bool:
    """Whether a value of the channel ``files`` has files that can be shown."""
    return isinstance(value, dict) and any(_content_of(file) is not None for file in value.values())


def _key_of(path: Any) -> str | None:
    return path.lstrip("/") or None if isinstance(path, str) else None


def _content_of(file: Any) -> bytes | None:
    """The content of a file of deepagents: text, lines, or bytes in base 64."""
    content = file.get("content") if isinstance(file, dict) else None
    if isinstance(content, list) and all(isinstance(line, str) for line in content):
        content = "\n".join(content)
    if not isinstance(content, str):
        return None
    if file.get("encoding") == "base64":
        try:
            return base64.b64decode(content, validate=True)
        except ValueError:
            return None
    return content.encode(errors="replace")


def _digest(record: bytes) -> bytes:
    return hashlib.blake2b(record, digest_size=16).digest()

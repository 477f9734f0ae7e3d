"""The client that the Claude Agent SDK brings, driven against a model on loopback that answers from a script."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sdk = pytest.importorskip("claude_agent_sdk")

import turntree
from turntree.claude import TurntreeSessionStore

CLIENT = Path(sdk.__file__).parent / "_bundled" / "claude"
# The same place from the sources and from where `check` copies the tests to.
PLAY = Path(__file__).parents[3] / "tests" / "clients" / "play"

#: Seconds after which a client that hangs is given up. None of it is waited for otherwise.
PATIENCE = 240

pytestmark = [
    pytest.mark.skipif(not CLIENT.exists(), reason="the SDK brings no client for this platform"),
    pytest.mark.skipif(not PLAY.exists(), reason="the stand-in for the model is in the repository"),
]


class Play:
    """A model that answers from a script, and a client that nothing of this machine reaches."""

    def __init__(self, folder: Path) -> None:
        sys.path.insert(0, str(PLAY))
        try:
            import standin
            import wire
        finally:
            sys.path.remove(str(PLAY))
        self.answer = wire.Answer
        self.folder, self.work = folder, folder / "work"
        self.work.mkdir()
        self.model = standin.StandIn(self.work)
        self.said: set[str] = set()

    def query(self, store: TurntreeSessionStore, prompt: str, reply: str, **options: Any) -> str:
        """Asks in a fresh place for settings. Returns the id of the session."""
        self.model.play([self.answer(reply)])
        self.said |= {prompt, reply}
        home = self.folder / f"home-{uuid.uuid4().hex}"
        home.mkdir()
        given = sdk.ClaudeAgentOptions(
            session_store=store,
            cwd=self.work,
            allowed_tools=["Read"],
            setting_sources=[],
            env={
                "HOME": str(home),
                "CLAUDE_CONFIG_DIR": str(home / "config"),
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{self.model.port}",
                "ANTHROPIC_API_KEY": "nothing-to-keep",
                "NO_PROXY": "127.0.0.1",
                "DISABLE_TELEMETRY": "1",
                "DISABLE_AUTOUPDATER": "1",
                "DISABLE_ERROR_REPORTING": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
            **options,
        )

        async def ask() -> str:
            session, unsaved = "", []
            async for message in sdk.query(prompt=prompt, options=given):
                if isinstance(message, sdk.ResultMessage):
                    assert message.result == reply, message
                    session = message.session_id
                if isinstance(message, sdk.MirrorErrorMessage):
                    unsaved.append(message)
            assert not unsaved, "the client could not keep its transcript in the store"
            return session

        return asyncio.run(asyncio.wait_for(ask(), PATIENCE))

    def heard(self) -> list[str]:
        """What the model was told of this in the newest request; the client adds facts and reminders."""
        texts = [value for _, kind, value in self.model.requests[-1].parts if kind == "text"]
        return [text for text in texts if text in self.said]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    for name in [name for name in os.environ if name.startswith(("CLAUDE", "ANTHROPIC"))]:
        monkeypatch.delenv(name)
    opened = Play(tmp_path)
    yield opened
    opened.model.close()


def test_a_session_goes_on_where_only_the_store_knows_it(play: Play, path: Path) -> None:
    first = TurntreeSessionStore(path)
    session = play.query(first, "my name is Ada", "Hello Ada")
    first.close()

    second = TurntreeSessionStore(path)
    assert play.query(second, "what is my name?", "Ada", resume=session) == session
    assert play.heard() == ["my name is Ada", "Hello Ada", "what is my name?"]

    forked = play.query(second, "and backwards?", "adA", resume=session, fork_session=True)
    assert forked != session
    whole = ["my name is Ada", "Hello Ada", "what is my name?", "Ada", "and backwards?"]
    assert play.heard() == whole
    second.close()

    with turntree.Store(path) as store:
        names = {name for name in store.sessions() if session in name}
        (name,) = names
        roles = [message.role for message in store[name].messages()]
        assert roles == ["user", "assistant"] * 2


def test_a_session_of_a_thousand_turns_goes_on(play: Play, path: Path) -> None:
    store = TurntreeSessionStore(path)
    session = play.query(store, "turn 0", "answer 0")
    key: Any = {"project_key": sdk.project_key_for_directory(play.work), "session_id": session}
    begun: Any = asyncio.run(store.load(key))
    question, answer = (
        next(entry for entry in reversed(begun) if entry["type"] == kind)
        for kind in ("user", "assistant")
    )
    leaf = next(entry for entry in reversed(begun) if entry["type"] == "last-prompt")
    parent, turns = leaf["leafUuid"], []
    for number in range(1, 1000):
        for entry, text in (question, f"turn {number}"), (answer, f"answer {number}"):
            content = text if entry is question else [{"type": "text", "text": text}]
            new = str(uuid.uuid4())
            message = {**entry["message"], "content": content}
            if entry is answer:
                message["id"] = f"msg_{number}"  # Records with one id are parts of one answer.
            turns.append({**entry, "uuid": new, "parentUuid": parent, "message": message})
            play.said.add(text)
            parent = new
    turns.append({**leaf, "leafUuid": parent})
    asyncio.run(store.append(key, turns))

    assert asyncio.run(store.load(key)) == begun + turns
    play.query(store, "and now?", "done", resume=session)
    expected = [f"{kind} {number}" for number in range(1000) for kind in ("turn", "answer")]
    assert play.heard() == [*expected, "and now?"]
    store.close()

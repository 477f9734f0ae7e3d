"""What is played with a client, and the answer to each question: None for yes, or the reason of a no."""

import base64
import os
import time

import checks
from exploring import Exploring
from place import Failed
from replaying import Replaying
from standin import listing
from wire import Answer

DEADLINE = 20.0

# A client that fails, or writes something else than what is expected here.
DRIFT = (Failed, LookupError, TypeError, ValueError, OSError)

FIRST, SECOND, THIRD = "Write the files.", "Go on with the files.", "Try something else."
AGAIN, FORKED, LATER = "Try it in another way.", "Go on as a fork.", "Go on after the summary."
HELPED = "Let a helper do it."
EDITED = "Go on without the last prompt."
WHOLE, ELSEWHERE = "Go on with all of it.", "Go on in a directory of its own."
WAY = "Go on in the way"
# An invented token; this file contains no real one.
TOKEN = "ghp" + "_" + base64.b64encode(bytes(range(7, 34))).decode().replace("+", "A").replace("/", "B")
UNWANTED = "Write what is not wanted."
DIFFERENTLY, MORE = "Keep the header as it was before.", "Go on with the rest."
STOPPED, AFTER = "Begin what takes long.", "Look at what is there."
RECLAIMED, RETURNED = "Continue from the store.", "Continue from the file that came back."
CARRIED, TAKEN_OVER = "Go on from the middle.", "Go on for the other one."


def first_script(client):
    """Writes, lists and removes, with two calls at once among them."""
    return [
        Answer("I write.", [client.write("work.txt", "one\ntwo\n")]),
        Answer("", [client.write("keep.txt", "keep\n"), client.write(client.deep, "ü\n")]),
        Answer("I look.", [client.shell("ls")]),
        Answer("", [client.shell("rm keep.txt work.txt")]),
        Answer("", [client.shell(f"echo made > made.txt; cat {client.deep}")]),
        Answer("First done."),
    ]


def second_script(client):
    return [
        Answer("", [client.write("second.txt", "second\n")]),
        Answer("", [client.shell("rm second.txt; false")]),
        Answer("Second done."),
    ]


def short_script(client, name):
    return [Answer("", [client.write(name, f"{name}\n")]), Answer(f"{name} done.")]


class Play:
    """One client, its stand-in and its place; `answers` has what was found."""

    def __init__(self, client, stand_in):
        self.client, self.stand_in, self.place = client, stand_in, client.place
        self.requests, self.answers = [], {}

    def ask(self, question, check):
        try:
            self.answers[question] = check()
        except DRIFT as failure:
            self.answers[question] = f"{type(failure).__name__}: {failure}"

    def said(self, script, say, *arguments):
        """Has the client play a script to its end; gives its session."""
        self.stand_in.play(script)
        session = say(*arguments)
        left = len(self.stand_in.script)
        if left:
            raise Failed(f"the client ended {left} answers before the end of the script")
        return session

    def last(self):
        return self.stand_in.requests[-1]

    def kept(self, session):
        """The session's name in the store, once all of it is there."""
        if not self.client.hooks:
            self.place.turntree("adopt", self.client.history())
        name = self.client.stored_as(session)
        # One that has failed need not be waited for again.
        deadline = 0 if self.answers.get("source") else DEADLINE
        reason = checks.source(self.client, session, name, deadline)
        self.answers["source"] = self.answers.get("source") or reason
        return name

    def helped(self, session):
        """A sub-agent has its own conversation, and the main one has only its answer."""
        begun = self.client.helper("Help with it.")
        script = [Answer("I ask.", [begun]), *short_script(self.client, "helped.txt"), Answer("All done.")]
        self.said(script, self.client.say, HELPED, session)
        name = self.kept(session)
        helpers = checks.helpers(self.place, name)
        if len(helpers) != 1:
            return f"the session has the sub-agents {helpers}"
        own = checks.context(self.client, self.stand_in.requests[-2], name, helpers[0])
        return own or checks.context(self.client, self.last(), name)

    def context_of(self, session):
        return checks.context(self.client, self.last(), self.kept(session))

    def whole(self):
        """Everything, in order. What cannot be played any more is missing from the answers."""
        client = self.client
        self.place.turntree("init")
        if client.hooks:
            told = ["--lessons"] if client.learns else []
            self.place.turntree("hook", "install", client.hooks, "--user", "--rollback", *told)
        session = self.said(first_script(client), client.say, FIRST)
        self.requests += self.stand_in.requests
        self.ask("context", lambda: self.context_of(session))
        self.said(second_script(client), client.say, SECOND, session)
        self.requests += self.stand_in.requests
        self.ask("resume", lambda: self.context_of(session))
        name = self.kept(session)
        self.ask("files", lambda: checks.files(client, self.requests, name))
        if client.rewinds:
            self.ask("rewind", lambda: self.rewound(session))
        if client.forks:
            self.ask("fork", lambda: self.forked(session))
        if client.helps:
            self.ask("sub-agent", lambda: self.helped(session))
        if client.compacts:
            self.ask("compaction", lambda: self.compacted(session))
        if client.resumes:
            self.ask("carry-on", lambda: self.carried(session))
            self.ask("take-over", self.taken_over)
            self.ask("edit", lambda: self.edited(session))
            self.ask("worktree", lambda: self.elsewhere(session))
            if client.compacts:
                self.ask("uncompact", lambda: self.uncompacted(session))
        if client.tries:
            self.ask("two-ways", lambda: self.tried(session))
        if client.interrupts:
            self.ask("interrupted", lambda: self.interrupted(session))
        self.ask("rollback", lambda: checks.rollback(client, self.requests, name, "rm keep.txt"))
        self.ask("kinds", self.known_kinds)
        if client.hooks:
            self.ask("said-back", lambda: self.said_back(session))
            self.ask("own-edits", lambda: self.own_edits(session))
            if client.learns:
                self.ask("learned", lambda: self.learned(session))
        if client.explores:
            # One of them is killed.
            self.ask("explored", Exploring(self, client.hooks == "claude-code").whole)
        if client.replays:
            self.ask("replayed", Replaying(self).whole)
        if client.shrinks:
            self.ask("reclaimed", lambda: self.reclaimed(session))
        return self.answers

    def rewound(self, session):
        mark = self.client.mark_of_now(session)
        self.said(short_script(self.client, "bad.txt"), self.client.say, THIRD, session)
        self.said(short_script(self.client, "good.txt"), self.client.rewind, AGAIN, session, mark)
        return self.context_of(session)

    def forked(self, session):
        script = short_script(self.client, "forked.txt")
        forked = self.said(script, self.client.fork, FORKED, session)
        reason = self.context_of(forked)
        if reason or not self.client.relates:
            return reason
        (compared,) = self.place.turntree_lines("compare", *map(self.client.stored_as, (session, forked)))
        return None if compared["fork"] else "the fork shares no turn with its origin"

    def known_kinds(self):
        """Every record that the client wrote is of a kind that the table of its format lists."""
        fresh = self.place.work.parent / "kinds"
        (adopted,) = self.place.turntree_lines("--store", fresh, "adopt", self.client.history())
        unread = {kind: count for agent in adopted["agents"] for kind, count in agent.get("unread", {}).items()}
        return f"records of unknown kinds: {unread}" if unread else None

    def said_back(self, session):
        """A prompt that asks to go back is answered by the hook: files are back, and the model hears nothing."""
        before = listing(self.place.work)
        for wish in self.client.wishes:
            self.said(short_script(self.client, "unwanted.txt"), self.client.say, UNWANTED, session)
            if "unwanted.txt" not in listing(self.place.work):
                return "the file that is to go was not written"
            self.said([], self.client.say, wish, session)
            if self.stand_in.requests:
                return f"the model was asked {wish!r}"
            if listing(self.place.work) != before:
                return f"after {wish!r} the files are {sorted(listing(self.place.work))}"
        return None

    def own_edits(self, session):
        """What a person changes between two prompts is there again after going back."""
        mine = self.place.work / "mine.txt"
        script = [Answer("", [self.client.shell("echo agent > mine.txt; echo agent > made.txt")]), Answer("Done.")]
        mine.write_text("by hand\n")
        (self.place.work / "made.txt").write_text("by hand\n")
        before = listing(self.place.work)
        self.said(script, self.client.say, UNWANTED, session)
        if mine.read_text() != "agent\n":
            return "the agent did not overwrite the file"
        self.said([], self.client.say, self.client.wishes[0], session)
        if listing(self.place.work) != before:
            return f"the files are {listing(self.place.work)}, and they were {before}"
        return None

    def learned(self, session):
        """What a person answers after going back is told to the agent from then on."""
        self.said(short_script(self.client, "worse.txt"), self.client.say, UNWANTED, session)
        self.said([], self.client.say, self.client.wishes[0], session)
        self.said(short_script(self.client, "better.txt"), self.client.say, DIFFERENTLY, session)
        self.said(short_script(self.client, "rest.txt"), self.client.say, MORE, session)
        said = [value for _, kind, value in self.last().parts if kind == "text" and "Active lessons" in value]
        return None if any(DIFFERENTLY in text for text in said[-1:]) else f"{len(said)} texts tell lessons"

    def interrupted(self, session):
        """The files of a call that was interrupted are in its turn, and not in that of the next prompt."""
        half, precious = self.place.work / "half.txt", self.place.work / "precious.txt"
        precious.write_text("precious\n")
        command = "echo half > half.txt; rm precious.txt; sleep 30"
        self.stand_in.play([Answer("", [self.client.shell(command)]), Answer("Never said.")])
        self.client.interrupted(STOPPED, session, lambda: half.exists() and not precious.exists())
        self.said([Answer("Looked.")], self.client.say, AFTER, session)
        name = self.kept(session)
        told = {entry["turn"]: entry["message"] for entry in self.place.turntree_lines("log", name)}
        begun = next((turn for turn in told if told[turn].startswith(STOPPED)), None)
        files = {turn: files for turn, _, files in checks.turns(self.place, name)}
        if begun is None or "precious.txt" not in files[begun]:
            return "the turn of the prompt has not what was there before"
        if "half.txt" not in files.get(begun + 1, {}) or "precious.txt" in files[begun + 1]:
            return f"the turn of the call has {sorted(files.get(begun + 1, {}))}"
        return None

    def carried(self, session):
        """A turn in the middle goes on as a session of its own, in the same agent."""
        name = self.kept(session)
        turns = [entry["turn"] for entry in self.place.turntree_lines("log", name)]
        return self.resumed(f"{name}^{{turn:{sorted(turns)[len(turns) // 2]}}}", CARRIED, "carried.txt")

    def edited(self, session):
        """The session goes on without its newest prompt and all that came of it."""
        [told] = self.place.turntree_lines("edit", self.kept(session), "--drop", "prompt:-1")
        return self.resumed(f"{told['session']}/{told['branch']}", EDITED, "edited.txt")

    def uncompacted(self, session):
        """What a compaction replaced is sent again, from the first prompt on."""
        [told] = self.place.turntree_lines("uncompact", self.kept(session))
        no = self.resumed(f"{told['session']}/{told['branch']}", WHOLE, "whole.txt")
        said = [value for role, kind, value in self.last().parts if (role, kind) == ("user", "text")]
        for prompt in [FIRST, LATER, WHOLE]:
            if not any(prompt in text for text in said):
                return no or f"the request has no prompt {prompt!r}"
        return no

    def elsewhere(self, session):
        """A turn in the middle goes on in a directory of its own, with its files, and leaves the other alone."""
        name, here = self.kept(session), self.place.work
        before = listing(here)
        place = self.place.beside("elsewhere")
        turn = next(turn for turn in checks.turns(self.place, name) if "keep.txt" in turn[2])
        no = self.resumed(f"{name}^{{turn:{turn[0]}}}", ELSEWHERE, "elsewhere.txt", place)
        files = listing(place.work)
        wanted = {**turn[2], "elsewhere.txt": "elsewhere.txt\n"}
        if files != wanted:
            return no or f"the directory has {sorted(files)}, at turn {turn[0]} it had {sorted(turn[2])}"
        if listing(here) != before:
            return no or f"the first directory has {sorted(listing(here))}, it had {sorted(before)}"
        return no

    def taken_over(self):
        """The session of another agent goes on here."""
        self.place.turntree("import", self.place.other_session(), "--session", "other")
        return self.resumed("other", TAKEN_OVER, "taken-over.txt")

    def reclaimed(self, session):
        """A session whose file `shrink` removed is resumed from a store of its own, and from its file once that is
        exported. The store of the hooks would keep the file: it knows that an agent was in the session just now."""
        self.place.environment["TURNTREE_STORE"] = str(self.place.home / "shrunk")
        file = self.client.transcript(session)
        text, month_ago = file.read_bytes(), time.time() - 30 * 24 * 3600
        os.utime(file, (month_ago, month_ago))
        shrunk = self.place.turntree_lines("shrink", file, "--yes")[0]["reclaimed"]
        if file.exists():
            return f"the file stays: {shrunk['kept']}"
        [original] = shrunk["originals"]
        name = f"{original['session']}/{original['branch']}"
        no = self.resumed(name, RECLAIMED, "reclaimed.txt")
        file.write_bytes(self.place.turntree("export", name, "--format", "source", "--allow-secrets"))
        if file.read_bytes() != text:
            return no or "the exported file differs from the removed one"
        self.said(short_script(self.client, "returned.txt"), self.client.say, RETURNED, session)
        return no or checks.context(self.client, self.last(), name)

    def tried(self, session):
        """Two ways from one turn, each in a worktree; the better one goes out without its secrets."""
        name, ways, begun = self.kept(session), [], self.place
        turns = sorted(entry["turn"] for entry in self.place.turntree_lines("log", name))
        revision = f"{name}^{{turn:{turns[len(turns) // 2]}}}"
        for way, told_token in (("small", TOKEN), ("rewrite", "none")):
            place = begun.beside(way)
            [told] = begun.turntree_lines("resume", revision, "--in", self.client.resumes, "--worktree", place.work)
            self.client.place = place
            try:
                if told["prepare"]:
                    self.client.run(*told["prepare"][1:])
                script = short_script(self.client, f"{way}.txt")
                gone_on = self.said(script, self.client.say, f"{WAY} {way}: {told_token}", told["session_id"])
                reason = self.context_of(gone_on)
            finally:
                self.client.place = begun
            if reason or not (place.work / f"{way}.txt").is_file():
                return f"{way}: {reason or 'its file is not there'}"
            ways.append(told["session"])
        [compared] = begun.turntree_lines("compare", *ways)
        own = [way["tool_calls"] for way in compared["strategies"]]
        bundle = begun.home / "small.bundle"
        begun.turntree("bundle", "create", ways[0], "-o", bundle, "--scrub")
        there = ["--store", begun.home / "colleague"]
        begun.turntree(*there, "bundle", "unbundle", bundle)
        text = begun.turntree(*there, "export", ways[0], "--format", "json").decode()
        if TOKEN in text or "[secret: github-token]" not in text:
            return "the token is with the colleague"
        return None if own == [1, 1] else f"the ways have the calls {own}"

    def resumed(self, revision, prompt, file, place=None):
        """Goes on from a revision; in a worktree of its own when a place for it is given."""
        begun = self.place
        where = ["--worktree", place.work] if place else ["--cwd", begun.work]
        [told] = begun.turntree_lines("resume", revision, "--in", self.client.resumes, *where)
        self.client.place = place or begun
        try:
            if told["prepare"]:
                self.client.run(*told["prepare"][1:])
            session = self.said(short_script(self.client, file), self.client.say, prompt, told["session_id"])
            if session != told["session_id"]:
                return f"session {told['session_id']} goes on as {session}"
            return self.context_of(session)
        finally:
            self.client.place = begun

    def compacted(self, session):
        self.said(self.client.before_compaction, self.client.compact, session)
        self.said(short_script(self.client, "later.txt"), self.client.say, LATER, session)
        return self.context_of(session)

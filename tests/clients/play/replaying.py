"""A replay with a real client: a recorded session is played again without a model, in another directory."""

import json

from place import Failed
from standin import listing
from wire import Answer

TASK = "Write the answer."
WRITTEN = {"answer.txt": "42\n", "made.txt": "made\n"}


def script(client):
    """Writes, runs a command and reads, so that the requests have results of each kind."""
    return [
        Answer("I write.", [client.write("answer.txt", "42\n")]),
        Answer("", [client.shell("echo made > made.txt; cat answer.txt")]),
        Answer("I look.", [client.shell("ls")]),
        Answer("It is written."),
    ]


class Replaying:
    """A session in a folder of its own, and a second folder in which it is replayed."""

    def __init__(self, play):
        self.client, self.stand_in, self.play = play.client, play.stand_in, play
        self.place = play.place.beside("recorded")

    def whole(self):
        begun = self.client.place
        self.client.place = self.place
        try:
            return self.replayed()
        finally:
            self.client.place = begun

    def replayed(self):
        self.place.work.mkdir()
        self.place.turntree("init")
        session = self.play.said(script(self.client), self.client.say, TASK)
        name = self.play.kept(session)
        if listing(self.place.work) != WRITTEN:
            return f"the recorded files are {listing(self.place.work)}"
        again = self.place.beside("again")
        self.place.turntree("fork", "again", "--at", f"{name}^{{turn:1}}", "--worktree", again.work)
        for file in listing(again.work):
            (again.work / file).unlink()
        reason = self.all_served(name, again, TASK)
        return reason or self.difference_is_named(name, again)

    def replay(self, name, place, prompt):
        """Replays the session in a place. The stand-in gets no request: its script stays empty."""
        self.stand_in.play([])
        command = [place.program, "--no-pager", "--json", "replay", name, "--", *self.client.command(prompt)]
        ran = place.run(command, **self.client.variables())
        if self.stand_in.requests:
            raise Failed(f"{len(self.stand_in.requests)} requests reached the model")
        try:
            return ran, json.loads(ran.out)
        except ValueError:
            raise Failed(f"replay: exit code {ran.code}, {ran.err.strip()[-300:]}") from None

    def all_served(self, name, place, prompt):
        ran, told = self.replay(name, place, prompt)
        expected = len(script(self.client))
        found = {key: told[key] for key in ("answers", "served", "difference", "result_differences", "refused")}
        wanted = {"answers": expected, "served": expected, "difference": None, "result_differences": [], "refused": 0}
        if ran.code or found != wanted:
            return f"exit code {ran.code}, the replay is {found}, {ran.err.strip()[-200:]}"
        files = listing(place.work)
        return None if files == WRITTEN else f"the files after the replay are {files}"

    def difference_is_named(self, name, place):
        """Another prompt is refused, and no file changes."""
        (place.work / "answer.txt").unlink()
        ran, told = self.replay(name, place, "Write something else.")
        difference = told["difference"] or {}
        if (difference.get("kind"), difference.get("answers"), told["served"]) != ("prompt", 0, 0):
            return f"exit code {ran.code}, another prompt gave {told}"
        if "answer.txt" in listing(place.work):
            return "a refused replay wrote a file"
        return None if told["refused"] else "nothing was refused"

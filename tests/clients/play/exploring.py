"""An exploration with a real client: three strategies from one turn, one of them passes, and is kept; the
tree is aligned, exported, and read by the programs that own the formats. One is killed and continued."""

import json
import os
import time
from pathlib import Path

import checks
from place import Failed
from standin import listing
from wire import Answer

TASK = "Look at the answer."
# What is tried, and what is written for it. Two do the same wrong thing first.
PROMPTS = {"small": "Try it in small steps.", "plain": "Try it in a plain way.", "right": "Try it in the right way."}
CHECK = "cat answer.txt; test $(cat answer.txt) = 42"
SHARED = "shared.txt"
READERS = Path(__file__).parent.parent / "training_readers.py"
PYTHON = Path(__file__).parents[3] / "target" / "training" / "bin" / "python"


def scripts(client):
    """What the model says to each prompt. The slow step is the one in which the program is killed."""
    wrong = Answer("I write 41.", [client.shell("echo 41 > answer.txt")])
    right = Answer("I write 42.", [client.shell("echo 42 > answer.txt")])
    slow = Answer("", [client.shell("echo slow > slow.txt; sleep 1")])
    said = Answer("Done.")
    told = {"small": [wrong, slow, said], "plain": [wrong, said], "right": [right, said]}
    return {PROMPTS[name]: script for name, script in told.items()}


class Exploring:
    """An exploration in a folder of its own, and what is asked of it."""

    def __init__(self, play, kills):
        self.client, self.stand_in, self.kills = play.client, play.stand_in, kills
        self.place, self.play = play.place.beside("explored"), play
        self.trees = self.place.work.parent / "ways"

    def whole(self):
        begun = self.client.place
        self.client.place = self.place
        try:
            return self.explored()
        finally:
            self.client.place = begun
            self.stand_in.scripts = {}

    def explored(self):
        self.place.work.mkdir()
        (self.place.work / SHARED).write_text("shared\n")
        self.place.turntree("init")
        script = [Answer("I look.", [self.client.shell("cat shared.txt")]), Answer("It has no answer.")]
        session = self.play.said(script, self.client.say, TASK)
        name = self.play.kept(session)
        self.stand_in.play([])
        self.stand_in.scripts = scripts(self.client)
        strategies = [word for way, prompt in PROMPTS.items() for word in ("--strategy", f"{way}={prompt}")]
        options = ["--from", name, "--check", CHECK, "--folder", self.trees, "--jobs", "3", *strategies]
        agent = self.client.command("{prompt}", "{session}")
        self.run(["explore", *options, "--", *agent])
        reason = self.outcomes(name) or self.contexts(name) or self.aligned(name) or self.exported(name)
        return reason or self.brought(session, name)

    def run(self, words):
        """Runs the exploration to its end; a killed one is continued."""
        command = [self.place.program, "--no-pager", *words]
        if self.kills:
            process = self.place.start(command, **self.client.variables())
            while not (self.trees / "small" / "slow.txt").exists():
                if process.poll() is not None or time.monotonic() > self.place.until:
                    raise Failed(f"nothing was there to kill: {process.communicate()}")
                time.sleep(0.02)
            process.kill()
            process.communicate()
            command = [self.place.program, "--no-pager", "explore", "continue"]
        ran = self.place.run(command, **self.client.variables())
        if ran.code:
            raise Failed(f"explore: {ran.code} {ran.text()[-300:]} {ran.err[-300:]}")

    def outcomes(self, name):
        [told] = self.place.turntree_lines("explore", "status")
        found = {trial["branch"]: (trial["state"], trial["score"]) for trial in told["trials"]}
        wanted = {"small": ("failed", 41), "plain": ("failed", 41), "right": ("passed", 42)}
        if found != wanted or told["best"] != "right":
            return f"the outcomes are {found}, the best one is {told['best']}"
        if any(not trial["tokens"] for trial in told["trials"]):
            return "a strategy has no tokens: its agent was not recorded"
        return None

    def kept(self):
        files = listing(self.place.work)
        return None if files == {SHARED: "shared\n", "answer.txt": "42\n"} else f"the files kept are {files}"

    def contexts(self, name):
        """Each branch has what its agent sent and got, from the first prompt on."""
        for way, prompt in PROMPTS.items():
            said = [one for one in self.stand_in.requests if any(prompt in value for _, _, value in one.parts)]
            reason = checks.context(self.client, said[-1], f"{name}/{way}")
            if reason:
                return f"{way}: {reason}"
            newest = self.place.turntree_lines("log", f"{name}/{way}")[0]
            if newest["message"] != "the end of its trial":
                return f"{way}: {newest['message']!r} was recorded behind the end of its trial"
        return None

    def aligned(self, name):
        """The first step decides: two wrote 41 and failed."""
        [told] = self.place.turntree_lines("compare", "--align", *PROMPTS)
        decision = told["alignment"]["decision"]
        choices = [(choice["runs"], choice["passed"], choice["failed"]) for choice in decision["choices"]]
        if (decision["separates"], choices) != (True, [(["small", "plain"], 0, 2), (["right"], 1, 0)]):
            return f"the decision is {decision}"
        # The two did the same until one of them did more.
        others = [split["by"] for split in told["alignment"]["splits"] if split["parent"] is not None]
        return None if others == ["call"] else f"the two that failed part by {others}"

    def exported(self, name):
        """The tree is one group with its prompt once, and the owners of two other formats read theirs."""
        folder = self.place.home / "training"
        folder.mkdir()
        for form, file in [("grpo", "groups.jsonl"), ("verifiers", "traces.jsonl"), ("inspect", "log.json")]:
            tree = ["--exploration", "explore", "--format", form, "--allow-secrets"]
            self.place.turntree("export", *tree, "-o", folder / file)
        groups = [json.loads(line) for line in (folder / "groups.jsonl").read_text().splitlines()]
        rewards = [[rollout["reward"] for rollout in group["rollouts"]] for group in groups]
        said = [json.dumps(part) for group in groups for part in (group["prompt"], *group["rollouts"])]
        if rewards != [[0, 0, 1]] or [TASK in part for part in said] != [True, False, False, False]:
            return f"the groups have the rewards {rewards}"
        python = Path(os.environ.get("TURNTREE_TRAINING_PYTHON", PYTHON))
        if not python.exists():
            return None
        ran = self.place.run([python, READERS, folder], PYTHONDONTWRITEBYTECODE="1")
        if ran.code:
            return f"the readers: {ran.err[-300:]}"
        told = json.loads(ran.out)
        traces = [trace for episode in told["episodes"] for trace in episode["traces"]]
        found = [(trace["reward"], trace["last"], sum(trace["sampled"])) for trace in traces]
        found += [(one["scores"]["check"], one["completion"], sum(one["generated"])) for one in told["inspect"]["samples"]]
        answers = [len(script) for script in scripts(self.client).values()]
        wanted = [(reward, "Done.", said) for reward, said in zip([0, 0, 1], answers)]
        return None if found == wanted * 2 else f"the readers read {found}"

    def brought(self, session, name):
        """The agent of the first session goes on, and is given what is merged into its branch, each once: a
        finding of a strategy that failed, and the one that is kept."""
        self.stand_in.scripts = {}

        def heard(prompt):
            self.play.said([Answer("Understood.")], self.client.say, prompt, session)
            parts = self.stand_in.requests[-1].parts
            return [value for _, kind, value in parts if kind == "text" and "turntree: the person merged" in value]

        if told := heard("Go on."):
            return f"before any merge the agent hears {told}"
        finding = "Small steps end at 41."
        into = ["--into", f"{name}/main", "--only", "conversation"]
        self.place.turntree("merge", f"{name}/small", "--messages", "summary", "--summary", finding, *into)
        told = heard("Go on once more.")
        if len(told) != 1 or finding not in told[0]:
            return f"of the finding the agent hears {told}"
        # A late hook of Codex may record a turn while the branch is merged: then it says to try again.
        for left in (2, 1, 0):
            try:
                self.place.turntree("explore", "keep")
                break
            except Failed as failed:
                if ": 3 error" not in str(failed) or not left:
                    raise
        if reason := self.kept():
            return reason
        told = heard("Use it.")
        if len(told) != 2 or f"merged {name}/right" not in told[1] or "answer.txt" not in told[1]:
            return f"of the strategy that was kept the agent hears {told}"
        return None if heard("And go on.") == told else "the agent hears of a merge twice"

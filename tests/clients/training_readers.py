"""Reads exports for training with the programs that own the formats: verifiers and inspect-ai.

Arguments: a folder with traces.jsonl and log.json. Prints what was read as one JSON document.
"""

import json
import sys
from pathlib import Path

from inspect_ai.log import read_eval_log
from verifiers.v1.trace import WireTrace
from verifiers.v1.utils.trace_store import read_episodes

folder = Path(sys.argv[1])

episodes = []
for episode in read_episodes(folder, WireTrace):
    traces = []
    for trace in episode.traces:
        branch = trace.branches[-1]
        traces.append(
            {
                "agent": trace.agent.name,
                "reward": trace.reward,
                "branches": trace.num_branches,
                "turns": trace.num_turns,
                "roles": [message.role for message in branch.messages],
                "sampled": [node.sampled for node in branch.nodes],
                "last": trace.last_reply,
                "parent": trace.info["parent"],
            }
        )
    episodes.append({"group": episode.group.id, "prompt": episode.task.data.prompt, "traces": traces})

log = read_eval_log(str(folder / "log.json"))
samples = [
    {
        "id": sample.id,
        "input": sample.input,
        "roles": [message.role for message in sample.messages],
        "generated": [message.source == "generate" for message in sample.messages],
        "calls": [
            {"function": call.function, "arguments": call.arguments}
            for message in sample.messages
            for call in getattr(message, "tool_calls", None) or []
        ],
        "completion": sample.output.completion,
        "scores": {name: score.value for name, score in (sample.scores or {}).items()},
    }
    for sample in log.samples
]
inspect = {
    "status": log.status,
    "mean": log.results.scores[0].metrics["mean"].value,
    "samples": samples,
}
json.dump({"episodes": episodes, "inspect": inspect}, sys.stdout)

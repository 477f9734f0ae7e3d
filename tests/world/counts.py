"""Tokens of a transcript, counted without turntree: only where the format makes that simple."""

import json

FIELDS = ("input", "output")


def records(content):
    for line in content.decode(errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def number(usage, name):
    value = usage.get(name)
    return value if isinstance(value, int) else 0


def claude_code(content):
    """The largest numbers that an answer was recorded with, over the ids of answers."""
    answers = {}
    for record in records(content):
        if record.get("type") == "progress" or "message" not in record or record.get("type") != "assistant":
            if "agent_progress" in json.dumps(record.get("data", "")):
                return None
            continue
        message = record["message"]
        usage = message.get("usage")
        if not isinstance(usage, dict):
            continue
        if any(part.get("type") != "message" for part in usage.get("iterations") or []):
            return None
        taken = sum(number(usage, name) for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"))
        key = message.get("id") or record.get("uuid") or len(answers)
        before = answers.get(key, (0, 0))
        answers[key] = (max(before[0], taken), max(before[1], number(usage, "output_tokens")))
    return total(answers.values())


def codex(content):
    """The last sum of a rollout that is no fork, and whose sum never falls."""
    last, sessions = None, 0
    for record in records(content):
        payload = record.get("payload") or {}
        sessions += record.get("type") == "session_meta"
        if payload.get("type") == "token_usage_record" or payload.get("forked_from_id") or record.get("type") == "token_usage_record":
            return None
        if payload.get("type") != "token_count":
            continue
        usage = (payload.get("info") or {}).get("total_token_usage")
        if not usage:
            continue
        now = (number(usage, "input_tokens"), number(usage, "output_tokens"))
        if last and (now[0] < last[0] or now[1] < last[1]):
            return None
        last = now
    return dict(zip(FIELDS, last)) if last and sessions == 1 else None


def pi(content):
    """Answers by the id of their record."""
    answers = {}
    for record in records(content):
        usage = (record.get("message") or {}).get("usage") if record.get("type") == "message" else None
        if isinstance(usage, dict):
            taken = sum(number(usage, name) for name in ("input", "cacheRead", "cacheWrite"))
            answers[record.get("id") or len(answers)] = (taken, number(usage, "output"))
    return total(answers.values())


def gemini(content):
    """Messages of a session by their id, the last record of each; input has what tools took, output the thoughts."""
    try:
        document = json.loads(content)
        listed = document.get("messages", []) if isinstance(document, dict) else document
    except ValueError:
        listed = []
        for record in records(content):
            if "$set" in record or "$rewindTo" in record:
                return None
            listed.append(record)
    answers = {}
    for message in listed:
        tokens = message.get("tokens")
        if isinstance(tokens, dict):
            taken = number(tokens, "input") + number(tokens, "tool")
            answers[message.get("id") or len(answers)] = (taken, number(tokens, "output") + number(tokens, "thoughts"))
    return total(answers.values())


def total(answers):
    answers = list(answers)
    return {"input": sum(each[0] for each in answers), "output": sum(each[1] for each in answers)}


COUNTS = {"claude-code": claude_code, "codex": codex, "pi": pi, "gemini-cli": gemini}

"""What must hold in exports for other tools, whatever was recorded. Each check says what is wrong, or nothing."""

import json
import re

# What stands before a conversation that begins with an answer, where an agent needs a prompt first.
BEGINS = ("user", "[the conversation begins here]", [], None)
CALL_ID = re.compile(r"[A-Za-z0-9_-]+")


def openai(document):
    """Roles are known, and the results of an answer stand right behind it, one for each call."""
    open_calls = []
    for at, message in enumerate(document["messages"]):
        role = message["role"]
        if role not in ("system", "user", "assistant", "tool"):
            return f"message {at} has the role {role}"
        if role == "tool":
            if message["tool_call_id"] not in open_calls:
                return f"message {at} is a result without a call"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return f"calls before message {at} have no result: {open_calls}"
        calls = message.get("tool_calls", [])
        open_calls = [call["id"] for call in calls]
        for call in calls:
            if not CALL_ID.fullmatch(call["id"]) or not isinstance(json.loads(call["function"]["arguments"]), dict):
                return f"message {at} has a call that the interface refuses"
        if len(set(open_calls)) != len(open_calls):
            return f"message {at} has an id of a call twice"
        if not calls and not message.get("content"):
            return f"message {at} is empty"
    return f"calls at the end have no result: {open_calls}" if open_calls else ""


def anthropic(document):
    """Roles alternate beginning with a user, every tool is named, and results follow their calls at once."""
    tools, open_calls = {tool["name"] for tool in document.get("tools", [])}, []
    for at, message in enumerate(document["messages"]):
        if message["role"] != ("assistant" if at % 2 else "user"):
            return f"message {at} has the role {message['role']}"
        parts = message["content"]
        if isinstance(parts, str):
            parts = [{"type": "text", "text": parts}]
        if not parts:
            return f"message {at} is empty"
        results = [part["tool_use_id"] for part in parts if part["type"] == "tool_result"]
        if sorted(results) != sorted(open_calls):
            return f"message {at} has the results {results} for the calls {open_calls}"
        if any(part["type"] != "tool_result" for part in parts[: len(results)]):
            return f"message {at} has a result behind something else"
        if any(part["type"] == "text" and not part["text"].strip() for part in parts):
            return f"message {at} has an empty text"
        calls = [part for part in parts if part["type"] == "tool_use"]
        if calls and message["role"] == "user":
            return f"message {at} is a call of a user"
        if any(call["name"] not in tools or not isinstance(call["input"], dict) for call in calls):
            return f"message {at} has a call of a tool that is not listed"
        open_calls = [call["id"] for call in calls]
    return f"calls at the end have no result: {open_calls}" if open_calls else ""


def atif(document):
    """Steps are numbered from 1, and an observation names a call of its own step."""
    if not document["schema_version"].startswith("ATIF-v1"):
        return f"the schema is {document['schema_version']}"
    for number, step in enumerate(document["steps"], 1):
        if step["step_id"] != number:
            return f"step {number} has the number {step['step_id']}"
        if step["source"] not in ("user", "agent", "system"):
            return f"step {number} has the source {step['source']}"
        calls = {call["tool_call_id"] for call in step.get("tool_calls") or []}
        for result in (step.get("observation") or {}).get("results", []):
            named = result.get("source_call_id")
            if named is not None and named not in calls:
                return f"step {number} has a result of the call {named}, which it does not make"
    return ""


def sent(document):
    """What `openai` says, without instructions and what forms of agents say in different ways.

    Without the instructions between them, two answers are one in every form.
    """
    messages = []
    for message in document["messages"]:
        if message["role"] == "system":
            continue
        role, content, calls, result = plain(message)
        if role == "assistant" and messages and messages[-1][0] == "assistant":
            _, before, calls_before, _ = messages.pop()
            content, calls = "\n".join(filter(None, [before, content])) or None, calls_before + calls
        messages.append((role, content, calls, result))
    return messages[1:] if messages[:1] == [BEGINS] else messages


def plain(message):
    calls = [(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message.get("tool_calls", [])]
    content = message.get("content")
    if isinstance(content, list):
        content = [part | {"text": marked(part["text"])} if part["type"] == "text" else part for part in content]
    elif content:
        content = marked(content.strip()) or None
    return message["role"], content, calls, message.get("tool_call_id")


def marked(text):
    """A prompt that Gemini CLI would take for a command of its own has a mark before it."""
    return text.removeprefix("[prompt]").lstrip()
